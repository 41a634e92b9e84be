/**
 * Long texts beside a message, as they stand in its text: a header line, then the text in a fence. The
 * twin of chatapp/attached.py, which says why; tests/fixtures/attached.json holds both to it.
 *
 * @typedef {import('./drafts.js').Attached} Attached
 */

import { undirected } from './names.js';

const HEADER = /^Attached: ([^\n]{1,100}) \([0-9]{1,9} characters\)$/u;
const FENCE = /^~{4,}$/;
const PREVIEW_CHARS = 120;

/**
 * A message of what stands in the box and beside it.
 * @param {string} text
 * @param {Attached[]} attached
 */
export function withAttached(text, attached) {
  return [text, ...attached.map(block)].filter((part) => part.trim() !== '').join('\n\n');
}

/** @param {Attached} attached */
function block({ name, text }) {
  const longest = text.split('\n').filter((line) => FENCE.test(line)).reduce((most, line) => Math.max(most, line.length), 3);
  const fence = '~'.repeat(longest + 1);
  return `Attached: ${oneLine(name)} (${[...text].length} characters)\n${fence}\n${text}\n${fence}`;
}

/** @param {string} name */
function oneLine(name) {
  return undirected(name).replace(/\s+/g, ' ').trim().slice(0, 80) || 'Text';
}

/**
 * In their order; what was written has no name. A header without a fence that is closed is text.
 * @param {string} text
 * @returns {Attached[]}
 */
export function partsOf(text) {
  const lines = text.split('\n');
  /** @type {Map<string, number[]>} */
  const fences = new Map();
  lines.forEach((line, n) => {
    if (!FENCE.test(line)) return;
    const places = fences.get(line);
    if (places) places.push(n);
    else fences.set(line, [n]);
  });
  /** @type {Attached[]} */
  const parts = [];
  let begun = 0;
  for (let n = 0; n < lines.length - 1; n += 1) {
    const header = HEADER.exec(lines[n]);
    const end = header && after(fences.get(lines[n + 1]) ?? [], n + 1);
    if (!header || !end) continue;
    add(parts, lines.slice(begun, n));
    parts.push({ name: undirected(header[1]) || 'Text', text: lines.slice(n + 2, end).join('\n') });
    begun = end + 1;
    n = end;
  }
  add(parts, lines.slice(begun));
  return parts;
}

/** @param {string} text its first words, to tell it from others */
export function preview(text) {
  const words = [...text.slice(0, PREVIEW_CHARS * 8)].slice(0, PREVIEW_CHARS * 4).join('').split(/\s+/).filter((word) => word !== '');
  return [...words.join(' ')].slice(0, PREVIEW_CHARS).join('');
}

/**
 * @param {Attached[]} parts
 * @param {string[]} lines
 */
function add(parts, lines) {
  let [from, to] = [0, lines.length];
  while (from < to && lines[from] === '') from += 1;
  while (to > from && lines[to - 1] === '') to -= 1;
  if (to > from) parts.push({ name: '', text: lines.slice(from, to).join('\n') });
}

/**
 * The first place behind one, of places in their order.
 * @param {number[]} places
 * @param {number} place
 */
function after(places, place) {
  let [from, to] = [0, places.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (places[middle] <= place) from = middle + 1;
    else to = middle;
  }
  return places[from];
}
