/**
 * Keeps one answer of the page up to date until its end: the network (stream.js) on one side, what
 * is seen (answer.js) and said aloud on the other.
 */
import { get, post } from './http.js';
import { Follower, browser } from './stream.js';
import { fill } from './words.js';

/** A connection that is back sooner than this was never worth a word. */
const QUIET_MS = 700;
/** How often a screen reader hears that the answer goes on. */
const STILL_MS = 15_000;
/** Nobody wanted it to end like that, and what comes next is up to the person. */
const FAILURES = new Set(['failed', 'interrupted']);

export class Following {
  #view;
  #words;
  #announce;
  #onEnd;
  #follower;
  #url;
  #env;
  #http;
  /** @type {any} */
  #quiet = undefined;
  /** @type {any} */
  #still = undefined;
  #lost = false;

  /**
   * @param {object} options
   * @param {string} options.id of the response
   * @param {import('./answer.js').AnswerView} options.view
   * @param {import('./words.js').Words} options.words
   * @param {string} options.viewer
   * @param {(sentence: string, atOnce?: boolean) => void} options.announce
   * @param {() => void} options.onEnd nothing more will come
   * @param {import('./stream.js').Env} [options.env]
   * @param {{get: typeof get, post: typeof post}} [options.http]
   */
  constructor({ id, view, words, viewer, announce, onEnd, env = browser, http = { get, post } }) {
    this.#view = view;
    this.#words = words;
    this.#announce = announce;
    this.#onEnd = onEnd;
    this.#env = env;
    this.#http = http;
    this.#url = `/api/responses/${encodeURIComponent(id)}`;
    this.#follower = this.#open(viewer);
  }

  get view() {
    return this.#view;
  }

  start() {
    this.#follower.start();
    this.#announce(this.#words.table.announce.started);
    this.#sayStill();
  }

  /** @param {{networkChanged?: boolean}} [what] */
  wake(what) {
    this.#follower.wake(what);
    if (this.#lost) this.#view.connection(this.#lostSentence());
  }

  /** The page is put away; `resume` may follow. */
  suspend() {
    this.#view.flush();
    this.#follower.close();
    this.#env.clearTimeout(this.#still);
    this.#beQuiet();
  }

  /** @param {string} viewer the page came back, as a new viewer */
  resume(viewer) {
    if (this.#view.ended) return;
    this.#follower = this.#open(viewer);
    this.#follower.start();
    this.#sayStill();
  }

  /** Ask the server to stop. What follows comes as events, like every other end. */
  async stop() {
    this.#view.stopping(true);
    const { status, body } = await this.#http.post(`${this.#url}/cancel`);
    if (status === 200 && body?.text_sha256) this.#replaceIfNewer(body);
    if (status === 200 || status === 202) return '';
    this.#view.stopping(false);
    return this.#words.stopFailed(status);
  }

  /** @param {string} viewer */
  #open(viewer) {
    const { epoch, seq } = this.#view.snapshot();
    return new Follower({
      url: this.#url,
      viewer,
      cursor: { epoch, seq },
      env: this.#env,
      handlers: {
        onEvent: (event) => this.#view.apply(event),
        onSnapshot: (snapshot) => this.#view.replace(snapshot),
        onState: (state) => this.#state(state),
      },
    });
  }

  /** @param {import('./stream.js').State} state */
  #state({ name, attempt = 0, status = 0 }) {
    if (name === 'waiting') this.#waiting(attempt);
    if (name === 'live') this.#live();
    if (name === 'refused') this.#over(this.#words.refused(status));
    if (name === 'ended') this.#ended();
  }

  /** @param {number} attempt */
  #waiting(attempt) {
    const say = () => {
      if (!this.#lost) this.#announce(this.#words.table.announce.lost);
      this.#lost = true;
      this.#view.connection(this.#lostSentence());
    };
    if (this.#lost || attempt > 1) say();
    else this.#quiet ??= this.#env.setTimeout(say, QUIET_MS);
  }

  #live() {
    this.#beQuiet();
    if (this.#lost) this.#announce(this.#words.table.announce.back);
    this.#lost = false;
    this.#view.connection(null);
  }

  async #ended() {
    this.#over(null);
    const snapshot = this.#view.snapshot();
    const { label, sentence, retry } = this.#words.end(snapshot);
    const failed = FAILURES.has(snapshot.status) || (snapshot.status === 'completed' && retry); // it is empty
    const words = snapshot.text.split(/\s+/).filter(Boolean).length;
    this.#announce(label ? `${label}. ${sentence}` : fill(this.#words.table.announce.completed, { words }), failed);
    if (await differs(snapshot)) {
      const { body } = await this.#http.get(this.#url);
      if (body?.text_sha256) this.#view.replace(body);
    }
  }

  /** @param {string | null} sentence what stays to be said about the connection */
  #over(sentence) {
    this.#beQuiet();
    this.#env.clearTimeout(this.#still);
    this.#view.stopping(false);
    this.#view.connection(sentence, true);
    if (sentence) this.#announce(sentence, true);
    this.#onEnd();
  }

  /** @param {import('./fold.js').Snapshot} snapshot the answer to a stop, which may be ahead of the stream */
  #replaceIfNewer(snapshot) {
    if (this.#view.ended || snapshot.seq < this.#view.snapshot().seq) return;
    this.#follower.close();
    this.#view.replace(snapshot);
    this.#ended();
  }

  #lostSentence() {
    const { connection } = this.#words.table;
    return globalThis.navigator?.onLine === false ? connection.offline : connection.waiting;
  }

  #beQuiet() {
    this.#env.clearTimeout(this.#quiet);
    this.#quiet = undefined;
  }

  #sayStill() {
    this.#env.clearTimeout(this.#still);
    this.#still = this.#env.setTimeout(() => {
      this.#announce(this.#words.table.announce.still);
      this.#sayStill();
    }, STILL_MS);
  }
}

/**
 * Does the text differ from what was generated? Browsers can tell only on https or localhost.
 * @param {import('./fold.js').Snapshot} snapshot
 */
export async function differs({ text, text_sha256: wanted }) {
  if (!globalThis.crypto?.subtle || !wanted) return false;
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  const hex = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex !== wanted;
}
