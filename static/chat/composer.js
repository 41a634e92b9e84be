/**
 * The box people write in. Text leaves it only when the server has taken it.
 *
 * Enter sends, Shift+Enter makes a line; on a touch screen, and for people who prefer it, Enter makes a
 * line and Ctrl or ⌘ with it sends.
 * An Enter that ends an input method's composition does neither. Escape stops a running answer.
 *
 * @typedef {(text: string, model: string | undefined) => Promise<string>} Send says what went wrong, or ''
 */

export class Composer {
  #form;
  #box;
  #send;
  #stop;
  #trouble;
  #ahead;
  #sending = false;
  #draftKey;

  /**
   * @param {HTMLFormElement} form
   * @param {object} on
   * @param {Send} on.send
   * @param {() => void} on.stop
   * @param {boolean} [on.ahead] a message may be sent while an answer is being written
   */
  constructor(form, { send, stop, ahead = false }) {
    this.#form = form;
    this.#ahead = ahead;
    this.#box = /** @type {HTMLTextAreaElement} */ (form.elements.namedItem('text'));
    this.#send = /** @type {HTMLButtonElement} */ (form.querySelector('[data-part="send"]'));
    this.#stop = /** @type {HTMLButtonElement} */ (form.querySelector('[data-part="stop"]'));
    this.#trouble = /** @type {HTMLElement} */ (document.getElementById('trouble'));
    this.#draftKey = `unbroken.draft:${location.pathname}`;
    this.#restoreDraft();
    this.#keepDraft(); // of what was typed before this script was there
    this.#grow();
    this.#box.addEventListener('input', () => {
      this.#grow();
      this.#keepDraft();
    });
    this.#box.addEventListener('keydown', (event) => this.#key(event, stop));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      if (event.submitter === this.#stop) stop();
      else this.#submit(send);
      this.focus();
    });
    form.toggleAttribute('data-alive', true); // Enter sends from here on
  }

  focus() {
    this.#box.focus({ preventScroll: true });
  }

  /** @param {string} text put into the box, as if it had been typed */
  write(text) {
    this.#box.value = text;
    this.#grow();
    this.#keepDraft();
    this.#box.focus();
    this.#box.setSelectionRange(text.length, text.length);
  }

  /** @param {boolean} ahead a message may be sent while an answer is being written */
  ahead(ahead) {
    this.#ahead = ahead;
    this.#form.toggleAttribute('data-ahead', ahead);
    this.running(!this.#stop.hidden);
  }

  /** @param {boolean} running an answer is being written: Stop stands where Send stood, or beside it */
  running(running) {
    this.#send.hidden = running && !this.#ahead;
    this.#stop.hidden = !running;
    this.#form.toggleAttribute('data-running', running);
  }

  /** @param {boolean} stopping */
  stopping(stopping) {
    this.#stop.setAttribute('aria-disabled', String(stopping));
  }

  /** @param {string} sentence '' takes the last one away */
  trouble(sentence) {
    this.#trouble.textContent = sentence;
    this.#trouble.hidden = sentence === '';
  }

  /** @param {Send} send */
  async #submit(send) {
    const text = this.#box.value;
    if (this.#sending || this.#send.hidden || text.trim() === '') return;
    this.#sending = true;
    this.#form.setAttribute('aria-busy', 'true');
    this.trouble('');
    const model = /** @type {HTMLSelectElement | null} */ (this.#form.elements.namedItem('model'))?.value;
    const trouble = await send(text, model);
    this.#sending = false;
    this.#form.removeAttribute('aria-busy');
    this.trouble(trouble);
    if (trouble === '' && this.#box.value === text) {
      this.#box.value = ''; // what was written meanwhile stays
      this.#grow();
    }
    this.#keepDraft();
  }

  /**
   * @param {KeyboardEvent} event
   * @param {() => void} stop
   */
  #key(event, stop) {
    // 229: the key belongs to an input method, in browsers that end the composition first.
    if (event.isComposing || event.keyCode === 229) return;
    if (event.key === 'Escape' && !this.#stop.hidden) {
      event.preventDefault();
      stop();
    }
    if (event.key !== 'Enter' || event.shiftKey) return;
    const makesLine = this.#form.dataset.enter === 'line' || matchMedia('(pointer: coarse)').matches;
    if (makesLine && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.#form.requestSubmit(this.#send.hidden ? null : this.#send);
  }

  #grow() {
    if (CSS.supports('field-sizing', 'content')) return;
    this.#box.style.height = 'auto';
    this.#box.style.height = `${this.#box.scrollHeight}px`;
  }

  #restoreDraft() {
    try {
      const draft = sessionStorage.getItem(this.#draftKey);
      if (draft && this.#box.value === '') this.#box.value = draft;
    } catch {
      // Storage is forbidden: then a draft lasts as long as its page.
    }
  }

  #keepDraft() {
    try {
      if (this.#box.value) sessionStorage.setItem(this.#draftKey, this.#box.value);
      else sessionStorage.removeItem(this.#draftKey);
    } catch {
      // As above.
    }
  }
}
