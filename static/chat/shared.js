/**
 * One line for all tabs of this browser (PROTOCOL 15.5). The tab that holds a lock is the leader and has
 * the connection; the others hear what it says over a channel. To whoever follows an answer (stream.js)
 * this is a network like any other: `fetch` gives a response whose body is that answer's part of the line.
 *
 * The tab that is looked at leads: a hidden tab's timers are slow. A leader that closes or freezes lets go
 * of the lock; each tab tells the next one what it follows and how far it has got, so nothing is lost, and
 * takes an event once, by its number. Without locks or channels each tab leads itself.
 *
 * @typedef {import('./line.js').Item} Item
 *
 * @typedef {object} World what a test brings
 * @property {import('./stream.js').Env} env
 * @property {LockManager | null} locks
 * @property {((name: string) => BroadcastChannel) | null} channel
 * @property {number} version of what tabs say to one another
 * @property {() => boolean} visible
 */
import { randomId } from './http.js';
import { Leader } from './leader.js';
import { openPresence } from './presence.js';
import { browser } from './stream.js';
import { VirtualStream } from './virtual.js';

/**
 * Of what tabs say to one another. A tab that was open before a deploy stays what it was: raised with
 * every change of what is said, so that tabs of two versions have a line each, and never hear one another.
 */
export const VERSION = 1;
/** A leader that does not even say that it has heard is hung: a tab that is looked at takes over. */
export const DEAF_MS = 1_000;
/** However much a line says, each part of it shows a sign of life so often; below SILENCE_MS. */
const PING_MS = 10_000;
const EVENTS = /^\/api\/responses\/([^/?]+)\/events\?/;

export class Shared {
  #tab = randomId();
  #world;
  /** Of the lock and of the channel. */
  #name;
  #presence;
  #pingedMs = 0;
  /** @type {Set<VirtualStream>} */
  #streams = new Set();
  /** @type {Set<(item: Item) => void>} */
  #listeners = new Set();
  /** Up to where changes are known; null: nobody here asks for them. @type {number | null} */
  #changesAt = null;
  /** @type {BroadcastChannel | null} */
  #channel = null;
  /** @type {Leader | null} */
  #leader = null;
  /** Ends this tab's hold of the lock, or its place in the queue. */
  #letGo = () => {};
  /** Raised with every attempt to lead: what an earlier one was told no longer counts. */
  #attempt = 0;
  #awake = false;
  /** @type {any} */
  #deaf = undefined;

  /**
   * @param {Pick<import('./presence.js').Presence, 'viewer' | 'carried' | 'lineIsOurs'>} presence of this page
   * @param {World} [world]
   */
  constructor(presence, world = here()) {
    this.#presence = presence;
    this.#world = world;
    this.#name = `unbroken.line.${world.version}`;
  }

  get leads() {
    return this.#leader !== null;
  }

