/**
 * The list of chats as it changes, on whichever device: names, the dot of an answer that is being
 * written, the order, what is new and what is gone.
 *
 * @typedef {object} Change a chat as it is now (PROTOCOL 15.4)
 * @property {string} id
 * @property {string} title
 * @property {boolean} pinned
 * @property {boolean} deleted
 * @property {string | null} running the answer that is being written
 * @property {number | null} last the last message
 * @property {string | null} response the answer that it is
 * @property {string | null} status and how that stands
 * @property {number} written when somebody last wrote in it, in milliseconds
 * @property {number} at
 */
import { fetchPage, partOf } from './pages.js';

export class LiveList {
  #url;
  #showTitle;
  /** When each was last written in: only that moves it. @type {Map<string, number>} */
  #written = new Map();
  #asOf;
  #looked;
  #stale = false;
  /** While a search is shown it is not in the document. */
  #listing;

  /**
   * @param {object} options
   * @param {HTMLElement} options.side
   * @param {string} options.url of the list's own page
   * @param {number} options.asOf when the server rendered it
   * @param {() => boolean} options.looked the page is visible
   * @param {(chat: string, title: string) => void} options.showTitle wherever the page says it
   */
  constructor({ side, url, asOf, looked, showTitle }) {
    this.#url = url;
    this.#asOf = asOf;
    this.#showTitle = showTitle;
    this.#looked = looked;
    this.#listing = /** @type {HTMLElement} */ (side.querySelector('[data-part="listing"]'));
  }

  /** @param {Change} change */
  async take(change) {
    const item = this.#item(change.id);
    if (change.deleted) {
      item?.remove();
      return;
    }
    if (!item && change.at <= this.#asOf) return; // further down than the list is shown
    if (!item || (item.dataset.pinned !== undefined) !== change.pinned) {
      await this.renew();
      return;
    }
    const renames = item.querySelector('input') !== null;
    if (!renames && item.querySelector('[data-part="title"]')?.textContent !== change.title) this.#showTitle(change.id, change.title);
    const dot = /** @type {HTMLElement} */ (item.querySelector('[data-running-answer]'));
    dot.dataset.runningAnswer = change.running ?? '';
    dot.hidden = change.running === null;
    const before = this.#written.get(change.id) ?? this.#asOf;
    this.#written.set(change.id, change.written);
    if (change.written > before && !change.pinned && !renames) this.#toTop(item);
  }

  /** The list as the server has it now; where nobody looks, when somebody does. */
  async renew() {
    this.#stale = !this.#looked();
    const page = this.#stale ? null : await fetchPage(this.#url);
    const fresh = page && partOf(page, 'main [data-part="listing"]');
    if (!fresh) return;
    const current = this.#listing.querySelector('[aria-current]')?.closest('[data-chat]')?.getAttribute('data-chat');
    fresh.querySelector(`[data-chat="${current}"] a`)?.setAttribute('aria-current', 'page');
    const focused = this.#keepFocus();
    this.#listing.replaceChildren(...fresh.childNodes);
    focused();
  }

  /** The page is looked at. @returns {Promise<void>} */
  async shown() {
    if (this.#stale) await this.renew();
  }

  /** @param {string} chat @returns {HTMLElement | null} */
  #item(chat) {
    return this.#listing.querySelector(`[data-chat="${chat}"]`);
  }

  /** Below those that are pinned. @param {HTMLElement} item */
  #toTop(item) {
    const first = this.#listing.querySelector('[data-chat]:not([data-pinned])');
    if (!first || first === item) return;
    const focused = this.#keepFocus();
    first.before(item);
    focused();
  }

  /** A node that is moved or replaced loses the focus: it is given back to the same link. */
  #keepFocus() {
    const active = document.activeElement;
    const chat = active?.closest('[data-chat]')?.getAttribute('data-chat');
    const link = active?.getAttribute('href');
    if (!chat || !link || !this.#listing.contains(active)) return () => {};
    return () => /** @type {HTMLElement | null} */ (this.#item(chat)?.querySelector(`a[href="${link}"]`) ?? null)?.focus({ preventScroll: true });
  }
}
