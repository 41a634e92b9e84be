/**
 * Lists and tables grow at their end: once a point or a row is whole, what follows is read without
 * those above it, so that the sixtieth row of a table costs what the second did.
 *
 * Holds for as long as no line within is empty: that makes a list a loose one, which reaches back. Then,
 * as when anything but the one list or table comes out, all of the open block is read.
 *
 * @typedef {import('./rules.js').Token} Token
 * @typedef {object} Growing
 * @property {string} type of the block's first token
 * @property {string} markup of the points of a list
 * @property {string} head what rows are read under; '' for a list
 * @property {number} at where the first part begins that may still change, in units of the open block
 * @property {number} settled parts above it
 */

const EMPTY_LINE = /^[ \t]*\n/m;
/** What ends each for good. After an empty line a list may go on: with a mark, or indented. */
const ENDS = { table: /\n[ \t]*\n/, list: /\n[ \t]*\n(?=[^\s*+\-\d])/ };

/**
 * @param {Token[]} tokens of an open block
 * @param {string} open its text
 * @returns {Growing | null} how it may be gone on with
 */
export function growing(tokens, open) {
  if (!alone(tokens) || EMPTY_LINE.test(open)) return null;
  const { type, markup } = tokens[0];
  if (type === 'table_open') {
    const body = open.indexOf('\n', open.indexOf('\n') + 1) + 1;
    const start = { type, markup, head: open.slice(0, body), at: body, settled: 0 };
    return body > 0 && tokens.some((token) => token.type === 'tbody_open') ? grown(start, tokens, open.slice(body)) : null;
  }
  return type.endsWith('_list_open') ? grown({ type, markup, head: '', at: 0, settled: 0 }, tokens, open) : null;
}

/**
 * @param {Growing} from
 * @param {Token[]} tokens of its head and what follows
 * @param {string} rest what follows
 * @returns {Growing | null} null if that is not only more of the same
 */
export function grown(from, tokens, rest) {
  if (!alone(tokens) || EMPTY_LINE.test(rest)) return null;
  if (tokens[0].type !== from.type || tokens[0].markup !== from.markup) return null;
  if (from.head !== '') {
    const above = rest.slice(0, rest.lastIndexOf('\n', rest.lastIndexOf('\n') - 1) + 1);
    return { ...from, at: from.at + above.length, settled: from.settled + above.split('\n').length - 1 };
  }
  const points = tokens.filter(({ type, level }) => type === 'list_item_open' && level === 1);
  let last = 0;
  for (let line = 0; line < points[points.length - 1].map[0]; line += 1) last = rest.indexOf('\n', last) + 1;
  return { ...from, at: from.at + last, settled: from.settled + points.length - 1 };
}

/** Where what follows ends the block, or -1. @param {Growing} growing @param {string} rest */
export function endOf({ head }, rest) {
  const found = ENDS[head === '' ? 'list' : 'table'].exec(rest);
  return found ? found.index + found[0].length : -1;
}

/** Without empty lines at the end: they say nothing yet. @param {string} rest */
export function solid(rest) {
  const text = rest.trimEnd();
  return rest.slice(text.length).split('\n').length > 2 ? `${text}\n` : rest;
}

/** One block and nothing beside it. @param {Token[]} tokens */
function alone(tokens) {
  return tokens.length > 1 && tokens.findIndex(({ level, nesting }) => level === 0 && nesting === -1) === tokens.length - 1;
}

/** What the points or rows of a block are in. @param {Element} block */
export function holderOf(block) {
  return (block.className === 'table' ? block.querySelector('tbody') : null) ?? block;
}

/** @param {Element} block @returns {Element[]} its points, or rows but for the head */
export function partsOf(block) {
  const holder = holderOf(block);
  return holder.className === 'table' ? [] : [...holder.children];
}
