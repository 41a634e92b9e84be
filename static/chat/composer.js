/**
 * The box people write in, and what is attached beside it. It leaves the box only when the server has
 * taken it, or when it waits for the network where the person sees it.
 *
 * Enter sends, Shift+Enter makes a line; on a touch screen, and for people who prefer it, Enter makes a
 * line and Ctrl or ⌘ with it sends.
 * An Enter that ends an input method's composition does neither. Escape stops a running answer.
 *
 * @typedef {{text: string, images: string[], draft: import('./drafts.js').Draft}} Message
 *   images as data URLs; `draft`: the text as it stood in the box and beside it
 * @typedef {{trouble: string, signedOut?: boolean}} Outcome '' for what was taken
 * @typedef {(message: Message, model: string | undefined) => Promise<Outcome>} Send
 */
import { withAttached } from './attached.js';
import { Attachments, LONG_CHARS } from './attachments.js';
import { undirected } from './names.js';
import { grouped } from './numerals.js';
import { ModelPicker } from './picker.js';
import { Pictures } from './pictures.js';
import { fill } from './words.js';

/** From this share of the longest message on, it is said how much is left. */
const NEAR = 0.8;
const utf8 = new TextEncoder();

export class Composer {
  #form;
  #box;
  #send;
  #stop;
  #trouble;
  #signIn;
  #count;
  #words;
  #limit;
  #drafts;
  #attachments;
  #pictures;
  #ahead;
  #sending = false;

