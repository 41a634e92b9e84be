/**
 * Somebody is still there (law 8): any open page of the site keeps the answers that this browser
 * asked for alive, not only the page that shows them.
 *
 * An answer that this page follows counts by its stream, if that is opened by this page. For the others
 * the state is asked for with this page's viewer id, which counts too. A page that goes says so for its own id only, so a reload or
 * a link to another page of the site, which is there by then, is not a leave.
 */
import { get, post, randomId } from './http.js';

/** The server's own heartbeat; a hidden page's timers may be slower, which its margin allows for. */
const BEAT_MS = 15_000;
/** Where pages of one browser tell each other which answers are running. */
const KEY = 'unbroken.running';
/** More than anybody has running; an entry that was never taken out must not stay for ever. */
const MAX_REMEMBERED = 20;

const TERMINAL = new Set(['completed', 'incomplete', 'failed', 'cancelled', 'interrupted']);

/** A browser may forbid storage: then this page speaks for its own answers only. */
export class Remembered {
  #store;
  /** @type {string[]} */
  #own = [];

  /** @param {Storage | null} store */
  constructor(store) {
    this.#store = store;
  }

  /** @returns {string[]} */
  all() {
    try {
      const found = JSON.parse(this.#store?.getItem(KEY) ?? '[]');
      return [...new Set([...(Array.isArray(found) ? found.map(String) : []), ...this.#own])];
    } catch {
      return [...this.#own];
    }
  }

  /** @param {string} id */
  add(id) {
    this.#own = [...this.#own.filter((known) => known !== id), id];
    this.#write([...this.all().filter((known) => known !== id), id].slice(-MAX_REMEMBERED));
  }

  /** @param {string} id */
  remove(id) {
    this.#own = this.#own.filter((known) => known !== id);
    this.#write(this.all().filter((known) => known !== id));
  }

  /** @param {string[]} ids */
  #write(ids) {
    try {
      this.#store?.setItem(KEY, JSON.stringify(ids));
    } catch {
      // Full or forbidden: `#own` still knows this page's answers.
    }
  }
}

export class Presence {
  viewer = randomId();
  /** Streams name this page's viewer: this tab holds the line (shared.js), or each tab has its own. */
  lineIsOurs = true;
  /** Told of each answer that this page begins to follow. @type {(id: string) => void} */
  onRunning = () => {};
  #remembered;
  /** Followed by this page: their streams count. @type {Set<string>} */
  #followed = new Set();
  /** Answers for which this page's viewer id was given. @type {Set<string>} */
  #present = new Set();
  /** @type {any} */
  #timer = undefined;
  #onEnded;
  #env;

  /**
   * @param {Remembered} remembered
   * @param {(id: string) => void} [onEnded] an answer is found to have ended
   * @param {{get: typeof get, post: typeof post, setTimeout: (run: () => void, ms: number) => any, clearTimeout: (id: any) => void}} [env]
   */
  constructor(remembered, onEnded = () => {}, env = browser) {
    this.#remembered = remembered;
    this.#onEnded = onEnded;
    this.#env = env;
  }

  /** Answers of this browser that have not ended, as far as is known. */
  running() {
    return this.#remembered.all();
  }

  /** @param {string} id of an answer that this browser has asked for */
  remember(id) {
    this.#remembered.add(id);
  }

  /** @param {string} id */
  follow(id) {
    this.onRunning(id);
    this.#followed.add(id);
    this.#present.add(id);
    this.#remembered.add(id);
    void this.#beat(id);
  }

  /** @param {string} id named with this page's viewer, for whichever tab follows it */
  carried(id) {
    this.#present.add(id);
  }

  /** @param {string} id of an answer that has ended */
  ended(id) {
    this.#followed.delete(id);
    this.#present.delete(id);
    this.#remembered.remove(id);
    this.#onEnded(id);
  }

  /** Say now, and every 15 s, that somebody is there. Harmless when it was started. */
  start() {
    if (this.#timer !== undefined) return;
    const beat = () => {
      for (const id of this.#remembered.all()) this.#beat(id);
      this.#timer = this.#env.setTimeout(beat, BEAT_MS);
    };
    beat();
  }

  /** This page goes. If it comes back from the browser's cache it is a new viewer. */
  leave() {
    this.#env.clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const id of this.#present) {
      this.#env.post(`${url(id)}/leave`, { json: { viewer: this.viewer }, keepalive: true });
    }
    this.#present.clear();
    this.#followed.clear();
    this.viewer = randomId();
  }

  /** @param {string} id */
  async #beat(id) {
    if (this.#followed.has(id) && this.lineIsOurs) return;
    this.#present.add(id);
    const { status, body } = await this.#env.get(`${url(id)}?viewer=${this.viewer}`);
    if (status === 404 || TERMINAL.has(body?.status)) this.ended(id);
    if (status === 401 || status === 403) this.#present.delete(id);
  }
}

/** @param {string} id */
const url = (id) => `/api/responses/${encodeURIComponent(id)}`;

const browser = {
  get,
  post,
  setTimeout: (/** @type {() => void} */ run, /** @type {number} */ ms) => globalThis.setTimeout(run, ms),
  clearTimeout: (/** @type {any} */ id) => globalThis.clearTimeout(id),
};

/**
 * The list of chats shows where an answer is being written.
 * @param {string} id of the answer
 * @param {boolean} running
 */
export function markRunning(id, running) {
  for (const mark of document.querySelectorAll('[data-running-answer]')) {
    const dot = /** @type {HTMLElement} */ (mark);
    if (running && dot.closest('[aria-current]')) dot.dataset.runningAnswer = id;
    if (dot.dataset.runningAnswer === id) dot.hidden = !running;
  }
}

/** @type {Presence | null} */
let opened = null;

/** This page's. @returns {Presence} */
export function openPresence() {
  if (opened) return opened;
  /** @type {Storage | null} */
  let store = null;
  try {
    store = globalThis.localStorage;
  } catch {
    // Forbidden by the browser's settings.
  }
  opened = new Presence(new Remembered(store), (id) => markRunning(id, false));
  return opened;
}
