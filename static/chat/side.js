/**
 * The list of chats without loading the page anew: looking for words as they are typed, more chats,
 * a menu for each, and renaming in place. Without this module the same links and forms lead to pages of
 * their own. What changes by itself or elsewhere is shown by live.js.
 */
import { get, patch } from './http.js';
import { fetchPage, partOf } from './pages.js';

/** A pause in typing this long is taken for the end of a word. */
const PAUSE_MS = 250;
const LISTING = '[data-part="listing"]';

const side = /** @type {HTMLElement} */ (document.getElementById('side'));
const menu = /** @type {HTMLFormElement} */ (document.getElementById('chat-menu'));

/** @param {string} name @param {ParentNode} [where] */
const part = (name, where = side) => /** @type {HTMLElement | null} */ (where.querySelector(`[data-part="${name}"]`));

// What lay over a narrow page stands beside a wide one, once a phone is turned.
matchMedia('(min-width: 56rem)').addEventListener('change', ({ matches }) => {
  if (matches && side.matches(':popover-open')) side.hidePopover();
});

// -- looking for words ---------------------------------------------------------------------------
const box = /** @type {HTMLInputElement} */ (side.querySelector('input[type="search"]'));
const all = /** @type {HTMLElement} */ (part('listing'));
let typed = 0;
let looking = new AbortController();

box.addEventListener('input', () => {
  clearTimeout(typed);
  looking.abort();
  if (box.value.trim() === '') part('listing')?.replaceWith(all);
  else typed = setTimeout(search, PAUSE_MS);
});

// Somebody may have typed before this script was there.
if (box.value !== box.defaultValue) void search();

async function search() {
  looking = new AbortController();
  const form = /** @type {HTMLFormElement} */ (box.form);
  const page = await fetchPage(`${form.action}?q=${encodeURIComponent(box.value)}`, looking.signal);
  const found = page && partOf(page, `main ${LISTING}`);
  if (found) part('listing')?.replaceWith(found);
}

// -- more chats ----------------------------------------------------------------------------------
document.addEventListener('click', async (event) => {
  const target = /** @type {Element} */ (event.target);
  const more = /** @type {HTMLAnchorElement | null} */ (target.closest?.(`${LISTING} [data-part="more"]`));
  if (!more || event.defaultPrevented || isOpenedElsewhere(event)) return;
  event.preventDefault();
  if (more.getAttribute('aria-busy')) return;
  more.setAttribute('aria-busy', 'true');
  const page = await fetchPage(more.href);
  more.removeAttribute('aria-busy');
  const next = page && partOf(page, `main ${LISTING}`);
  if (!next) return;
  const items = [...(part('chats', next)?.children ?? [])];
  more.closest(LISTING)?.querySelector('[data-part="chats"]')?.append(...items);
  const link = part('more', next);
  if (link) more.replaceWith(link);
  else more.remove();
  items[0]?.querySelector('a')?.focus();
});

/** @param {MouseEvent} event */
function isOpenedElsewhere(event) {
  return event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey;
}

// -- the menu of a chat --------------------------------------------------------------------------
/** The item whose menu is open. @type {HTMLElement | null} */
let chosen = null;

document.addEventListener('click', (event) => {
  const target = /** @type {Element} */ (event.target);
  const options = /** @type {HTMLAnchorElement | null} */ (target.closest?.('[data-part="options"]'));
  if (!options || !('popover' in menu) || isOpenedElsewhere(event)) return;
  event.preventDefault();
  chosen = /** @type {HTMLElement} */ (options.closest('[data-chat]'));
  const settings = options.getAttribute('href') ?? '';
  const base = settings.replace(/settings$/, '');
  action('settings').setAttribute('href', settings);
  action('pin').setAttribute('formaction', `${base}pin`);
  const { pin, unpin } = action('pin').dataset;
  action('pin').textContent = (chosen.dataset.pinned === undefined ? pin : unpin) ?? '';
  action('delete').setAttribute('formaction', `${base}delete`);
  menu.showPopover();
  place(options.getBoundingClientRect());
  action('rename').focus();
});

/** @param {string} name */
function action(name) {
  return /** @type {HTMLElement} */ (menu.querySelector(`[data-do="${name}"]`));
}

