/**
 * The language of answers: CommonMark with tables and strikethrough, maths, and no HTML.
 *
 * The twin of chatapp/rendering/rules.py; tests/fixtures/markdown/ holds both to the same trees.
 * Everything is bounded: what is nested deeper or is longer than the limits is shown as it was typed.
 *
 * @typedef {any} Token a token of markdown-it, or one of ours: `plain`, `math_block`, `math_inline`
 * @typedef {any} State
 */
import { MarkdownIt } from '../../vendor/markdown.js';
import { DIRECTIONS } from '../names.js';
import { trimmed } from './blanks.js';
import { isLink } from './links.js';

/** Levels of quotes and lists (a list has two). Nobody reads twenty lists in one another. */
export const MAX_LEVEL = 40;
/** UTF-16 units of a whole text: 60,000 tokens, far above what models write; 0.2 s to parse. */
export const MAX_UNITS = 262_144;
/** UTF-16 units of one paragraph or cell: what grows with the square in a parser grows to here. */
export const MAX_INLINE_UNITS = 20_000;
/** UTF-16 units of one formula within a line, and lines of one that stands alone. */
export const MAX_MATH_UNITS = 1_000;
export const MAX_MATH_LINES = 200;

const parser = new MarkdownIt('commonmark', { html: false, maxNesting: MAX_LEVEL + 10 });
parser.enable(['table', 'strikethrough']);
parser.validateLink = isLink;
// As it was typed: decoded again, one alphabet can look like another.
parser.normalizeLinkText = (/** @type {string} */ text) => text;
parser.block.ruler.before('table', 'too_deep', tooDeep);
const INTERRUPTS = { alt: ['paragraph', 'reference', 'blockquote', 'list'] };
parser.block.ruler.before('fence', 'math_block', mathBlock, INTERRUPTS);
parser.inline.ruler.before('escape', 'math_inline', mathInline);
parser.core.ruler.before('inline', 'too_long', tooLong);
parser.core.ruler.before('inline', 'tasks', tasks);

/**
 * A text as both sides read it: lines end with LF, and marks that turn the direction of reading are
 * to be seen, because they can make a program or a name look like another one.
 * @param {string} text
 */
export function prepared(text) {
  return text.replaceAll('\r', '').replace(DIRECTIONS, (mark) => `⟨U+${mark.charCodeAt(0).toString(16).toUpperCase()}⟩`);
}

/**
 * @param {string} text prepared
 * @param {any} [env] gets the link definitions of this text, and brings those of earlier ones
 * @returns {Token[]}
 */
export function parse(text, env = {}) {
  return text.length > MAX_UNITS ? typed(text) : parser.parse(text, env);
}

/**
 * The line on which the last block of a text begins; 0 if it has only one.
 * @param {string} text prepared, of whole lines
 */
export function lastBlockLine(text) {
  /** @type {Token[]} */
  const tokens = [];
  parser.block.parse(text.replaceAll('\0', '\uFFFD'), parser, {}, tokens);
  const last = tokens.findLast((token) => token.level === 0 && token.nesting !== -1);
  return last?.map?.[0] ?? 0;
}

/** @param {string} text */
function typed(text) {
  return text.split(/\n{2,}/).map(trimmed).filter((part) => part !== '')
    .map((content) => ({ type: 'plain', content: content.replaceAll('\0', '\uFFFD'), nesting: 0, level: 0 }));
}

/** @param {State} state @param {number} from @param {number} to @param {boolean} silent */
function tooDeep(state, from, to, silent) {
  if (state.level < MAX_LEVEL) return false;
  if (silent) return true;
  let next = from;
  while (next < to && (state.isEmpty(next) || state.sCount[next] >= state.blkIndent)) next += 1;
  plain(state, from, Math.max(next, from + 1));
  return true;
}

/** @param {State} state @param {number} from @param {number} next */
function plain(state, from, next) {
  state.line = next;
  const token = state.push('plain', 'p', 0);
  token.content = trimmed(state.getLines(from, next, state.blkIndent, false));
  token.map = [from, next];
}

