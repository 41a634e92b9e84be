/**
 * Messages that were sent while the server could not be reached: they wait in this browser, are sent in
 * their order when it is back, also by another page or after a reload, and can be taken back until then.
 *
 * Each has the idempotency key of its first attempt, so that one which did arrive is not sent twice.
 * The server knows a key for 24 hours; who comes back later is asked.
 *
 * @typedef {object} Entry
 * @property {string} key
 * @property {string | null} chat null: it begins one
 * @property {Record<string, any>} settings of that chat
 * @property {any} message as the API takes it
 * @property {import('./drafts.js').Draft} draft as it stood in the box
 * @property {number} tried when it may have reached the server first; 0: it was never on its way
 * @property {string} trouble why it is not tried again by itself, or ''
 */

const PREFIX = 'unbroken.unsent';
const KEY_LIFE_MS = 23 * 3_600_000;
/** From one attempt to the next: twice as long each time, up to the second. */
const FIRST_PAUSE_MS = 2_000;
const LONGEST_PAUSE_MS = 60_000;
/** Another attempt may go well: nobody has to do anything about these. */
const PASSES = new Set(['network', 401, 403, 409, 429, 500, 502, 503, 504]);

export class Unsent {
  #store;
  #key;
  #outbox;
  #words;
  #on;
  #world;
  #pause = FIRST_PAUSE_MS;
  /** What the last attempt met; 0: none was made. @type {number | 'network'} */
  met = 0;
  /** @type {any} */
  #timer;
  /** A browser that keeps nothing: then they wait as long as this page. @type {Entry[]} */
  #here = [];

