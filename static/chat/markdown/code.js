/**
 * What is done to a block once, after it is closed: colours for code, formulas typeset, a button
 * that copies code. The parts for it are loaded when the first such block is seen.
 */
import { isFormula } from './same.js';
import { inSlices, whenIdle } from './slices.js';

/** Longer code stays without colours: it would hold up the page for too long. */
const MAX_CODE_UNITS = 50_000;

/** Classes of static/chat/prose.css for those of the grammars. @type {Record<string, string>} */
const CLASSES = {
  'hljs-comment': 'c', 'hljs-quote': 'c', 'hljs-keyword': 'k', 'hljs-selector-tag': 'k', 'hljs-name': 'k',
  'hljs-string': 's', 'hljs-regexp': 's', 'hljs-subst': '', 'hljs-number': 'n', 'hljs-literal': 'n', 'hljs-symbol': 'n',
  'hljs-title': 'f', 'hljs-section': 'f', 'hljs-built_in': 'b', 'hljs-type': 't', 'hljs-class': 't',
  'hljs-attr': 'm', 'hljs-attribute': 'm', 'hljs-meta': 'm', 'hljs-variable': '', 'hljs-addition': 'a', 'hljs-deletion': 'd',
};

/**
 * @param {Element} block that will not change any more
 */
export function polish(block) {
  const view = block.ownerDocument.defaultView;
  if (!view) return; // a test without a browser
  copyButton(block);
  for (const figure of withinOrSelf(block, 'figure.code[data-language]')) {
    const code = figure.querySelector('code');
    // The server's are coloured already.
    if (code && code.childElementCount === 0 && (code.textContent ?? '').length <= MAX_CODE_UNITS) {
      void colour(code, /** @type {string} */ (figure.getAttribute('data-language')));
    }
  }
  for (const formula of withinOrSelf(block, '.math')) {
    if (isFormula(formula) && formula.childElementCount === 0) void typeset(formula);
  }
}

/** @param {Element} block @param {string} selector */
function withinOrSelf(block, selector) {
  return [...(block.matches(selector) ? [block] : []), ...block.querySelectorAll(selector)];
}

/** @type {Map<string, Promise<any>>} */
const parts = new Map();

/**
 * What a part exports, after the frame in which it was evaluated: that alone takes a slow phone a tenth
 * of a second.
 * @param {string} name @param {() => Promise<any>} load
 */
function part(name, load) {
  if (!parts.has(name)) {
    const loaded = load().then((exported) => new Promise((done) => whenIdle(() => done(exported))));
    loaded.catch(() => parts.delete(name)); // a lost connection: the next block asks again
    parts.set(name, loaded);
  }
  return /** @type {Promise<any>} */ (parts.get(name));
}

/** @param {Element} code @param {string} language */
async function colour(code, language) {
  const { highlight, prepare } = await part('highlight', () => import('../../vendor/highlight.js'));
  inSlices(coloured(code, language.toLowerCase(), { highlight, prepare }));
}

/** @param {Element} code @param {string} language @param {any} grammars */
function* coloured(code, language, { highlight, prepare }) {
  if (!(yield* prepare(language))) return;
  const text = code.textContent ?? '';
  const { children } = highlight(language, text);
  yield;
  const fragment = code.ownerDocument.createDocumentFragment();
  grow(fragment, children);
  if (fragment.textContent === text) code.replaceChildren(fragment);
}

/** @param {Node} parent @param {any[]} children of a hast tree */
function grow(parent, children) {
  const document = /** @type {Document} */ (parent.ownerDocument);
  for (const child of children) {
    if (child.type === 'text') parent.appendChild(document.createTextNode(child.value));
    else {
      const known = child.properties.className.map((/** @type {string} */ name) => CLASSES[name]).find(Boolean);
      const span = known ? document.createElement('span') : parent;
      if (known) /** @type {Element} */ (parent.appendChild(span)).setAttribute('class', known);
      grow(span, child.children);
    }
  }
}

/** @param {Element} formula */
async function typeset(formula) {
  const { render } = await part('maths', () => import('../../vendor/maths.js'));
  inSlices(typesetting(formula, render));
}

/** @param {Element} formula @param {(...args: any[]) => void} render */
function* typesetting(formula, render) {
  yield;
  const tex = formula.textContent ?? '';
  const place = formula.ownerDocument.createElement('span');
  const displayMode = formula.className === 'math display';
  try {
    render(tex, place, { output: 'mathml', displayMode, trust: false, maxExpand: 200, maxSize: 20, strict: 'ignore', throwOnError: true });
  } catch {
    return; // what is no TeX stays as it was typed
  }
  const math = place.querySelector('math');
  if (math && formula.textContent === tex) formula.replaceChildren(math);
}

/** What the button says. @type {{copy: string, copied: string, failed: string}} */
let words = { copy: 'Copy', copied: 'Copied', failed: 'Press Ctrl+C' };

/** @param {Element} block */
function copyButton(block) {
  for (const caption of withinOrSelf(block, 'figure.code > figcaption')) {
    if (caption.querySelector('button')) continue;
    const button = block.ownerDocument.createElement('button');
    button.setAttribute('type', 'button');
    button.setAttribute('class', 'copy');
    button.textContent = words.copy;
    caption.appendChild(button);
  }
}

/**
 * Make what the server wrote like what is written here, and the buttons work.
 * @param {Element} page holds all prose there will ever be
 * @param {object} options
 * @param {{copy: string, copied: string, failed: string}} options.words
 * @param {(sentence: string) => void} options.announce
 */
export function installProse(page, { words: said, announce }) {
  words = said;
  for (const block of page.querySelectorAll('.words.prose > *')) {
    polish(block);
  }
  page.addEventListener('click', (event) => {
    const button = /** @type {Element} */ (event.target).closest?.('button.copy');
    if (button) void copy(button, announce);
  });
}

/** @param {Element} button @param {(sentence: string) => void} announce */
async function copy(button, announce) {
  const code = button.closest('figure')?.querySelector('code');
  if (!code) return;
  const copied = await intoClipboard(code);
  const sentence = copied ? words.copied : words.failed;
  button.textContent = sentence;
  announce(sentence);
  setTimeout(() => (button.textContent = words.copy), 2_000);
}

/** @param {Element} code */
async function intoClipboard(code) {
  try {
    await navigator.clipboard.writeText(code.textContent ?? '');
    return true;
  } catch {
    // Not allowed, or a page without TLS: selected, so that one key does it.
    getSelection()?.selectAllChildren(code);
    return false;
  }
}
