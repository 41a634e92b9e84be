/**
 * Copies a message: an answer as it reads, or as the Markdown that the model wrote; a question as it
 * was typed.
 */
import { viewOf } from './answer.js';
import { get } from './http.js';

/** For this long a button says what it did. */
const SAID_MS = 2_000;

/**
 * @param {HTMLElement} transcript holds all turns there will ever be
 * @param {object} options
 * @param {import('./words.js').Words} options.words
 * @param {(sentence: string) => void} options.announce
 */
export function installCopying(transcript, { words, announce }) {
  transcript.addEventListener('click', async (event) => {
    const button = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest('[data-do^="copy"]'));
    const turn = /** @type {HTMLElement | null} */ (button?.closest('.turn') ?? null);
    if (!button || !turn) return;
    const { copy } = words.table;
    const asWritten = button.dataset.do === 'copy-markdown';
    const copied = await intoClipboard(asWritten ? markdownOf(turn) : Promise.resolve(textOf(turn)));
    announce(copied ? (asWritten ? copy.markdown : copy.message) : copy.not_copied);
    say(button, copied ? copy.copied : copy.again);
  });
}

/** @param {HTMLElement} button @param {string} sentence */
function say(button, sentence) {
  const label = /** @type {HTMLElement} */ (button.querySelector('span'));
  label.dataset.usual ??= label.textContent ?? '';
  const usual = label.dataset.usual;
  label.textContent = sentence;
  setTimeout(() => label.textContent === sentence && (label.textContent = usual), SAID_MS);
}

/** @param {HTMLElement} turn */
function textOf(turn) {
  if (turn.classList.contains('answer')) {
    return ['text', 'refusal'].map((name) => plainText(part(turn, name))).filter(Boolean).join('\n\n');
  }
  const box = /** @type {HTMLTextAreaElement | null} */ (turn.querySelector('.edit textarea'));
  return box ? box.defaultValue : plainText(part(turn, 'question'));
}

/**
 * From this page's own stream where there was one, else from the server, of all responses that the
 * answer is made of.
 * @param {HTMLElement} turn
 * @returns {Promise<string | null>} null: it cannot be had now
 */
async function markdownOf(turn) {
  const view = viewOf(turn);
  if (view) return view.text;
  const ids = [...(turn.dataset.parts ?? '').split(' ').filter(Boolean), turn.dataset.answer ?? ''];
  const replies = await Promise.all(ids.map((id) => get(`/api/responses/${encodeURIComponent(id)}`)));
  if (replies.some(({ status }) => status !== 200)) return null;
  return replies.map(({ body }) => body.text).join('');
}

/**
 * The clipboard is asked at once and given the text when it has come: some browsers allow it only
 * within the click.
 * @param {Promise<string | null>} text
 */
async function intoClipboard(text) {
  try {
    const blob = text.then((found) => {
      if (found === null) throw new Error('there is no text');
      return new Blob([found], { type: 'text/plain' });
    });
    await navigator.clipboard.write([new ClipboardItem({ 'text/plain': blob })]);
    return true;
  } catch {
    return false; // not allowed, or a page without TLS, or the server away
  }
}

/** @param {HTMLElement} turn @param {string} name */
function part(turn, name) {
  return /** @type {Element} */ (turn.querySelector(`[data-part="${name}"]`));
}

/**
 * What prose reads like, without marks: blocks with an empty line between them, points of lists with
 * their sign, rows of tables in columns.
 * @param {Element} box
 */
export function plainText(box) {
  return blocks(box).join('\n\n');
}

/** @param {Element} box @returns {string[]} */
function blocks(box) {
  return [...box.children].map((child) => block(child)).filter((text) => text !== '');
}

/** @param {Element} element @returns {string} */
function block(element) {
  switch (element.nodeName) {
    case 'UL':
    case 'OL':
      return list(element);
    case 'FIGURE':
      return (element.querySelector('code')?.textContent ?? '').replace(/\n$/, '');
    case 'TABLE':
      return rows(element).map((row) => [...row.children].map(inline).join('\t')).join('\n');
    case 'HR':
      return '—';
    case 'BLOCKQUOTE':
      return blocks(element).join('\n\n');
    case 'DIV':
      return element.querySelector('table') ? blocks(element).join('\n') : inline(element);
    default:
      return inline(element);
  }
}

/** @param {Element} table @returns {Element[]} */
function rows(table) {
  return [...table.children].flatMap((part) => (part.nodeName === 'TR' ? [part] : rows(part)));
}

/** @param {Element} list */
function list(list) {
  const first = list.nodeName === 'OL' ? Number(list.getAttribute('start') ?? 1) : null;
  return [...list.children]
    .map((item, index) => {
      const sign = first === null ? '- ' : `${first + index}. `;
      return sign + point(item).replaceAll('\n', `\n${' '.repeat(sign.length)}`);
    })
    .join('\n');
}

const BLOCKS = new Set(['P', 'UL', 'OL', 'FIGURE', 'BLOCKQUOTE', 'TABLE', 'DIV', 'HR', 'H3', 'H4', 'H5', 'H6']);

/** What a point says, and what is in it, below each other. @param {Element} item */
function point(item) {
  /** @type {string[]} */
  const lines = [];
  let open = '';
  for (const node of item.childNodes) {
    if (BLOCKS.has(node.nodeName)) {
      lines.push(open.trim(), block(/** @type {Element} */ (node)));
      open = '';
    } else open += inline(node);
  }
  return [...lines, open.trim()].filter((line) => line !== '').join('\n');
}

/** @param {Node} node @returns {string} */
function inline(node) {
  if (node.nodeType === 3) return node.nodeValue ?? '';
  if (node.nodeName === 'BR') return '\n';
  if (node.nodeName.toLowerCase() === 'math') return formula(/** @type {Element} */ (node));
  return [...node.childNodes].map(inline).join('');
}

/** As it was typed: KaTeX keeps that beside what it makes. @param {Element} math */
function formula(math) {
  return math.querySelector('annotation')?.textContent ?? math.textContent ?? '';
}
