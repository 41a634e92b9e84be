/** What test_prose.py asks a page to do: stream texts in pieces and compare the trees. */
import { installProse } from '/static/chat/markdown/code.js';
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

const ALLOWED = new Set(
  'a blockquote br button code del div em figcaption figure h3 h4 h5 h6 hr li ol p pre s span strong table tbody td th thead tr ul'.split(' '),
);
const MATHS = 'http://www.w3.org/1998/Math/MathML';

/** What is not to be in a tree of prose. */
export function strange(root) {
  return [...root.querySelectorAll('*')].flatMap((element) => {
    const found = [];
    if (element.namespaceURI === MATHS ? element.hasAttribute('href') : !ALLOWED.has(element.localName)) found.push(element.outerHTML);
    for (const { name, value } of element.attributes) {
      if (/^on|^id$|^name$|src|style|ping|action/.test(name) && element.namespaceURI !== MATHS) found.push(`${name}=${value}`);
      if (name === 'href' && !/^(https?:\/\/[0-9a-z[]|mailto:.)/i.test(value)) found.push(value);
    }
    return found;
  });
}

/** Streams a text in pieces of this length, with what comes after a block is closed; what is strange then. */
export async function stream(text, step) {
  const place = box();
  const view = new MarkdownView(place, { calm: false });
  const letters = step < text.length ? [...text] : [text];
  const size = step < text.length ? step : 1;
  const found = [];
  for (let at = 0; at < letters.length; at += size) {
    view.append(letters.slice(at, at + size).join(''));
    found.push(...strange(place));
  }
  view.finish();
  await new Promise((done) => requestIdleCallback(done, { timeout: 100 }));
  found.push(...strange(place));
  const shown = place.textContent.length;
  place.remove();
  return { found, shown };
}

/** The longest time that each of these flushes takes, in ms. */
export function slowest(text, step) {
  const place = box();
  const view = new MarkdownView(place, { calm: false });
  let worst = 0;
  for (let at = 0; at < text.length; at += step) {
    const begun = performance.now();
    view.append(text.slice(at, at + step));
    worst = Math.max(worst, performance.now() - begun);
  }
  const begun = performance.now();
  view.finish();
  worst = Math.max(worst, performance.now() - begun);
  const shown = place.textContent.length;
  place.remove();
  return { worst, shown };
}

/** How many elements a stream makes, cut into pieces of `step` characters. */
export function made(text, step) {
  const { createElement } = document;
  let count = 0;
  document.createElement = (name) => {
    count += 1;
    return createElement.call(document, name);
  };
  try {
    const view = new MarkdownView(box(), { calm: false });
    for (let at = 0; at < text.length; at += step) view.append(text.slice(at, at + step));
    view.finish();
  } finally {
    delete document.createElement;
  }
  return count;
}

/** Which of these languages get colours, each with a line of its own. */
export async function coloured(lines) {
  const boxes = Object.entries(lines).map(([language, line]) => {
    const place = box();
    new MarkdownView(place, { calm: false }).show(`\`\`\`${language}\n${line}\n\`\`\`\n\nEnd.`);
    return [language, place.querySelector('code')];
  });
  const last = boxes.at(-1)[1];
  while (last.childElementCount === 0) await new Promise((done) => setTimeout(done, 20));
  return Object.fromEntries(boxes.map(([language, code]) => [language, [...code.children].map((one) => one.className).join(' ')]));
}

/** The source that a formula is typeset from when its page is loaded while the answer is written. */
export async function typesetTwice(text) {
  const place = box();
  place.className = 'words prose';
  place.append(...wanted(text));
  const view = new MarkdownView(place, { calm: false });
  const words = { copy: '', copied: '', failed: '' };
  installProse(document.body, { words, announce: () => undefined });
  view.show(text);
  const later = box(); // its formula comes after all that were asked for
  new MarkdownView(later, { calm: false }).show('$last$\n\nEnd.\n');
  while (!later.querySelector('math')) await new Promise((done) => setTimeout(done, 20));
  const sources = [...place.querySelectorAll('annotation')].map((source) => source.textContent);
  place.remove();
  later.remove();
  return sources;
}

/** Where each character of the first `selector` stands, from left to right. */
export function seenAs(text, selector) {
  const place = box();
  place.className = 'words prose';
  new MarkdownView(place, { calm: false }).show(text);
  const node = place.querySelector(selector).firstChild;
  const range = document.createRange();
  const letters = [...node.data].map((letter, at) => {
    range.setStart(node, at);
    range.setEnd(node, at + 1);
    return [range.getBoundingClientRect().left, letter];
  });
  place.remove();
  return letters.sort(([a], [b]) => a - b).map(([, letter]) => letter).join('');
}

/** For each cell of a table, which edges its words touch. */
export function edges(text) {
  const place = box();
  place.className = 'words prose';
  new MarkdownView(place, { calm: false }).show(text);
  const seen = [...place.querySelectorAll('tr')].map((row) => [...row.cells].map((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    const [words, whole] = [range.getBoundingClientRect(), cell.getBoundingClientRect()];
    return words.left - whole.left < whole.right - words.right ? 'left' : 'right';
  }));
  place.remove();
  return seen;
}

/** What stands before the last word of the first block of code, at its left. */
export function indents(text) {
  const place = box();
  place.className = 'words prose';
  new MarkdownView(place, { calm: false }).show(text);
  const code = place.querySelector('pre code');
  const { data } = code.firstChild;
  const range = document.createRange();
  const line = data.lastIndexOf('\n', data.length - 2) + 1;
  const left = place.querySelector('pre').getBoundingClientRect().left;
  range.setStart(code.firstChild, line);
  range.setEnd(code.firstChild, data.length - 1);
  const indent = data.slice(line).replace(/\S.*/s, '');
  const near = range.getBoundingClientRect().left - left < 40;
  place.remove();
  return near ? indent : '';
}
