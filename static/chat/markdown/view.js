/**
 * Shows an answer's text as prose while it is written.
 *
 * What a whole line has closed is put on the page once and never touched again, so a selection, a
 * screen reader's place and the scroll position survive whatever arrives. Only the block that is
 * open is read again, with its half-written marks healed, and what differs is changed in place; of a
 * list or a table only its last part (growing.js); the letters of an open block of code are just added. At the end the whole text is read once more if it
 * has link definitions, which reach back; only what they changed differs then.
 *
 * Has the interface of `TextView` (render.js), and `finish()`.
 */
import { morphdom, remend } from '../../vendor/markdown.js';
import { polish } from './code.js';
import { endOf, grown, growing, holderOf, partsOf, solid } from './growing.js';
import { LABELS, build } from './nodes.js';
import { MAX_UNITS, lastBlockLine, parse, prepared } from './rules.js';
import { same } from './same.js';

/** From this length on an open block is read again only when it has grown by a quarter. */
const LONG_UNITS = 8_000;
const HEALING = {
  linkMode: /** @type {const} */ ('text-only'),
  ...{ katex: false, htmlTags: false, comparisonOperators: false, singleTilde: false },
};
/** Of the line that opens a block of code. */
const MAX_FENCE_UNITS = 200;
const FENCE = /^(`{3,}|~{3,})([^\n]*)\n/;

export class MarkdownView {
  #box;
  #document;
  #labels;
  #calm;
  #text = '';
  /** Where the open block begins in the text. */
  #from = 0;
  /** Where the line begins that is not whole yet. */
  #whole = 0;
  /** Up to where whole lines were looked at for a block that they close. */
  #lines = 0;
  /** Elements of the box that are closed. */
  #closed = 0;
  /** Link definitions of what is closed. */
  #env = { references: {} };
  /** Units of the open block when it was read last. */
  #read = 0;
  /** An open block of code: its text's node, and what ends it. @type {{node: Text, end: RegExp, maybe: RegExp, at: number} | null} */
  #fence = null;
  /** An open list or table. @type {import('./growing.js').Growing | null} */
  #growing = null;
  #finished = false;

  /**
   * @param {Element} box holds blocks as nodes.js or the server makes them, and nothing else
   * @param {object} [options]
   * @param {import('./nodes.js').Labels} [options.labels]
   * @param {boolean} [options.calm] blocks appear when they are closed; for people whom motion disturbs
   */
  constructor(box, { labels = LABELS, calm = prefersCalm() } = {}) {
    this.#box = box;
    this.#document = box.ownerDocument;
    this.#labels = labels;
    this.#calm = calm;
  }

  get empty() {
    return this.#text === '';
  }

  /**
   * Add what came last.
   * @param {string} delta
   */
  append(delta) {
    const more = prepared(delta);
    if (more === '') return;
    const end = more.lastIndexOf('\n') + 1;
    if (end > 0) this.#whole = this.#text.length + end;
    this.#text += more;
    this.#finished = false;
    this.#flush();
  }

  /**
   * Show exactly this text. What already stands there and is the same stays untouched, also where
   * the server wrote it.
   * @param {string} text
   */
  show(text) {
    this.#text = prepared(text);
    this.#settle();
    this.#flush();
  }

  /** No more will come. */
  finish() {
    if (this.#finished) return;
    this.#finished = true;
    this.#fence = this.#growing = null;
    // Only a link definition reaches back into what was closed; the tests hold this to whole readings.
    if (this.#text.includes(']:') || this.#text.length > MAX_UNITS) {
      this.#replace(this.#build(this.#text));
      this.#closed = 0;
    } else this.#morph(this.#build(this.#text.slice(this.#from), this.#env), true);
    this.#close(this.#box.children.length);
    [this.#from, this.#lines] = [this.#text.length, this.#text.length];
  }

  /** Begin anew with a text of which some may be on the page. */
  #settle() {
    this.#env = { references: {} };
    this.#fence = this.#growing = null;
    [this.#closed, this.#read, this.#lines] = [0, 0, 0];
    this.#finished = false;
    this.#whole = this.#text.lastIndexOf('\n') + 1;
    const lines = this.#text.slice(0, this.#whole);
    const closed = lines.slice(0, offsetOfLine(lines, lastBlockLine(lines)));
    const fresh = this.#build(closed, this.#env);
    const open = this.#calm ? [] : build(this.#document, this.#parseOpen(this.#text.slice(closed.length)), this.#labels);
    this.#replace([...fresh, ...open]);
    this.#from = closed.length;
    this.#close(fresh.length);
  }

  #flush() {
    for (;;) {
      if (this.#fence && !this.#addCode()) return;
      if (this.#grow()) return;
      if (this.#whole > this.#lines) {
        this.#lines = this.#whole;
        this.#commit(this.#text.slice(this.#from, this.#whole));
      }
      if (this.#calm) return;
      const open = this.#text.slice(this.#from);
      if (!this.#beginCode(open)) {
        this.#showOpen(open);
        return;
      }
    }
  }

  /** @param {string} lines whole lines from where the open block began */
  #commit(lines) {
    const closed = lines.slice(0, offsetOfLine(lines, lastBlockLine(lines)));
    if (closed === '') return;
    this.#morph(this.#build(closed, this.#env), false);
    this.#from += closed.length;
    this.#read = 0;
  }

  /** @param {string} open */
  #showOpen(open) {
    if (this.#read > LONG_UNITS && open.length < this.#read * 1.25) {
      this.#addRaw(open.slice(this.#read));
      return;
    }
    this.#read = open.length;
    const tokens = this.#parseOpen(open);
    this.#morph(build(this.#document, tokens, this.#labels), true);
    this.#growing = growing(tokens, open);
  }

  /** @returns {boolean} whether all that came belongs to the list or table that is open */
  #grow() {
    const from = this.#growing;
    if (!from) return false;
    const rest = this.#text.slice(this.#from + from.at);
    const end = endOf(from, rest);
    // A definition in a point counts for what follows.
    const whole = end >= 0 && !this.#text.slice(this.#from, this.#from + from.at + end).includes(']:');
    const more = end < 0 ? solid(rest) : rest.slice(0, end);
    const source = from.head + more;
    const readable = more.length <= LONG_UNITS && (end < 0 || whole);
    const tokens = readable ? (whole ? parse(source) : this.#parseOpen(source)) : [];
    this.#growing = grown(from, tokens, solid(more));
    if (!this.#growing) return false;
    this.#morphParts(from, tokens);
    this.#read = this.#text.length - this.#from;
    if (!whole) return true;
    this.#from += from.at + end;
    this.#growing = null;
    this.#read = 0;
    this.#close(this.#closed + 1);
    return false;
  }

  /** @param {import('./growing.js').Growing} from @param {import('./rules.js').Token[]} tokens */
  #morphParts({ settled }, tokens) {
    const block = /** @type {Element} */ (this.#box.lastElementChild);
    const shown = partsOf(block).slice(settled);
    const wanted = partsOf(build(this.#document, tokens, this.#labels)[0]);
    wanted.forEach((part, index) => {
      if (shown[index]) morph(shown[index], part);
      else holderOf(block).appendChild(part);
    });
    for (const surplus of shown.slice(wanted.length)) surplus.remove();
  }

  /**
   * What came since a long block was read, as it was typed, until it is read again.
   * @param {string} text
   */
  #addRaw(text) {
    const last = this.#box.lastElementChild;
    if (last?.className === 'raw') {
      const node = /** @type {Text} */ (last.firstChild);
      node.appendData(text.slice(node.data.length));
    } else if (text !== '') {
      const raw = this.#document.createElement('p');
      raw.className = 'raw';
      raw.appendChild(this.#document.createTextNode(text));
      this.#box.appendChild(raw);
    }
  }

  /**
   * @param {string} open
   * @returns {boolean} whether it begins a block of code; then that stands on the page, still empty
   */
  #beginCode(open) {
    const found = FENCE.exec(open.slice(0, MAX_FENCE_UNITS));
    if (!found) return false;
    const [first, marks, info] = found;
    if (marks[0] === '`' && info.includes('`')) return false;
    this.#morph(this.#build(first, this.#env), true);
    const code = /** @type {Element} */ (this.#box.lastElementChild?.querySelector('code'));
    const node = this.#document.createTextNode('');
    code.replaceChildren(node);
    const end = new RegExp(`^ {0,3}\\${marks[0]}{${marks.length},}[ \\t]*$`);
    this.#fence = { node, end, maybe: new RegExp(`^ {0,3}\\${marks[0]}*[ \\t]*$`), at: this.#from + first.length };
    return true;
  }

  /** @returns {boolean} whether the block was closed, and something may follow it */
  #addCode() {
    const fence = /** @type {NonNullable<typeof this.#fence>} */ (this.#fence);
    const text = this.#text;
    let at = fence.at;
    for (;;) {
      const end = text.indexOf('\n', at);
      // The rest of a line that was begun before closes nothing.
      const line = text[at - 1] === '\n' ? text.slice(at, end < 0 ? text.length : end) : null;
      if (end >= 0 && line !== null && fence.end.test(line)) {
        if (at > fence.at) fence.node.appendData(clean(text.slice(fence.at, at)));
        this.#fence = null;
        [this.#from, this.#lines, this.#read] = [end + 1, end + 1, 0];
        this.#close(this.#closed + 1);
        return true;
      }
      if (end < 0) {
        // It may become the line that closes the block: held back until that is known.
        if (line === null || !fence.maybe.test(line)) at = text.length;
        break;
      }
      at = end + 1;
    }
    if (at > fence.at) fence.node.appendData(clean(text.slice(fence.at, at)));
    fence.at = at;
    return false;
  }

  /**
   * @param {string} text
   * @param {any} [env]
   */
  #build(text, env = {}) {
    return build(this.#document, parse(text, env), this.#labels);
  }

  /** It goes on: marks that are still open are closed for now. @param {string} text */
  #parseOpen(text) {
    const source = text.length > LONG_UNITS ? text : remend(text, HEALING);
    // What is not closed yet defines nothing for good.
    return parse(source, { references: { ...this.#env.references } });
  }

  /**
   * The open blocks become these.
   * @param {Element[]} wanted
   * @param {boolean} open they stay open
   */
  #morph(wanted, open) {
    const shown = [...this.#box.children].slice(this.#closed);
    wanted.forEach((element, index) => {
      if (shown[index]) morph(shown[index], element);
      else this.#box.appendChild(element);
    });
    if (open) for (const surplus of shown.slice(wanted.length)) surplus.remove();
    else {
      for (const raw of shown.slice(wanted.length)) if (raw.className === 'raw') raw.remove();
      this.#close(this.#closed + wanted.length);
    }
  }

  /**
   * The whole box becomes these; what is the same stays.
   * @param {Element[]} wanted
   */
  #replace(wanted) {
    const shown = [...this.#box.children];
    let from = 0;
    while (from < shown.length && from < wanted.length && same(shown[from], wanted[from])) from += 1;
    let [end, wantedEnd] = [shown.length, wanted.length];
    while (end > from && wantedEnd > from && same(shown[end - 1], wanted[wantedEnd - 1])) [end, wantedEnd] = [end - 1, wantedEnd - 1];
    const next = shown[end] ?? null;
    for (const surplus of shown.slice(from, end)) surplus.remove();
    for (const element of wanted.slice(from, wantedEnd)) this.#box.insertBefore(element, next);
  }

  /** @param {number} count of elements that are closed now */
  #close(count) {
    const closed = [...this.#box.children].slice(this.#closed, count);
    this.#closed = count;
    for (const element of closed) polish(element);
  }
}

/** NUL is not for pages; the parser replaces it as well. @param {string} text */
function clean(text) {
  return text.replaceAll('\0', '\uFFFD');
}

/** @param {Element} shown @param {Element} wanted */
function morph(shown, wanted) {
  morphdom(shown, wanted, {
    getNodeKey: () => undefined,
    onBeforeElUpdated: (from, to) => {
      if (from.isEqualNode(to)) return false;
      from.childNodes.forEach((node, index) => write(node, to.childNodes[index]));
      return true;
    },
  });
}

/**
 * Letters that stay are left alone: a node whose text is set anew loses the selection in it.
 * @param {Node} node @param {Node | undefined} wanted
 */
function write(node, wanted) {
  if (node.nodeType !== 3 || wanted?.nodeType !== 3) return;
  const [text, data, fresh] = [/** @type {Text} */ (node), node.nodeValue ?? '', wanted.nodeValue ?? ''];
  if (fresh.startsWith(data)) {
    if (fresh !== data) text.appendData(fresh.slice(data.length));
    return;
  }
  let kept = 0;
  while (kept < fresh.length && fresh[kept] === data[kept]) kept += 1;
  text.replaceData(kept, data.length - kept, fresh.slice(kept));
}

/** @param {string} text @param {number} line */
function offsetOfLine(text, line) {
  let at = 0;
  for (let n = 0; n < line; n += 1) at = text.indexOf('\n', at) + 1;
  return at;
}

function prefersCalm() {
  return globalThis.matchMedia?.('(prefers-reduced-motion: reduce)').matches ?? false;
}
