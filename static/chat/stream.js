/**
 * Follows one answer until its end, over any number of connections.
 *
 * Promises: every event is handed on exactly once and in order; a snapshot replaces everything; any
 * close that is not the end is followed by a new attempt from the last number seen. It gives up
 * only when the server says that there is nothing to follow (401, 403, 404, 410), and says so.
 *
 * @typedef {import('./fold.js').Event} Event
 * @typedef {import('./fold.js').Snapshot} Snapshot
 *
 * @typedef {object} Env the world, so that tests can bring their own
 * @property {typeof globalThis.fetch} fetch
 * @property {(run: () => void, delay: number) => any} setTimeout
 * @property {(id: any) => void} clearTimeout
 * @property {() => number} now milliseconds; must go on while the machine sleeps
 * @property {() => number} random from 0 up to 1
 *
 * @typedef {object} State
 * @property {'connecting' | 'live' | 'waiting' | 'refused' | 'ended'} name
 * @property {number} [attempt] of `waiting`: tries in a row that brought nothing new
 * @property {number} [status] of `refused`: what the server answered
 *
 * @typedef {object} Handlers
 * @property {(event: Event) => void} onEvent
 * @property {(snapshot: Snapshot) => void} onSnapshot
 * @property {(state: State) => void} onState
 */
import { Decoder } from './sse.js';

/** Two heartbeats of 15 s and a slow network: a connection silent for longer is dead. */
export const SILENCE_MS = 40_000;
/** Silence after which a page that wakes up does not trust its connection: one heartbeat and a bit. */
export const DOUBT_MS = 17_000;
/** First step of the backoff until the server's `retry:` names another. */
const FIRST_RETRY_MS = 1_000;
/** Longest step of our own: a person looks at the screen meanwhile. */
const MAX_RETRY_MS = 15_000;
/** Longest wait we let a server ask for. */
const MAX_RETRY_AFTER_MS = 120_000;

const FINAL = new Set([401, 403, 404, 410]);
const TERMINAL = new Set(['completed', 'incomplete', 'failed', 'cancelled', 'interrupted']);

/**
 * How one connection went. `lost`: try again; `resync`: try again and ask for a snapshot.
 * @typedef {{kind: 'ended' | 'lost' | 'resync' | 'refused', status?: number, waitMs?: number, atOnce?: boolean, silent?: boolean}} Outcome
 */

/** @type {Env} */
export const browser = {
  fetch: (input, init) => globalThis.fetch(input, init),
  setTimeout: (run, delay) => globalThis.setTimeout(run, delay),
  clearTimeout: (id) => globalThis.clearTimeout(id),
  now: () => Date.now(), // performance.now() stands still while some machines sleep
  random: () => Math.random(),
};

export class Follower {
  #url;
  #viewer;
  #handlers;
  #env;
  /** @type {{epoch: number, seq: number}} */
  #cursor;
  #wantSnapshot = false;
  #attempt = 0;
  #retryMs = FIRST_RETRY_MS;
  /** Raised by every start and close; a loop that finds another number has been replaced. */
  #run = 0;
  #over = false;
  /** @type {AbortController | null} */
  #connection = null;
  /** @type {'wake' | 'silence' | null} why we cut the connection ourselves */
  #cutFor = null;
  #lastHeardMs = 0;
  /** @type {any} */
  #watchdog = undefined;
  /** @type {(() => void) | null} ends the pause before the next attempt */
  #endPause = null;

  /**
   * @param {object} options
   * @param {string} options.url of the response: `/api/responses/{id}`
   * @param {string} options.viewer random, one per page load
   * @param {{epoch: number, seq: number}} options.cursor what the page already shows
   * @param {Handlers} options.handlers
   * @param {Env} [options.env]
   */
  constructor({ url, viewer, cursor, handlers, env = browser }) {
    this.#url = url;
    this.#viewer = viewer;
    this.#cursor = { ...cursor };
    this.#handlers = handlers;
    this.#env = env;
  }