/** Below its button, or above where there is no room. @param {DOMRect} button */
function place(button) {
  const { width, height } = menu.getBoundingClientRect();
  const below = button.bottom + 4;
  const top = below + height <= innerHeight ? below : Math.max(4, button.top - height - 4);
  menu.style.top = `${top}px`;
  const left = document.dir === 'rtl' ? button.left : button.right - width;
  menu.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
}

menu.addEventListener('keydown', (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const items = /** @type {HTMLElement[]} */ ([...menu.querySelectorAll('[data-do]')]);
  const at = items.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  items[(at + step + items.length) % items.length]?.focus();
});

action('rename').addEventListener('click', () => {
  menu.hidePopover();
  if (chosen) rename(chosen);
});

// -- renaming in place ---------------------------------------------------------------------------
/** @param {HTMLElement} item */
function rename(item) {
  const link = /** @type {HTMLAnchorElement} */ (item.querySelector('a'));
  const title = /** @type {HTMLElement} */ (part('title', item));
  const field = document.createElement('input');
  field.className = 'rename';
  field.maxLength = 200;
  field.value = title.textContent ?? '';
  field.setAttribute('aria-label', action('rename').textContent ?? '');
  link.hidden = true;
  link.after(field);
  field.focus();
  field.select();
  let over = false;
  /** @param {boolean} keep */
  const end = async (keep) => {
    if (over) return;
    const wanted = field.value.trim();
    if (keep && wanted !== '' && wanted !== title.textContent) {
      field.setAttribute('aria-busy', 'true');
      const { status, body, detail } = await patch(`/api/chats/${item.dataset.chat}`, { title: wanted });
      field.removeAttribute('aria-busy');
      if (status !== 200) {
        field.setCustomValidity(detail || (menu.dataset.notRenamed ?? ''));
        field.reportValidity();
        return;
      }
      showTitle(/** @type {string} */ (item.dataset.chat), body.title);
    }
    over = true;
    field.remove();
    link.hidden = false;
    link.focus();
  };
  field.addEventListener('input', () => field.setCustomValidity(''));
  field.addEventListener('keydown', (event) => {
    if (event.isComposing) return;
    if (event.key === 'Enter') void end(true);
    else if (event.key === 'Escape') void end(false);
    else return;
    event.preventDefault();
  });
  field.addEventListener('blur', () => void end(true));
}

/**
 * Wherever this page says it.
 * @param {string} chat
 * @param {string} title
 */
export function showTitle(chat, title) {
  for (const item of document.querySelectorAll(`[data-chat="${chat}"]`)) {
    /** @type {HTMLElement} */ (part('title', item)).textContent = title;
  }
  if (chat !== shown()) return;
  const before = document.querySelector('main h1')?.textContent ?? '';
  if (before) document.title = document.title.replace(before, () => title);
  for (const name of ['main h1', '.bar-title']) {
    const place = document.querySelector(name);
    if (place && place.textContent === before) place.textContent = title;
  }
}

// -- what will be left out ---------------------------------------------
/** The chat of this page, or ''. */
export function shown() {
  const data = document.getElementById('page')?.textContent;
  return data ? (JSON.parse(data).chat ?? '') : '';
}

const transcript = document.getElementById('transcript');
if (transcript && shown()) {
  const ends = new MutationObserver((changes) => {
    if (changes.some(({ target }) => !(/** @type {Element} */ (target).hasAttribute('data-running')))) void lookAhead(shown());
  });
  ends.observe(transcript, { subtree: true, attributeFilter: ['data-running'] });
}

/** @param {string} chat */
async function lookAhead(chat) {
  const note = document.getElementById('will-leave-out');
  const { status, body } = await get(`/api/chats/${chat}/context`);
  if (!note || status !== 200) return;
  note.textContent = body.sentence;
  note.hidden = body.sentence === '';
}

// -- a deletion can be undone for some seconds ------------------------------------------------------
/** As the server has it (services.GRACE). */
const GRACE_MS = 10_000;
for (const note of side.querySelectorAll('[data-part="undo"]')) setTimeout(() => note.remove(), GRACE_MS);