  /**
   * As `fetch`; an answer's events come over the shared line.
   * @param {any} input
   * @param {any} [init]
   * @returns {Promise<Response>}
   */
  fetch = (input, init = {}) => {
    const id = EVENTS.exec(input)?.[1];
    if (id === undefined || !this.#awake) return this.#world.env.fetch(input, init);
    const query = new URL(input, 'http://site').searchParams;
    const seq = Number(init.headers?.['Last-Event-ID'] ?? 0);
    const cursor = { epoch: Number(query.get('epoch') ?? 0), seq, snapshot: query.get('snapshot') === '1' };
    const stream = new VirtualStream(decodeURIComponent(id), cursor, init.signal, (gone) => this.#streams.delete(gone));
    if (!stream.over) {
      this.#streams.add(stream);
      this.#want(stream);
    }
    return stream.response;
  };

  /**
   * Hear what changes of the person's chats, from now on or after a cursor.
   * @param {number} cursor
   * @param {(item: Item) => void} listener
   */
  listen(cursor, listener) {
    const first = this.#changesAt === null;
    this.#changesAt = Math.max(this.#changesAt ?? 0, cursor);
    this.#listeners.add(listener);
    if (first) this.#leader?.renew();
  }

  /** The page is there, again perhaps. Harmless when it was. */
  start() {
    if (this.#awake) return;
    this.#awake = true;
    const { locks, channel, visible } = this.#world;
    if (!locks || !channel) {
      this.#lead();
      return;
    }
    this.#channel = channel(this.#name);
    this.#channel.onmessage = (event) => this.#hear(event.data);
    this.#presence.lineIsOurs = visible();
    this.#campaign(visible());
    this.#wantAll();
  }

  /** The page is put away, or stops running: another tab leads. `start` may follow. */
  rest() {
    if (!this.#awake) return;
    this.#awake = false;
    this.#attempt += 1;
    this.#world.env.clearTimeout(this.#deaf);
    this.#deaf = undefined;
    this.#stepDown();
    this.#letGo();
    for (const stream of this.#streams) stream.line = null;
    this.#channel?.close();
    this.#channel = null;
  }

  /** The page is looked at. */
  shown() {
    if (this.#awake && this.#channel && !this.#leader) this.#campaign(true);
  }

  /** The network is another one. */
  networkChanged() {
    this.#leader?.renew();
  }

  /** @param {boolean} steal from whoever leads */
  #campaign(steal) {
    this.#letGo();
    this.#attempt += 1;
    const attempt = this.#attempt;
    const waiting = new AbortController();
    /** @type {() => void} */
    let release = () => {};
    const held = new Promise((resolve) => (release = () => resolve(undefined)));
    this.#letGo = () => {
      waiting.abort();
      release();
    };
    const options = steal ? { steal: true } : { signal: waiting.signal };
    const { locks } = this.#world;
    /** @type {LockManager} */ (locks)
      .request(this.#name, options, () => {
        if (attempt !== this.#attempt) return undefined;
        this.#lead();
        return held;
      })
      .catch(() => {
        // Stolen by a tab that is looked at, or our own abort.
        if (attempt !== this.#attempt) return;
        this.#stepDown();
        this.#campaign(false);
        this.#wantAll(); // the new leader may have asked while this tab believed to be the one
      });
  }

  #lead() {
    this.#presence.lineIsOurs = true;
    this.#leader = new Leader({
      name: this.#tab + this.#attempt,
      viewer: () => this.#presence.viewer,
      env: this.#world.env,
      changes: () => this.#changesAt,
      say: (message) => {
        this.#channel?.postMessage(message);
        this.#hear(message);
      },
    });
    this.#channel?.postMessage({ kind: 'leads' });
    this.#hear({ kind: 'leads' });
  }

  #stepDown() {
    this.#leader?.retire();
    this.#leader = null;
    this.#presence.lineIsOurs = false;
  }

  /** @param {any} message */
  #hear(message) {
    const { kind } = message;
    if (kind === 'said') this.#said(message);
    if (kind === 'lost') for (const stream of [...this.#streams]) stream.lost(message.status, message.retryAfter);
    if (kind === 'leads') this.#wantAll();
    if (kind === 'heard' && message.tab === this.#tab) this.#notDeaf();
    if (kind === 'want' && this.#leader) {
      this.#channel?.postMessage({ kind: 'heard', tab: message.tab });
      this.#leader.want(message.id, message.cursor);
    }
  }

  /** @param {import('./leader.js').Said} said */
  #said({ line, items }) {
    const nowMs = this.#world.env.now();
    if (nowMs - this.#pingedMs > PING_MS || items.length === 0) {
      this.#pingedMs = nowMs;
      for (const stream of this.#streams) stream.ping(line);
    }
    for (const item of items) {
      if (item.kind === 'chat' || item.kind === 'changes' || item.kind === 'stale') this.#change(item);
      else for (const stream of [...this.#streams]) stream.take(line, item);
      if (this.#leader && item.kind === 'verdict' && item.status === 200) this.#presence.carried(item.id ?? '');
    }
  }

  /** @param {Item} item */
  #change(item) {
    if (this.#changesAt === null) return;
    this.#changesAt = Math.max(this.#changesAt, item.data?.at ?? 0);
    for (const listener of this.#listeners) listener(item);
  }

  #wantAll() {
    for (const stream of [...this.#streams]) {
      stream.line = null;
      this.#want(stream);
    }
  }

  /** @param {VirtualStream} stream */
  #want({ id, cursor }) {
    if (this.#leader) {
      this.#leader.want(id, cursor);
      return;
    }
    this.#channel?.postMessage({ kind: 'want', tab: this.#tab, id, cursor });
    this.#deaf ??= this.#world.env.setTimeout(() => {
      this.#deaf = undefined;
      if (this.#awake && !this.#leader && this.#world.visible()) this.#campaign(true);
    }, DEAF_MS);
  }

  #notDeaf() {
    this.#world.env.clearTimeout(this.#deaf);
    this.#deaf = undefined;
  }
}

/** @returns {World} */
function here() {
  const locks = globalThis.navigator?.locks ?? null; // on https and localhost only
  /** @type {World['channel']} */
  const channel = globalThis.BroadcastChannel ? (name) => new BroadcastChannel(name) : null;
  return { env: browser, locks, channel, version: VERSION, visible: () => document.visibilityState === 'visible' };
}

/** @type {Shared | null} */
let opened = null;

/** This page's, with its lifecycle. */
export function openShared() {
  if (opened) return opened;
  const shared = new Shared(openPresence());
  opened = shared;
  shared.start();
  document.addEventListener('visibilitychange', () => !document.hidden && shared.shown());
  document.addEventListener('freeze', () => shared.rest());
  document.addEventListener('resume', () => shared.start());
  addEventListener('pagehide', () => shared.rest());
  addEventListener('pageshow', (event) => event.persisted && shared.start());
  for (const change of ['online', 'offline']) addEventListener(change, () => shared.networkChanged());
  return shared;
}
