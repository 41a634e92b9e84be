/**
 * The conversation of this page as it is on the server, when another device, tab or script has gone on
 * with it: turns that are missing are taken from the page that the server would render now, those that
 * are here already stay the nodes they are.
 */
import { fetchPage, partOf } from './pages.js';

export class Mirror {
  #transcript;
  #url;
  #busy;
  #added;
  #fetchPage;
  #looking = false;
  /** The last message of the branch that is shown, as the server told it last. @type {number | null} */
  #last = null;
  /** This page may be of any age. */
  #old = false;

  /**
   * @param {object} options
   * @param {HTMLElement} options.transcript
   * @param {string} options.url of the chat's page
   * @param {() => boolean} options.busy something of this page's own is on its way to the server
   * @param {(turns: HTMLElement[], page: Document) => void} options.added what stands at the end now
   * @param {typeof fetchPage} [options.fetch]
   */
  constructor({ transcript, url, busy, added, fetch = fetchPage }) {
    this.#transcript = transcript;
    this.#url = url;
    this.#busy = busy;
    this.#added = added;
    this.#fetchPage = fetch;
  }

  /** @param {number | null} last the chat has changed, and this is its last message now */
  async changed(last) {
    this.#last = last;
    await this.look();
  }

  /** Too much has changed to be told, this chat perhaps. */
  async renew() {
    this.#old = true;
    await this.look();
  }

  /** Again, after whatever kept it from looking. */
  async look() {
    if (this.#looking) return;
    this.#looking = true;
    while ((this.#old || !this.#isHere()) && !this.#busy()) {
      this.#old = false;
      if (await this.#take()) break;
      this.#old = true;
    }
    this.#looking = false;
  }

  #isHere() {
    return this.#last === null || this.#transcript.lastElementChild?.id === `message-${this.#last}`;
  }

  /** @returns {Promise<boolean>} false: something was asked here meanwhile, so that page is an old one */
  async #take() {
    const before = this.#transcript.lastElementChild;
    const page = await this.#fetchPage(this.#url);
    if (this.#transcript.lastElementChild !== before) return false;
    const turns = page && partOf(page, '#transcript');
    if (!page || !turns || this.#busy()) return true;
    const { kept, fresh } = divide([...this.#transcript.children], [...turns.children]);
    const gone = [...this.#transcript.children].slice(kept);
    // What somebody is writing is not taken from them; the next change, or closing it, looks again.
    if (gone.some((turn) => turn.querySelector('details.edit[open]'))) return true;
    for (const turn of gone) turn.remove();
    this.#transcript.append(...fresh);
    this.#added(/** @type {HTMLElement[]} */ (fresh), page);
    return true;
  }
}

/**
 * How many of the old turns stay, and which of the new ones follow them. Either may begin further up: the
 * page has earlier messages that were scrolled to, or the server shows fewer.
 * @param {Pick<Element, 'id'>[]} old
 * @param {Element[]} now
 */
export function divide(old, now) {
  const first = now.findIndex((turn) => turn.id && old.some((known) => known.id === turn.id));
  if (first < 0) return { kept: 0, fresh: now };
  let at = old.findIndex((turn) => turn.id === now[first].id);
  let next = first;
  while (at < old.length && next < now.length && old[at].id === now[next].id) {
    at += 1;
    next += 1;
  }
  return { kept: at, fresh: now.slice(next) };
}