  /** Begin, or begin again after `close`. Harmless when it is running or over. */
  start() {
    if (this.#over || this.#connection || this.#endPause) return;
    this.#run += 1;
    this.#attempt = 0;
    this.#handlers.onState({ name: 'connecting' });
    this.#loop(this.#run);
  }

  /**
   * Something says that the network may be back: do not wait for the backoff, and do not trust a
   * connection that has been silent, or that belongs to a network that is gone.
   * @param {{networkChanged?: boolean}} [what]
   */
  wake({ networkChanged = false } = {}) {
    if (this.#endPause) {
      this.#attempt = 0;
      this.#endPause();
    } else if (this.#connection && (networkChanged || this.#env.now() - this.#lastHeardMs > DOUBT_MS)) {
      this.#cut('wake');
    }
  }

  /** Let go of the network, for good or until `start`. */
  close() {
    this.#run += 1;
    this.#endPause?.();
    this.#connection?.abort();
    this.#connection = null;
    this.#env.clearTimeout(this.#watchdog);
  }

  /** @param {number} run */
  async #loop(run) {
    for (;;) {
      const seqBefore = this.#cursor.seq;
      const openedMs = this.#env.now();
      const outcome = await this.#connect();
      if (run !== this.#run) return;
      if (outcome.kind === 'resync') this.#wantSnapshot = true;
      const lasted = !outcome.silent && this.#env.now() - openedMs >= SILENCE_MS;
      this.#attempt = (this.#cursor.seq > seqBefore && outcome.kind !== 'resync') || lasted ? 0 : this.#attempt + 1;
      if (outcome.kind === 'lost' && (outcome.silent || this.#attempt > 2)) await this.#settle(run, outcome);
      if (run !== this.#run) return;
      if (outcome.kind === 'ended' || outcome.kind === 'refused') {
        this.#finish({ name: outcome.kind, status: outcome.status });
        return;
      }
      if (!outcome.atOnce) await this.#pause(outcome.waitMs);
      if (run !== this.#run) return;
    }
  }

  /** @param {State} state */
  #finish(state) {
    this.#over = true;
    this.#run += 1;
    this.#handlers.onState(state);
  }

  /** @returns {Promise<Outcome>} */
  async #connect() {
    const connection = new AbortController();
    this.#connection = connection;
    this.#cutFor = null;
    this.#heard();
    try {
      return await this.#answer(await this.#request(connection.signal), connection.signal);
    } catch {
      // No network, a reset, our own abort, an event too long to be ours: all mean "lost".
      return { kind: 'lost', atOnce: this.#cutFor === 'wake', silent: this.#cutFor === 'silence' };
    } finally {
      if (this.#connection === connection) {
        this.#env.clearTimeout(this.#watchdog);
        this.#connection = null;
      }
      connection.abort(); // whatever is still open on it
    }
  }

  /** @param {AbortSignal} signal */
  #request(signal) {
    /** @type {Record<string, string>} */
    const headers = { Accept: 'text/event-stream' };
    const query = new URLSearchParams({ viewer: this.#viewer });
    if (this.#wantSnapshot) {
      query.set('snapshot', '1'); // without a cursor: a valid one would be answered by events
    } else if (this.#cursor.seq > 0) {
      headers['Last-Event-ID'] = String(this.#cursor.seq);
      query.set('epoch', String(this.#cursor.epoch));
    }
    return this.#env.fetch(`${this.#url}/events?${query}`, { headers, signal, cache: 'no-store' });
  }

  /**
   * @param {Response} response
   * @param {AbortSignal} signal
   * @returns {Promise<Outcome>}
   */
  async #answer(response, signal) {
    const { status } = response;
    if (status === 204) return this.#fetchSnapshot(signal);
    if (FINAL.has(status)) return { kind: 'refused', status };
    if (status === 400) return { kind: 'resync' };
    if (status === 429 || status === 503) return { kind: 'lost', waitMs: this.#retryAfter(response) };
    const type = response.headers.get('Content-Type') ?? '';
    // Anything else, such as the page of a hotel's network, is not our server.
    if (status !== 200 || !type.startsWith('text/event-stream') || !response.body) return { kind: 'lost' };
    this.#handlers.onState({ name: 'live' });
    return this.#read(response.body.getReader());
  }

  /**
   * @param {ReadableStreamDefaultReader<Uint8Array>} reader
   * @returns {Promise<Outcome>}
   */
  async #read(reader) {
    const decoder = new Decoder();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { kind: 'lost' };
      this.#heard();
      for (const frame of decoder.feed(value)) {
        const outcome = this.#frame(frame);
        if (outcome) return outcome;
      }
    }
  }

  /**
   * @param {import('./sse.js').Frame} frame
   * @returns {Outcome | null} null: read on
   */
  #frame({ event: name, data, retry }) {
    if (retry !== null) this.#retryMs = Math.min(retry, MAX_RETRY_MS);
    const said = parse(data);
    if (!said) return { kind: 'resync' };
    if (name === 'snapshot') return this.#replace(said);
    if (said.seq <= this.#cursor.seq) return null; // seen before
    if (said.seq !== this.#cursor.seq + 1) return { kind: 'resync' };
    this.#cursor.seq = said.seq;
    if (said.type === 'started' || said.type === 'ended') this.#cursor.epoch = said.epoch;
    this.#handlers.onEvent(said);
    return said.type === 'ended' ? { kind: 'ended' } : null;
  }

  /**
   * @param {any} snapshot
   * @returns {Outcome | null}
   */
  #replace(snapshot) {
    this.#cursor = { epoch: snapshot.epoch ?? 0, seq: snapshot.seq };
    this.#wantSnapshot = false;
    this.#handlers.onSnapshot(snapshot);
    return TERMINAL.has(snapshot.status) ? { kind: 'ended' } : null;
  }

  /**
   * What the server knows now, without a stream.
   * @param {AbortSignal} [signal]
   * @returns {Promise<Outcome>}
   */
  async #fetchSnapshot(signal) {
    const query = new URLSearchParams({ viewer: this.#viewer });
    const headers = { Accept: 'application/json' };
    const response = await this.#env.fetch(`${this.#url}?${query}`, { headers, signal, cache: 'no-store' });
    if (FINAL.has(response.status)) return { kind: 'refused', status: response.status };
    const snapshot = response.status === 200 ? parse(await response.text()) : null;
    return (snapshot && this.#replace(snapshot)) ?? { kind: 'lost' };
  }

  /**
   * Streams do not get through (a proxy that holds them back, say): ask for the state instead, so
   * that a person sees the answer grow, and its end.
   * @param {number} run
   * @param {Outcome} outcome becomes what the state says, if that is the end
   */
  async #settle(run, outcome) {
    const asking = new AbortController();
    this.#connection = asking;
    const limit = this.#env.setTimeout(() => asking.abort(), SILENCE_MS);
    try {
      const found = await this.#fetchSnapshot(asking.signal);
      if (run === this.#run && found.kind !== 'lost') Object.assign(outcome, found);
    } catch {
      // No network: the pause and the next attempt follow.
    } finally {
      this.#env.clearTimeout(limit);
      if (this.#connection === asking) this.#connection = null;
    }
  }

  #heard() {
    this.#lastHeardMs = this.#env.now();
    this.#env.clearTimeout(this.#watchdog);
    this.#watchdog = this.#env.setTimeout(() => this.#cut('silence'), SILENCE_MS);
  }

  /** @param {'wake' | 'silence'} reason */
  #cut(reason) {
    this.#cutFor = reason;
    this.#connection?.abort();
  }

  /**
   * Full jitter: thousands of clients that lost one server must not come back in step.
   * @param {number} [askedMs] what the server asked for; nothing shortens that
   */
  #pause(askedMs) {
    const { random, setTimeout, clearTimeout } = this.#env;
    const step = Math.min(MAX_RETRY_MS, this.#retryMs * 2 ** Math.max(0, this.#attempt - 1));
    const delay = askedMs === undefined ? random() * step : askedMs + random() * this.#retryMs;
    this.#handlers.onState({ name: 'waiting', attempt: this.#attempt });
    return new Promise((resolve) => {
      const run = this.#run;
      const timer = setTimeout(() => done(), delay);
      const done = () => {
        clearTimeout(timer);
        this.#endPause = null;
        resolve(undefined);
      };
      this.#endPause = () => {
        if (askedMs === undefined || run !== this.#run) done();
      };
    });
  }

  /**
   * @param {Response} response
   * @returns {number | undefined} milliseconds, when the server named a time
   */
  #retryAfter(response) {
    const value = response.headers.get('Retry-After') ?? '';
    const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - this.#env.now();
    return Number.isNaN(ms) ? undefined : Math.min(MAX_RETRY_AFTER_MS, Math.max(0, ms));
  }
}

/**
 * @param {string} data
 * @returns {any} an object with a number, or null: then it is not one of ours
 */
function parse(data) {
  try {
    const said = JSON.parse(data);
    return said !== null && typeof said === 'object' && Number.isInteger(said.seq) ? said : null;
  } catch {
    return null;
  }
}