  /**
   * @param {object} options
   * @param {Storage | null} options.store
   * @param {string} options.person
   * @param {import('./outbox.js').Outbox} options.outbox
   * @param {import('./words.js').Words} options.words
   * @param {() => void} options.changed the list is another one
   * @param {(entry: Entry, sent: import('./outbox.js').Sent) => void} options.sent
   * @param {object} [world] the browser's, or a test's
   * @param {() => number} [world.now]
   * @param {(run: () => void, ms: number) => any} [world.setTimeout]
   * @param {(id: any) => void} [world.clearTimeout]
   * @param {(name: string, run: () => Promise<void>) => Promise<void>} [world.alone]
   */
  constructor({ store, person, outbox, words, changed, sent }, world = {}) {
    this.#store = store;
    this.#key = `${PREFIX}:${person}`;
    this.#outbox = outbox;
    this.#words = words;
    this.#on = { changed, sent };
    this.#world = {
      now: Date.now,
      /** @type {(run: () => void, ms: number) => any} */ setTimeout: (run, ms) => setTimeout(run, ms),
      /** @type {(id: any) => void} */ clearTimeout: (id) => clearTimeout(id),
      alone,
      ...world,
    };
  }

  /** @returns {Entry[]} the oldest first */
  all() {
    return [...(this.#kept() ?? []).filter(isEntry), ...this.#here];
  }

  /** @returns {any[] | null} also what another version has put there; null: nothing can be added */
  #kept() {
    try {
      const kept = JSON.parse(this.#store?.getItem(this.#key) ?? '[]');
      return this.#store && Array.isArray(kept) ? kept : null;
    } catch {
      return null;
    }
  }

  /** @param {Entry} entry */
  add(entry) {
    const kept = this.#kept();
    try {
      if (kept === null) this.#here.push(entry);
      else this.#keep([...kept, entry]);
    } catch {
      this.#here.push(entry); // it is full
    }
    this.#on.changed();
    this.#later();
  }

  /** @param {string} key @returns {Entry | undefined} what was taken back */
  remove(key) {
    const entry = this.all().find((one) => one.key === key);
    this.#change(key, () => null);
    return entry;
  }

  /** The network may be back: at once, and then patiently. */
  async flush() {
    this.#world.clearTimeout(this.#timer);
    if (!this.all().some(({ trouble }) => trouble === '')) return;
    await this.#world.alone(this.#key, () => this.#sendAll());
    if (this.all().some(({ trouble }) => trouble === '')) this.#later();
    else this.#pause = FIRST_PAUSE_MS;
  }

  /** @param {EventTarget} [where] also what other pages of this browser do to the list */
  start(where = window) {
    where.addEventListener('storage', (event) => {
      if (/** @type {StorageEvent} */ (event).key === this.#key) this.#on.changed();
    });
    where.addEventListener('online', () => this.flush());
    this.#on.changed();
    void this.flush();
  }

  async #sendAll() {
    for (const { key } of this.all()) {
      const entry = this.all().find((one) => one.key === key); // another page may have sent it
      if (entry && entry.trouble === '' && !(await this.#send(entry))) return;
    }
  }

  /** @param {Entry} entry @returns {Promise<boolean>} the next one may be tried */
  async #send(entry) {
    if (entry.tried && this.#world.now() - entry.tried > KEY_LIFE_MS) {
      this.#change(entry.key, (one) => ({ ...one, trouble: this.#words.table.unsent.old }));
      return true;
    }
    if (entry.chat === null) {
      const chat = await this.#outbox.startChat(entry.settings);
      if (chat.id === null) return this.#failed(entry, chat);
      entry.chat = chat.id;
      this.#change(entry.key, (one) => ({ ...one, chat: chat.id }));
    }
    entry.tried ||= this.#world.now();
    this.#change(entry.key, (one) => ({ ...one, tried: entry.tried }));
    const sent = await this.#outbox.resend(entry.chat, entry.message, entry.key);
    if (sent.id === null) return this.#failed(entry, sent);
    this.#change(entry.key, () => null);
    this.#on.sent(entry, sent);
    return true;
  }

  /**
   * @param {Entry} entry
   * @param {{status: number | 'network', trouble: string}} reply
   */
  #failed(entry, { status, trouble }) {
    if (PASSES.has(status)) {
      this.met = status;
      this.#on.changed();
      return false;
    }
    this.#change(entry.key, (one) => ({ ...one, trouble }));
    return true;
  }

  #later() {
    this.#world.clearTimeout(this.#timer);
    this.#timer = this.#world.setTimeout(() => this.flush(), this.#pause);
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE_MS);
  }

  /**
   * Read anew: another page may have changed another one. null takes it out.
   * @param {string} key
   * @param {(entry: Entry) => Entry | null} change
   */
  #change(key, change) {
    /** @param {any[]} entries of another version's nothing is known: they stay as they are */
    const changed = (entries) =>
      entries.map((one) => (isEntry(one) && one.key === key ? change(one) : one)).filter((one) => one !== null);
    const kept = this.#kept();
    this.#here = changed(this.#here);
    try {
      if (kept !== null) this.#keep(changed(kept));
    } catch {
      // It is full, and what is known of this one has grown: this page holds it from here on, for the
      // list without it is shorter. Thrown, it would begin an empty chat with each attempt.
      const mine = (/** @type {any} */ one) => isEntry(one) && one.key === key;
      this.#keep((kept ?? []).filter((one) => !mine(one)));
      this.#here.push(...changed((kept ?? []).filter(mine)));
    }
    this.#on.changed();
  }

  /** @param {any[]} entries */
  #keep(entries) {
    if (entries.length) this.#store?.setItem(this.#key, JSON.stringify(entries));
    else this.#store?.removeItem(this.#key);
  }
}

/**
 * A later version may have kept something else here: that must not stop the page.
 * @param {any} kept
 */
function isEntry(kept) {
  const { key, chat, message, trouble, draft } = kept ?? {};
  const texts = [key, chat ?? '', message?.text, trouble, draft?.text];
  return texts.every((one) => typeof one === 'string') && Array.isArray(draft.attached);
}

/**
 * One page of this browser at a time; whoever comes second leaves it to the first. Where there are no
 * locks (http), both may send: with the same key.
 * @param {string} name
 * @param {() => Promise<void>} run
 */
async function alone(name, run) {
  if (!navigator.locks) return run();
  await navigator.locks.request(name, { ifAvailable: true }, (lock) => (lock ? run() : undefined));
}
