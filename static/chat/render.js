/**
 * Puts words on the screen: at most one paint per frame, and only what is new is touched.
 *
 * `TextView` shows a text as paragraphs. Finished paragraphs are never touched again, so a selection,
 * a screen reader's place and the scroll position survive whatever arrives. The rule that cuts a text
 * into paragraphs is the server's too (`paragraphs` in chatapp/templatetags/words.py), so a page that
 * was rendered there is taken over as it stands.
 */

/** Longest time between two paints of a hidden page, where no frames come. */
export const HIDDEN_MS = 1_000;

/**
 * The paragraphs of a text: what stands between empty lines.
 * @param {string} text
 */
export function paragraphs(text) {
  return text.replaceAll('\r', '').split(/\n{2,}/).map(trimNewlines).filter((part) => part !== '');
}

/** @param {string} text */
function trimNewlines(text) {
  return text.replace(/^\n|\n$/g, '');
}

/**
 * Counted from the end: `/\n*$/` tries each run of newlines, to its end, from each of its newlines.
 * @param {string} text
 */
function trailingNewlines(text) {
  let at = text.length;
  while (at > 0 && text[at - 1] === '\n') at -= 1;
  return text.length - at;
}

export class TextView {
  #box;
  /** @type {Text | null} the text of the last paragraph */
  #open = null;
  /** Newlines at the end of the text: whether they end the paragraph is known with the next character. */
  #newlines = 0;

  /** @param {Element} box holds `<p>` elements of one text node each, and nothing else */
  constructor(box) {
    this.#box = box;
  }

  get empty() {
    return this.#open === null;
  }

  /**
   * Add what came last.
   * @param {string} delta
   */
  append(delta) {
    for (const piece of delta.replaceAll('\r', '').split(/(\n+)/)) {
      if (piece === '') continue;
      if (piece.startsWith('\n')) {
        if (this.#open) this.#newlines += piece.length;
      } else if (this.#open && this.#newlines < 2) {
        this.#open.appendData('\n'.repeat(this.#newlines) + piece);
        this.#newlines = 0;
      } else {
        this.#open = this.#add(piece);
        this.#newlines = 0;
      }
    }
  }

  /**
   * Show exactly this text. What already stands there and is the same stays untouched.
   * @param {string} text
   */
  show(text) {
    const wanted = paragraphs(text);
    const shown = [...this.#box.children];
    for (const surplus of shown.slice(wanted.length)) surplus.remove();
    /** @type {Text | null} */
    let last = null;
    wanted.forEach((part, index) => {
      last = shown[index] ? write(shown[index], part) : this.#add(part);
    });
    this.#open = last;
    this.#newlines = last ? trailingNewlines(text.replaceAll('\r', '')) : 0;
  }

  /** @param {string} part */
  #add(part) {
    const document = this.#box.ownerDocument;
    const paragraph = document.createElement('p');
    const node = document.createTextNode(part);
    paragraph.append(node);
    this.#box.append(paragraph);
    return node;
  }
}

/**
 * @param {Element} paragraph
 * @param {string} part
 * @returns {Text}
 */
function write(paragraph, part) {
  const node = /** @type {Text | null} */ (paragraph.firstChild);
  if (node === null || paragraph.childNodes.length !== 1) {
    const fresh = paragraph.ownerDocument.createTextNode(part);
    paragraph.replaceChildren(fresh);
    return fresh;
  }
  if (node.data !== part) {
    if (part.startsWith(node.data)) node.appendData(part.slice(node.data.length));
    else node.data = part;
  }
  return node;
}

/**
 * @typedef {object} Screen
 * @property {(run: () => void) => number} requestAnimationFrame
 * @property {(id: number) => void} cancelAnimationFrame
 * @property {(run: () => void, delay: number) => any} setTimeout
 * @property {(id: any) => void} clearTimeout
 * @property {() => boolean} hidden
 */

/** @type {Screen} */
export const screen = {
  requestAnimationFrame: (run) => globalThis.requestAnimationFrame(run),
  cancelAnimationFrame: (id) => globalThis.cancelAnimationFrame(id),
  setTimeout: (run, delay) => globalThis.setTimeout(run, delay),
  clearTimeout: (id) => globalThis.clearTimeout(id),
  hidden: () => globalThis.document.hidden,
};

/** Gathers any number of wishes into one paint. */
export class Painter {
  #paint;
  #screen;
  /** @type {(() => void) | null} takes back the paint that was asked for */
  #cancel = null;

  /**
   * @param {() => void} paint
   * @param {Screen} [on]
   */
  constructor(paint, on = screen) {
    this.#paint = paint;
    this.#screen = on;
  }

  /** Paint with the next frame; in a hidden page, where there are none, within a second. */
  ask() {
    if (this.#cancel) return;
    const { requestAnimationFrame, cancelAnimationFrame, setTimeout, clearTimeout, hidden } = this.#screen;
    if (hidden()) {
      const timer = setTimeout(() => this.now(), HIDDEN_MS);
      this.#cancel = () => clearTimeout(timer);
    } else {
      const frame = requestAnimationFrame(() => this.now());
      this.#cancel = () => cancelAnimationFrame(frame);
    }
  }

  now() {
    this.#cancel?.();
    this.#cancel = null;
    this.#paint();
  }

  /** Frames begin or end with the page's visibility: ask again in the way that fits. */
  visibilityChanged() {
    if (!this.#cancel) return;
    this.#cancel();
    this.#cancel = null;
    this.ask();
  }
}
