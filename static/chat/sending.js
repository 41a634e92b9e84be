/**
 * From the box to the server; where that cannot be reached, to the messages that wait for it, which are
 * listed over the box.
 */
import { storage } from './drafts.js';
import { Outbox } from './outbox.js';
import { Unsent } from './unsent.js';

/** @typedef {import('./composer.js').Message} Message */

export class Sending {
  #outbox;
  #unsent;
  #words;
  #list;
  #template;
  #takeBack;
  /** Made by the first attempt of a conversation, used by the next if that one failed. @type {string | null} */
  #begun = null;

  /**
   * @param {object} options
   * @param {string} options.person
   * @param {import('./words.js').Words} options.words
   * @param {(what: import('./drafts.js').Draft & {images: string[]}) => void} options.takeBack into the box
   * @param {(entry: import('./unsent.js').Entry, sent: import('./outbox.js').Sent) => void} options.sent
   *   what had waited
   */
  constructor({ person, words, takeBack, sent }) {
    this.#words = words;
    this.#takeBack = takeBack;
    this.#list = /** @type {HTMLElement} */ (document.getElementById('unsent'));
    this.#template = /** @type {HTMLTemplateElement} */ (document.getElementById('unsent-item'));
    this.#outbox = new Outbox(words);
    const changed = () => this.#show();
    this.#unsent = new Unsent({ store: storage(), person, outbox: this.#outbox, words, changed, sent });
  }

  start() {
    this.#unsent.start();
    document.addEventListener('visibilitychange', () => document.hidden || this.#unsent.flush());
    addEventListener('pageshow', (event) => event.persisted && this.#unsent.flush());
  }

  /**
   * @param {string | null} chat null: begin one
   * @param {Message} message
   * @param {object} how
   * @param {string} [how.model]
   * @param {any} how.on_disconnect
   * @param {Record<string, any>} [how.settings] of a chat that is begun
   * @returns {Promise<{sent: import('./outbox.js').Sent & {chat: string} | null, trouble: string, signedOut: boolean}>}
   */
  async send(chat, { text, images, draft }, { settings = {}, ...how }) {
    const message = { text, ...(images.length > 0 && { images }), ...how };
    /** @param {string | null} to @param {number} tried */
    const wait = (to, tried) => this.#wait(to, { message, draft, settings, tried });
    let target = chat ?? this.#begun;
    const waits = this.#unsent.all().some((entry) => entry.chat === target && entry.trouble === '');
    if (waits || !navigator.onLine) return wait(target, 0);
    if (target === null) {
      const started = await this.#outbox.startChat(settings);
      if (started.status === 'network') return wait(null, 0);
      if (started.id === null) return refused(started);
      target = this.#begun = started.id;
    }
    const tried = Date.now();
    const sent = await this.#outbox.send(target, message);
    if (sent.status === 'network') return wait(target, tried);
    if (sent.id === null) return refused(sent);
    this.#begun = null; // this page may come back from the browser's cache
    return { sent: { ...sent, chat: target }, trouble: '', signedOut: false };
  }

  /**
   * @param {string | null} chat
   * @param {Omit<import('./unsent.js').Entry, 'key' | 'chat' | 'trouble'>} what
   */
  #wait(chat, what) {
    const key = this.#outbox.key(chat, what.message); // that of the attempt, if there was one
    this.#outbox.forget();
    this.#begun = null;
    this.#unsent.add({ key, chat, trouble: '', ...what });
    return { sent: null, trouble: '', signedOut: false };
  }

  #show() {
    const items = this.#unsent.all().map((entry) => this.#item(entry));
    this.#list.replaceChildren(...items);
    this.#list.hidden = items.length === 0;
  }

  /** @param {import('./unsent.js').Entry} entry */
  #item(entry) {
    const item = /** @type {HTMLElement} */ (/** @type {Element} */ (this.#template.content.firstElementChild).cloneNode(true));
    /** @param {string} name */
    const part = (name) => /** @type {HTMLElement} */ (item.querySelector(`[data-part="${name}"]`));
    const { unsent } = this.#words.table;
    part('said').textContent = entry.message.text.slice(0, 300);
    part('why').textContent = entry.trouble || (unsent[this.#unsent.met] ?? unsent.network);
    part('back').addEventListener('click', () => {
      const taken = this.#unsent.remove(entry.key);
      if (!taken) return; // sent a moment ago
      this.#begun = taken.chat;
      this.#outbox.takeBack(taken.chat, taken.message, taken.key);
      this.#takeBack({ ...taken.draft, images: taken.message.images ?? [] });
    });
    part('remove').addEventListener('click', () => this.#unsent.remove(entry.key));
    return item;
  }
}

/** @param {{trouble: string, status: number | 'network'}} reply */
function refused({ trouble, status }) {
  return { sent: null, trouble, signedOut: status === 401 };
}
