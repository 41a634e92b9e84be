/**
 * What is done to a block once, after it is closed: colours for code, formulas typeset, a button
 * that copies code. The parts for it are loaded when the first such block is seen.
 */
import { coloured } from './colours.js';
import { isFormula } from './same.js';
import { inSlices, whenIdle } from './slices.js';

/** Longer code stays without colours: each of them is a node. */
const MAX_CODE_UNITS = 50_000;

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
    const loaded = load().then((exported) => idle().then(() => exported));
    loaded.catch(() => parts.delete(name)); // a lost connection: the next block asks again
    parts.set(name, loaded);
  }
  return /** @type {Promise<any>} */ (parts.get(name));
}

/** @param {Element} code @param {string} language */
async function colour(code, language) {
  const grammars = await part('highlight', () => import('../../vendor/highlight.js'));
  inSlices(coloured(code, language.toLowerCase(), grammars));
}

/**
 * In an order in which each is evaluated in a moment of its own; the last has all that the others brought.
 */
async function maths() {
  await import('../../vendor/maths_tables.js');
  await idle();
  await import('../../vendor/maths_builders.js');
  await idle();
  await import('../../vendor/maths_commands.js');
  await idle();
  return import('../../vendor/maths.js');
}

function idle() {
  return new Promise((done) => whenIdle(() => done(undefined)));
}

/** @param {Element} formula */
async function typeset(formula) {
  const { render } = await part('maths', maths);
  inSlices(typesetting(formula, render));
}

/** @param {Element} formula @param {(...args: any[]) => void} render */
function* typesetting(formula, render) {
  yield;
  // A page that is loaded while the answer is written asks twice, for what the server wrote and for what the stream closed.
  if (formula.childElementCount > 0) return;
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