  /**
   * @param {HTMLFormElement} form
   * @param {object} on
   * @param {Send} on.send
   * @param {() => void} on.stop
   * @param {import('./drafts.js').Drafts} on.drafts
   * @param {import('./words.js').Words} on.words
   * @param {{max_input_bytes: number, max_images: number, max_image_bytes: number}} on.limits
   * @param {boolean} [on.ahead] a message may be sent while an answer is being written
   */
  constructor(form, { send, stop, drafts, words, limits, ahead = false }) {
    /** @param {string} name */
    const part = (name) => /** @type {HTMLElement} */ (form.querySelector(`[data-part="${name}"]`));
    this.#form = form;
    this.#ahead = ahead;
    this.#drafts = drafts;
    this.#words = words;
    this.#limit = limits.max_input_bytes;
    this.#box = /** @type {HTMLTextAreaElement} */ (form.elements.namedItem('text'));
    this.#send = part('send');
    this.#stop = part('stop');
    this.#signIn = part('sign-in');
    this.#count = part('count');
    this.#trouble = /** @type {HTMLElement} */ (document.getElementById('trouble'));
    this.#attachments = new Attachments(part('attached'), {
      template: /** @type {HTMLTemplateElement} */ (document.getElementById('attachment')),
      words,
      changed: (text) => (text === null ? this.#changed() : this.append(text)),
    });
    this.#pictures = new Pictures(part('pictures'), {
      limits,
      words,
      trouble: (sentence) => this.trouble(sentence),
      changed: () => this.#measure(),
    });
    this.#restore();
    this.#listen(send, stop);
    form.toggleAttribute('data-alive', true); // Enter sends from here on
  }

  focus() {
    this.#box.focus({ preventScroll: true });
  }

  /** @param {string} text put into the box, as if it had been typed */
  write(text) {
    this.#box.value = text;
    this.#changed();
    this.#box.focus();
    this.#box.setSelectionRange(text.length, text.length);
  }

  /** @param {string} text behind what stands there */
  append(text) {
    this.write([this.#box.value, text].filter((part) => part !== '').join('\n\n'));
  }

  /**
   * What was on its way, with what was written meanwhile behind it.
   * @param {import('./drafts.js').Draft & {images: string[]}} what
   */
  takeBack({ text, attached, images }) {
    const since = this.#box.value;
    this.#attachments.replace([...attached, ...this.#attachments.texts]);
    this.#pictures.replace([...images, ...this.#pictures.urls]);
    this.write(text);
    if (since !== '') this.append(since);
  }

  get empty() {
    return this.#box.value === '' && this.#attachments.texts.length === 0 && this.#pictures.urls.length === 0;
  }

  /** What the absence of its readers means for the next answer (law 8): nothing, or the server's default. */
  get onDisconnect() {
    const leaving = /** @type {HTMLSelectElement} */ (this.#form.elements.namedItem('leaving'));
    return leaving.value === 'keep' ? 'continue' : {};
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

  /**
   * @param {string} sentence '' takes the last one away
   * @param {boolean} [signedOut] there is a way to sign in without leaving the page
   */
  trouble(sentence, signedOut = false) {
    this.#trouble.textContent = sentence;
    this.#trouble.hidden = sentence === '';
    this.#signIn.hidden = !signedOut;
  }

  /**
   * @param {Send} send
   * @param {() => void} stop
   */
  #listen(send, stop) {
    this.#box.addEventListener('input', () => {
      this.#leaving(false);
      this.#changed();
    });
    this.#box.addEventListener('keydown', (event) => this.#key(event, stop));
    this.#box.addEventListener('paste', (event) => this.#paste(event));
    const pick = /** @type {HTMLInputElement} */ (this.#form.querySelector('[data-part="pick"]'));
    pick.addEventListener('change', () => {
      void this.#take([...(pick.files ?? [])]);
      pick.value = '';
    });
    this.#form.addEventListener('dragover', (event) => event.preventDefault());
    this.#form.addEventListener('drop', (event) => {
      const files = [...(event.dataTransfer?.files ?? [])];
      if (files.length === 0) return; // text goes where it is dropped
      event.preventDefault();
      void this.#take(files);
    });
    const more = /** @type {HTMLDetailsElement} */ (this.#form.querySelector('[data-part="asking"]'));
    document.addEventListener('pointerdown', (event) => {
      if (!more.contains(/** @type {Node} */ (event.target))) more.open = false;
    });
    more.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && /** @type {Element} */ (event.target).matches('input')) event.preventDefault(); // it is no message
      if (event.key !== 'Escape' || !more.open) return;
      more.open = false;
      more.querySelector('summary')?.focus();
    });
    const model = this.#form.elements.namedItem('model');
    const label = this.#form.querySelector('.model .unseen')?.textContent ?? '';
    if (model instanceof HTMLSelectElement && 'popover' in model) new ModelPicker(model, label);
    const see = () => {
      this.#pictures.welcome = this.#form.querySelector('.model [data-sees]:checked, .model[data-sees]') !== null;
    };
    model?.addEventListener('change', see);
    see();
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      if (event.submitter === this.#stop) stop();
      else void this.#submit(send);
      this.focus();
    });
    // Whoever types here is not overruled by another page of the same chat.
    this.#drafts.follow((draft) => {
      if (document.hasFocus() && document.activeElement === this.#box) return;
      this.#box.value = draft.text;
      this.#attachments.replace(draft.attached);
      this.#measure();
    });
  }

  /** @param {Send} send */
  async #submit(send) {
    const [typed, texts, images] = [this.#box.value, this.#attachments.texts, this.#pictures.urls];
    const text = withAttached(typed, texts);
    if (this.#sending || this.#send.hidden || (text.trim() === '' && images.length === 0)) return;
    this.#sending = true;
    this.#form.setAttribute('aria-busy', 'true');
    this.#leaving(true);
    this.trouble('');
    const model = /** @type {HTMLSelectElement | null} */ (this.#form.elements.namedItem('model'))?.value;
    const { trouble, signedOut } = await send({ text, images, draft: { text: typed, attached: texts } }, model);
    this.#sending = false;
    this.#form.removeAttribute('aria-busy');
    this.trouble(trouble, signedOut);
    if (trouble === '') {
      if (this.#box.value === typed) this.#box.value = ''; // what was written meanwhile stays
      if (same(this.#attachments.texts, texts)) this.#attachments.replace([]);
      if (same(this.#pictures.urls, images)) this.#pictures.replace([]);
    }
    this.#leaving(false);
    this.#changed();
  }

  /**
   * The box is as small as an empty one from the key that sends on, not from the reply on, which may
   * take its time: then nobody expects that anything moves. Whoever writes on sees all of it again.
   * @param {boolean} leaving
   */
  #leaving(leaving) {
    this.#form.toggleAttribute('data-leaving', leaving);
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

  /** @param {ClipboardEvent} event */
  #paste(event) {
    const text = event.clipboardData?.getData('text/plain') ?? '';
    const files = [...(event.clipboardData?.files ?? [])];
    if (text === '' && files.length > 0) void this.#take(files);
    else if (text.length > LONG_CHARS) this.#attachments.add(text.replace(/\r\n?/g, '\n'));
    else return;
    event.preventDefault();
  }

  /** @param {File[]} files */
  async #take(files) {
    this.trouble('');
    for (const file of files) {
      if (file.type.startsWith('image/')) await this.#pictures.add(file);
      else await this.#read(file);
    }
  }

  /** @param {File} file of text, or of what cannot be taken */
  async #read(file) {
    const { not_text: notText, too_long: tooLong } = this.#words.table.attached;
    const name = undirected(file.name);
    if (this.#limit && file.size > this.#limit) return this.trouble(fill(tooLong, { name }));
    try {
      const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
      if (text.includes('\0')) throw new TypeError('no text');
      this.#attachments.add(text.replace(/\r\n?/g, '\n'), file.name);
    } catch {
      this.trouble(fill(notText, { name }));
    }
  }

  /** What was typed before this script was there, else what the server gives back, else the draft. */
  #restore() {
    const draft = this.#drafts.read();
    if (this.#box.value === '') this.#box.value = draft.text;
    this.#attachments.replace(draft.attached);
    this.#changed();
  }

  #changed() {
    this.#measure();
    this.#drafts.keep({ text: this.#box.value, attached: this.#attachments.texts });
  }

  /** The box grows with its text, and near the limit it is said how much is left. */
  #measure() {
    if (!CSS.supports('field-sizing', 'content')) {
      this.#box.style.height = 'auto';
      this.#box.style.height = `${this.#box.scrollHeight}px`;
    }
    const text = withAttached(this.#box.value, this.#attachments.texts);
    const most = text.length * 3 + this.#pictures.bytes; // UTF-8 has at most three bytes a unit of UTF-16
    const bytes = most < this.#limit * NEAR ? most : utf8.encode(text).length + this.#pictures.bytes;
    const near = this.#limit > 0 && bytes >= this.#limit * NEAR;
    const { left, over } = this.#words.table.count;
    const kb = grouped(Math.ceil(Math.abs(this.#limit - bytes) / 1024));
    this.#count.hidden = !near;
    if (near) this.#count.textContent = fill(bytes > this.#limit ? over : left, { kb });
    this.#count.toggleAttribute('data-over', bytes > this.#limit);
  }
}

/** @param {unknown} one @param {unknown} other */
function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}
