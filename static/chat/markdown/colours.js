/**
 * Colours for a block of code, in steps of some milliseconds each, for `inSlices`.
 *
 * A part is read by itself, if nothing that began in those above it is still open: so it is the same as if
 * all had been read at once. What cannot be divided (a string of a thousand lines, code without any)
 * stays without colours where it is long, like all of its block.
 *
 * @typedef {string | {names: string[], children: Found[]}} Found
 * @typedef {object} Grammars static/vendor/highlight.js
 * @property {(language: string) => Generator<undefined, boolean>} prepare
 * @property {(language: string, text: string) => {children: Found[], closed: boolean}} highlight
 */

/** Of a part, in units: 5 to 10 ms at a quarter of a processor's speed. */
const PART_UNITS = 1_000;
/** By so much a part grows until it can be read by itself, */
const MORE_UNITS = 400;
/** but not beyond this, or the page would stand still. */
const MAX_PART_UNITS = 5_000;
/** After an empty line, where nothing indented follows: what was begun is mostly ended there. */
const GAP = /\n[ \t]*\n(?=\S)/g;

/** Classes of static/chat/prose.css for those of the grammars. @type {Record<string, string>} */
const CLASSES = {
  'hljs-comment': 'c', 'hljs-quote': 'c', 'hljs-keyword': 'k', 'hljs-selector-tag': 'k', 'hljs-name': 'k',
  'hljs-string': 's', 'hljs-regexp': 's', 'hljs-subst': '', 'hljs-number': 'n', 'hljs-literal': 'n', 'hljs-symbol': 'n',
  'hljs-title': 'f', 'hljs-section': 'f', 'hljs-built_in': 'b', 'hljs-type': 't', 'hljs-class': 't',
  'hljs-attr': 'm', 'hljs-attribute': 'm', 'hljs-meta': 'm', 'hljs-variable': '', 'hljs-addition': 'a', 'hljs-deletion': 'd',
};

/** @param {Element} code @param {string} language @param {Grammars} grammars */
export function* coloured(code, language, { highlight, prepare }) {
  if (!(yield* prepare(language))) return;
  const text = code.textContent ?? '';
  const fragment = code.ownerDocument.createDocumentFragment();
  for (let from = 0; from < text.length; ) {
    let [end, more] = [from, PART_UNITS];
    let found;
    do {
      end = endOfPart(text, end, more);
      if (end - from > MAX_PART_UNITS) return;
      found = highlight(language, text.slice(from, end));
      more = MORE_UNITS;
      yield;
    } while (!found.closed && end < text.length);
    grow(fragment, found.children);
    from = end;
    yield;
  }
  if (fragment.textContent === text) code.replaceChildren(fragment);
}

/** @param {string} text @param {number} from @param {number} units at least */
function endOfPart(text, from, units) {
  GAP.lastIndex = from + units;
  const gap = GAP.exec(text.slice(0, from + 2 * units));
  if (gap) return gap.index + gap[0].length;
  const line = text.indexOf('\n', from + units);
  return line < 0 ? text.length : line + 1;
}

/** What a grammar found, below this node. @param {Node} parent @param {Found[]} children */
export function grow(parent, children) {
  const document = /** @type {Document} */ (parent.ownerDocument);
  for (const child of children) {
    if (typeof child === 'string') addText(parent, child);
    else {
      const known = child.names.map((name) => CLASSES[name]).find(Boolean);
      const span = known ? document.createElement('span') : parent;
      if (known) /** @type {Element} */ (parent.appendChild(span)).setAttribute('class', known);
      grow(span, child.children);
    }
  }
}

/** Neighbours are one node, wherever the text was divided. @param {Node} parent @param {string} text */
function addText(parent, text) {
  const last = parent.lastChild;
  if (last?.nodeType === 3) /** @type {Text} */ (last).appendData(text);
  else parent.appendChild(/** @type {Document} */ (parent.ownerDocument).createTextNode(text));
}