/** Points that are to be ticked off have a box, as a sign: there is nothing to press. @param {State} state */
function tasks({ tokens }) {
  tokens.forEach((/** @type {Token} */ token, /** @type {number} */ at) => {
    if (token.type !== 'inline' || tokens[at - 2]?.type !== 'list_item_open') return;
    const box = /^\[([ xX])\][ \t\n]/.exec(token.content);
    if (box) token.content = (box[1] === ' ' ? '☐' : '☑') + token.content.slice(3);
  });
}

/** @param {State} state */
function tooLong(state) {
  for (const token of state.tokens) {
    if (token.type !== 'inline' || token.content.length <= MAX_INLINE_UNITS) continue;
    token.type = 'plain_inline';
  }
}

/**
 * `$$ … $$` and `\[ … \]` on lines of their own. Without an empty line in it, as in TeX, so that a
 * pair of signs that was never closed cannot swallow an answer. Open at the end: as it was typed.
 * @param {State} state @param {number} from @param {number} to @param {boolean} silent
 */
function mathBlock(state, from, to, silent) {
  if (state.sCount[from] - state.blkIndent >= 4) return false;
  const line = (/** @type {number} */ at) => state.src.slice(state.bMarks[at] + state.tShift[at], state.eMarks[at]);
  const opening = line(from).slice(0, 2);
  const close = { $$: '$$', '\\[': '\\]' }[opening];
  if (!close || line(from)[2] === '$') return false;
  const content = [];
  let closed = false;
  let next = from;
  for (; next < to && !closed; next += 1) {
    if (next > from && state.isEmpty(next)) return false;
    if (next > from && state.sCount[next] < state.blkIndent) break;
    if (next - from > MAX_MATH_LINES) return false;
    const text = next === from ? line(next).slice(2) : line(next);
    const end = text.indexOf(close);
    closed = end >= 0;
    if (closed && trimmed(text.slice(end + 2)) !== '') return false;
    content.push(closed ? text.slice(0, end) : text);
  }
  const tex = trimmed(content.join('\n'));
  if (closed && tex === '') return false;
  if (silent) return true;
  if (!closed) {
    plain(state, from, next);
    return true;
  }
  state.line = next;
  const token = state.push('math_block', 'div', 0);
  token.content = tex;
  token.map = [from, next];
  return true;
}

/**
 * `$…$`, `$$…$$`, `\(…\)`, `\[…\]` within a line. Money is none: see `dollars`.
 * @param {State} state @param {boolean} silent
 */
function mathInline(state, silent) {
  const { src, pos, posMax } = state;
  const two = src.slice(pos, pos + 2);
  const close = { '\\(': '\\)', '\\[': '\\]', $$: '$$' }[two];
  let [start, end] = [pos + 2, -1];
  if (close) {
    const at = src.slice(start, Math.min(start + MAX_MATH_UNITS, posMax)).indexOf(close);
    end = at < 0 ? -1 : start + at;
  } else if (two[0] === '$') {
    start = pos + 1;
    end = dollars(src, pos, posMax);
  }
  if (end < 0) return false;
  const tex = trimmed(src.slice(start, end));
  if (tex === '' || tex[0] === '$') return false;
  if (!silent) {
    const token = state.push('math_inline', 'span', 0);
    token.content = tex;
    token.markup = two === '\\[' || two === '$$' ? '$$' : '$';
  }
  state.pos = end + (close ? 2 : 1);
  return true;
}

/**
 * Where the formula that `$` at `pos` opens is closed, or -1. As in Pandoc a formula touches both of
 * its signs, and no letter or digit follows; one that begins with a digit has no words in it.
 * @param {string} src @param {number} pos @param {number} posMax
 */
function dollars(src, pos, posMax) {
  if (/[0-9A-Za-z$]/.test(src[pos - 1] ?? '') || /[ \t\n]/.test(src[pos + 1] ?? ' ')) return -1;
  const last = Math.min(pos + 1 + MAX_MATH_UNITS, posMax);
  for (let at = pos + 1; at < last; at += 1) {
    if (src[at] === '\n') return -1;
    if (src[at] === '\\') at += 1;
    else if (src[at] === '$') {
      if (/[ \t]/.test(src[at - 1]) || (at + 1 < posMax && /[0-9A-Za-z$]/.test(src[at + 1]))) return -1;
      const tex = src.slice(pos + 1, at);
      return /^[0-9]/.test(tex) && /[ (][A-Za-z]{3}/.test(tex) ? -1 : at;
    }
  }
  return -1;
}
