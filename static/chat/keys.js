/**
 * The page by keyboard. Keys with a modifier belong to browsers; single ones work outside of fields,
 * and can be switched off in the sheet that `?` shows (WCAG 2.1.4), for people who speak to their
 * computer.
 */

/** In this browser; absent: they work. */
const OFF = 'unbroken.keys';

/** @typedef {(event: KeyboardEvent) => boolean} Act whether there was something to do */

export class Keys {
  #document;
  #store;
  /** @type {HTMLDialogElement | null} */
  #sheet;
  /** @type {Record<string, Act>} */
  #single = {
    '?': () => this.#showSheet(),
    '/': () => this.#focus('#text'),
    s: () => this.#search(),
    n: () => this.#press('.side-new'),
    j: () => this.#step(1),
    k: () => this.#step(-1),
    l: () => this.#latest(),
    c: () => this.#copy(),
  };

  /**
   * @param {Document} document
   * @param {Storage | null} store
   */
  constructor(document, store) {
    this.#document = document;
    this.#store = store;
    this.#sheet = document.querySelector('#keys');
    document.addEventListener('keydown', (event) => {
      // 229: the key belongs to an input method.
      if (event.defaultPrevented || event.isComposing || event.keyCode === 229) return;
      if (this.#act(event)) event.preventDefault();
    });
    for (const button of document.querySelectorAll('[data-do="keys"]')) button.addEventListener('click', () => this.#showSheet());
    const box = /** @type {HTMLInputElement | null} */ (document.querySelector('#single-keys'));
    if (!box) return;
    box.checked = this.#on;
    box.addEventListener('change', () => this.#remember(box.checked));
  }

  /** @param {KeyboardEvent} event */
  #act(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.#sheet?.open) return false;
    const at = /** @type {HTMLElement} */ (event.target);
    // A field that has just been closed away keeps the focus until the next frame.
    const target = at.checkVisibility() ? at : this.#document.body;
    if (event.key === 'Escape') return this.#leave(target);
    if (event.key === 'ArrowUp' && target.id === 'text') return this.#editLast(/** @type {HTMLTextAreaElement} */ (target));
    const typing = target.closest('input, textarea, select, [contenteditable]');
    return !typing && this.#on && Object.hasOwn(this.#single, event.key) && this.#single[event.key](event);
  }

  get #on() {
    try {
      return this.#store?.getItem(OFF) !== 'off';
    } catch {
      return true;
    }
  }

  /** @param {boolean} on */
  #remember(on) {
    try {
      if (on) this.#store?.removeItem(OFF);
      else this.#store?.setItem(OFF, 'off');
    } catch {
      // Storage is forbidden: then it lasts as long as its page.
    }
  }

  #showSheet() {
    this.#sheet?.showModal();
    return this.#sheet !== null;
  }

  /** Out of a form at a message, else the answer is stopped. @param {HTMLElement} target */
  #leave(target) {
    const edit = /** @type {HTMLDetailsElement | null} */ (target.closest('.edit[open]'));
    if (edit) {
      edit.open = false;
      edit.querySelector('summary')?.focus();
      return true;
    }
    // What else closes with this key is not about the answer.
    if (target.closest('[popover], dialog, details[open], input, select, form:not(#composer) textarea')) return false;
    const stop = /** @type {HTMLButtonElement | null} */ (this.#document.querySelector('#stop'));
    if (!stop || stop.hidden) return false;
    stop.click();
    target.focus({ preventScroll: true }); // the composer took it
    return true;
  }

  /** @param {HTMLTextAreaElement} box */
  #editLast(box) {
    const edit = /** @type {HTMLDetailsElement | undefined} */ ([...this.#document.querySelectorAll('#transcript .question .edit')].at(-1));
    if (box.value !== '' || !edit?.checkVisibility({ visibilityProperty: true })) return false;
    edit.open = true;
    const text = /** @type {HTMLTextAreaElement} */ (edit.querySelector('textarea'));
    text.focus();
    text.setSelectionRange(text.value.length, text.value.length);
    return true;
  }

  /** @param {string} selector */
  #focus(selector) {
    const found = /** @type {HTMLElement | null} */ (this.#document.querySelector(selector));
    found?.focus();
    return found !== null;
  }

  #search() {
    const side = /** @type {HTMLElement | null} */ (this.#document.querySelector('#side'));
    if (side && !side.checkVisibility()) side.showPopover();
    return this.#focus('[role="search"] input');
  }

  /** @param {string} selector */
  #press(selector) {
    const found = /** @type {HTMLElement | null} */ (this.#document.querySelector(selector));
    found?.click();
    return found !== null;
  }

  /** From message to message. @param {1 | -1} by */
  #step(by) {
    const turns = /** @type {HTMLElement[]} */ ([...this.#document.querySelectorAll('#transcript > .turn > article')]);
    const here = turns.findIndex((article) => article.parentElement?.contains(this.#document.activeElement));
    const next = here < 0 ? (by > 0 ? undefined : turns.at(-1)) : turns[here + by];
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: 'nearest' });
    return next !== undefined;
  }

  #latest() {
    const latest = /** @type {HTMLElement | null} */ (this.#document.querySelector('#latest'));
    latest?.click();
    return latest !== null;
  }

  /** The message with the focus, else the last answer. */
  #copy() {
    const turn = this.#document.activeElement?.closest('.turn') ?? [...this.#document.querySelectorAll('#transcript > .answer')].at(-1);
    const button = /** @type {HTMLElement | null | undefined} */ (turn?.querySelector('[data-do="copy"]'));
    button?.click();
    return Boolean(button);
  }
}

if (globalThis.document) {
  /** @type {Storage | null} */
  let store = null;
  try {
    store = globalThis.localStorage;
  } catch {
    // Forbidden by the browser's settings.
  }
  new Keys(document, store);
}
