/** What test_prose.py asks a page to do: stream texts in pieces and compare the trees. */
import { LABELS, build } from '/static/chat/markdown/nodes.js';
import { parse, prepared } from '/static/chat/markdown/rules.js';
import { same } from '/static/chat/markdown/same.js';
import { MarkdownView } from '/static/chat/markdown/view.js';

/** Numbers that look random and are the same every time. */
export function dice(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** The text cut at places that a stream may be cut at: never within a character. */
function pieces(text, roll) {
  const letters = [...text];
  const cuts = 1 + roll(Math.min(40, letters.length + 1));
  const places = [...new Set(Array.from({ length: cuts }, () => roll(letters.length + 1)))].sort((a, b) => a - b);
  return [...places, letters.length].map((to, index) => letters.slice(index ? places[index - 1] : 0, to).join(''));
}

const wanted = (text) => build(document, parse(prepared(text)), LABELS);
const box = () => document.body.appendChild(document.createElement('div'));
const equal = (shown, blocks) => shown.length === blocks.length && blocks.every((block, at) => same(shown[at], block));

/** What differs between the server's tree and ours: [index of the text, theirs, ours]. */
export function againstServer(texts, htmls) {
  return texts.flatMap((text, index) => {
    const server = document.createElement('div');
    server.innerHTML = htmls[index];
    const blocks = wanted(text);
    if (equal([...server.children], blocks) && server.childNodes.length === blocks.length) return [];
    return [[text, htmls[index], blocks.map((block) => block.outerHTML).join('')]];
  });
}

/** Streams each text `times` times; what differs from the text read at once, and how many streams there were. */
export function streamed(texts, seed, times) {
  const roll = dice(seed);
  const differ = [];
  let streams = 0;
  for (const text of texts) {
    const blocks = wanted(text);
    for (let n = 0; n < times; n += 1) {
      const parts = pieces(text, roll);
      const place = box();
      const view = new MarkdownView(place, { calm: roll(8) === 0 });
      const start = roll(4) === 0 ? roll(parts.length) : 0;
      if (start > 0) view.show(parts.slice(0, start).join(''));
      for (const part of parts.slice(start)) view.append(part);
      view.finish();
      streams += 1;
      if (!equal([...place.children], blocks)) differ.push([text, JSON.stringify(parts), place.innerHTML]);
      place.remove();
    }
  }
  return { streams, differ };
}

/** Letter by letter: changes below blocks that were closed, and blocks that the end changed. */
export async function touched(text, step) {
  const place = box();
  const view = new MarkdownView(place, { calm: false });
  const closed = new Set();
  let changes = [];
  const look = (records) => {
    for (const { target, removedNodes, type } of records) {
      const inside = [...closed].some((block) => block !== target && block.contains(target) || block === target);
      const removed = [...removedNodes].some((node) => closed.has(node));
      if (inside || removed) changes.push(`${type} in ${target.nodeName} ${target.textContent.slice(0, 60)}`);
    }
  };
  const observer = new MutationObserver(look);
  observer.observe(place, { subtree: true, childList: true, characterData: true, attributes: true });
  for (let at = 0; at < text.length; at += step) {
    view.append(text.slice(at, at + step));
    look(observer.takeRecords());
    // A whole line closes all blocks but the last, which may go on.
    if (text[Math.min(at + step, text.length) - 1] !== '\n') continue;
    for (const block of [...place.children].slice(0, -1)) closed.add(block);
  }
  view.finish();
  look(observer.takeRecords());
  observer.disconnect();
  const blocks = place.children.length;
  place.remove();
  return { changes, blocks };
}
