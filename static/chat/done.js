/**
 * Answers that ended while nobody looked: a note at the chat, a number in the page's title, and a
 * notification for who asked for one. All tabs of the browser share what is noted.
 *
 * @typedef {import('./live.js').Change} Change
 *
 * @typedef {object} Where
 * @property {Storage | null} store
 * @property {() => boolean} looked the page is visible
 * @property {() => boolean} leads one tab speaks for all; where one is visible it is that one
 */

/** Chats by id, with how their answer ended. */
const KEY = 'unbroken.done';
/** More are no help to anybody, and the entry must not grow for ever. */
const MOST = 50;

export const TERMINAL = new Set(['completed', 'incomplete', 'failed', 'cancelled', 'interrupted']);

export class Done {
  #chat;
  #where;
  #show;
  #notify;
  /** Answers of this browser that are being written, as far as this page has heard. @type {Set<string>} */
  #ours = new Set();

  /**
   * @param {object} options
   * @param {string} options.chat of this page, or ''
   * @param {Where} options.where
   * @param {(noted: Record<string, string>) => void} options.show by chat
   * @param {(change: Change) => void} options.notify somebody wants to be told, and no page is looked at
   */
  constructor({ chat, where, show, notify }) {
    this.#chat = chat;
    this.#where = where;
    this.#show = show;
    this.#notify = notify;
  }

  /** @param {string[]} ids answers that this browser has asked for or follows */
  begun(ids) {
    for (const id of ids) this.#ours.add(id);
  }

  /** @param {Change} change */
  take(change) {
    const { id, response, status, running, deleted } = change;
    if (deleted) this.#write(id, null);
    if (!response || running === response || !TERMINAL.has(status ?? '') || !this.#ours.delete(response)) return;
    // Who pressed Stop knows.
    if (status === 'cancelled' || (id === this.#chat && this.#where.looked())) return;
    if (!this.#where.leads()) return;
    this.#write(id, status);
    if (!this.#where.looked()) this.#notify(change);
  }

  /** What is noted may have changed, here or in another tab; a chat that is looked at needs no note. */
  look() {
    if (this.#chat && this.#where.looked() && this.#chat in this.#read()) this.#write(this.#chat, null);
    else this.#show(this.#read());
  }

  /** @returns {Record<string, string>} */
  #read() {
    try {
      const found = JSON.parse(this.#where.store?.getItem(KEY) ?? '{}');
      return found !== null && typeof found === 'object' && !Array.isArray(found) ? found : {};
    } catch {
      return {};
    }
  }

  /**
   * @param {string} chat
   * @param {string | null} status
   */
  #write(chat, status) {
    const { [chat]: _, ...others } = this.#read();
    const noted = Object.fromEntries(Object.entries(status === null ? others : { ...others, [chat]: status }).slice(-MOST));
    try {
      this.#where.store?.setItem(KEY, JSON.stringify(noted));
    } catch {
      // Full or forbidden: this page shows it all the same.
    }
    this.#show(noted);
  }
}

/**
 * @param {string} title
 * @param {number} before the number in front of it now; 0: none
 * @param {number} count
 */
export function titleWith(title, before, count) {
  const bare = before > 0 ? title.replace(`(${before}) `, '') : title;
  return count > 0 ? `(${count}) ${bare}` : bare;
}
