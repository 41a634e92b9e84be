/**
 * What is being written, kept in this browser: one draft per person and place (a chat, or `new`). It
 * survives the page, the browser, and a sign-in that ran out; a person only ever sees their own.
 *
 * All pages at the same place share it. A person types in one of them at a time, so the others take over
 * what that one keeps, and nothing is overwritten by a page that somebody left open.
 *
 * @typedef {{name: string, text: string}} Attached a long text beside the box
 * @typedef {{text: string, attached: Attached[]}} Draft
 */

const PREFIX = 'unbroken.draft';
/** Older ones are thrown away: their chats may be gone. */
const LIFE_MS = 30 * 86_400_000;

/** @type {Draft} */
const NOTHING = { text: '', attached: [] };

export class Drafts {
  #store;
  #key;
  #now;

  /**
   * @param {Storage | null} store null: a browser that forbids it; then a draft lasts as long as its page
   * @param {string} person
   * @param {string} place
   * @param {() => number} [now]
   */
  constructor(store, person, place, now = Date.now) {
    this.#store = store;
    this.#key = `${PREFIX}:${person}:${place}`;
    this.#now = now;
    this.#throwAway();
  }

  /** @returns {Draft} */
  read() {
    return parse(this.#get(this.#key));
  }

  /** @param {Draft} draft */
  keep({ text, attached }) {
    try {
      if (text === '' && attached.length === 0) this.#store?.removeItem(this.#key);
      else this.#store?.setItem(this.#key, JSON.stringify({ text, attached, at: this.#now() }));
    } catch {
      // It is full: as if it were forbidden.
    }
  }

  /**
   * @param {(draft: Draft) => void} changed another page at this place has kept something else
   * @param {EventTarget} [where]
   */
  follow(changed, where = window) {
    where.addEventListener('storage', (event) => {
      if (/** @type {StorageEvent} */ (event).key === this.#key) changed(this.read());
    });
  }

  #throwAway() {
    const keys = Array.from({ length: this.#store?.length ?? 0 }, (_, n) => this.#store?.key(n) ?? '');
    for (const key of keys.filter((name) => name.startsWith(`${PREFIX}:`))) {
      if (this.#now() - at(this.#get(key)) > LIFE_MS) this.#store?.removeItem(key);
    }
  }

  /** @param {string} key */
  #get(key) {
    try {
      return this.#store?.getItem(key) ?? null;
    } catch {
      return null;
    }
  }
}

/** A browser may forbid it. @returns {Storage | null} */
export function storage() {
  try {
    return localStorage;
  } catch {
    return null;
  }
}

/** @param {string | null} kept @returns {Draft} */
function parse(kept) {
  try {
    const { text, attached } = JSON.parse(kept ?? '');
    return typeof text === 'string' ? { text, attached: Array.isArray(attached) ? attached : [] } : NOTHING;
  } catch {
    return NOTHING;
  }
}

/** @param {string | null} kept */
function at(kept) {
  try {
    return Number(JSON.parse(kept ?? '').at) || 0;
  } catch {
    return 0;
  }
}
