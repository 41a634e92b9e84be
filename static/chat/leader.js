/**
 * Holds the one line of this browser for all of its tabs. What it says goes to every tab, each of which
 * takes what it follows and has not had yet; so a line may be opened anew from any earlier cursor.
 *
 * @typedef {import('./line.js').Cursor} Cursor
 * @typedef {import('./line.js').Item} Item
 *
 * @typedef {{kind: 'said', line: string, items: Item[]}} Said
 * @typedef {{kind: 'lost', line: string, status: number, retryAfter: string | null}} Lost
 */
import { Line } from './line.js';
import { DOUBT_MS } from './stream.js';

/** After a change of leader: as long as other tabs may take to say what they follow. */
export const GATHER_MS = 50;
/** What one line carries at most (chatapp/lines.py): with one more it would be refused for all. */
const MOST = 32;
/** When an answer that finds no room asks again; until then its state is looked at (stream.js). In seconds. */
const NO_ROOM_S = '10';
/** Steps of the pause before changes are asked for again: nobody waits for them as for an answer. */
const FIRST_RETRY_MS = 2_000;
const MAX_RETRY_MS = 60_000;

export class Leader {
  #name;
  #lines = 0;
  /** What the line is to carry, and up to where it has. @type {Map<string, Cursor>} */
  #wants = new Map();
  /** Those of them that the present line has said yes to. @type {Set<string>} */
  #carried = new Set();
  /** @type {Line | null} */
  #line = null;
  #viewer;
  #say;
  #changes;
  #env;
  #gatheredMs;
  #failures = 0;
  /** @type {any} */
  #opening = undefined;
  #openingMs = Infinity;
  #retired = false;

  /**
   * @param {object} options
   * @param {string} options.name tells this leader's lines from those of others
   * @param {() => string} options.viewer
   * @param {(message: Said | Lost) => void} options.say to all tabs, this one included
   * @param {() => number | null} options.changes the cursor of changes
   * @param {import('./stream.js').Env} options.env
   */
  constructor({ name, viewer, say, changes, env }) {
    this.#name = name;
    this.#viewer = viewer;
    this.#say = say;
    this.#changes = changes;
    this.#env = env;
    this.#gatheredMs = env.now() + GATHER_MS;
    this.#open(GATHER_MS);
  }

  /** Another line is about to be opened. */
  get #opens() {
    return this.#openingMs !== Infinity;
  }

  /** The name of the present line. */
  get #present() {
    return `${this.#name}.${this.#lines}`;
  }

  /**
   * A tab follows this answer from here on.
   * @param {string} id
   * @param {Cursor} cursor
   */
  want(id, cursor) {
    const at = this.#wants.get(id);
    const sound = this.#line !== null && this.#line.silentMs <= DOUBT_MS;
    if (at && sound && reaches(at, cursor)) {
      const verdict = { kind: /** @type {const} */ ('verdict'), id, status: 200, retryAfter: null, from: { ...at } };
      if (this.#carried.has(id) && !this.#opens) this.#say({ kind: 'said', line: this.#present, items: [verdict] });
      return; // else the verdict of a line that is being opened is on its way
    }
    if (!at && this.#wants.size >= MOST) {
      this.#say({ kind: 'said', line: this.#present, items: [{ kind: 'verdict', id, status: 503, retryAfter: NO_ROOM_S }] });
      return;
    }
    this.#wants.set(id, at ? together(at, cursor) : { ...cursor });
    this.#open(0);
  }

  /** The network is another one: the line of the old one may look alive for a minute. */
  renew() {
    this.#failures = 0;
    this.#open(0);
  }

  /** Another tab leads from now on. */
  retire() {
    this.#retired = true;
    this.#env.clearTimeout(this.#opening);
    this.#line?.close();
    this.#line = null;
  }

  /** @param {number} delayMs what is asked for meanwhile comes on the same line */
  #open(delayMs) {
    const nowMs = this.#env.now();
    const atMs = Math.max(nowMs + delayMs, this.#gatheredMs);
    if (this.#retired || atMs >= this.#openingMs) return;
    this.#env.clearTimeout(this.#opening);
    this.#openingMs = atMs;
    this.#opening = this.#env.setTimeout(() => this.#openNow(), atMs - nowMs);
  }

  #openNow() {
    this.#openingMs = Infinity;
    this.#line?.close();
    this.#line = null;
    this.#carried.clear();
    const changes = this.#changes();
    if (this.#wants.size === 0 && changes === null) return;
    this.#lines += 1;
    const line = this.#present;
    this.#line = new Line({
      wants: this.#wants,
      changes,
      viewer: this.#viewer(),
      env: this.#env,
      on: {
        said: (items) => {
          this.#failures = 0;
          for (const item of items) this.#note(item);
          this.#say({ kind: 'said', line, items });
        },
        over: (status, retryAfter) => this.#over(line, status, retryAfter),
      },
    });
  }

  /** @param {Item} item */
  #note(item) {
    const { kind, id = '', status, seq = 0, epoch } = item;
    const at = this.#wants.get(id);
    // Where the next line begins is settled with the first wish for it: somebody may need more than this.
    if (kind === 'frame' && at && !this.#opens) this.#wants.set(id, { epoch: epoch ?? at.epoch, seq });
    if (kind === 'verdict') item.from = at && { ...at };
    if (kind === 'verdict' && status === 200) this.#carried.add(id);
    else if (kind === 'verdict' || kind === 'closed') {
      this.#wants.delete(id);
      this.#carried.delete(id);
    }
  }

  /**
   * @param {string} line
   * @param {number} status
   * @param {string | null} retryAfter
   */
  #over(line, status, retryAfter) {
    this.#line = null;
    this.#wants.clear();
    this.#carried.clear();
    this.#say({ kind: 'lost', line, status, retryAfter });
    const step = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#failures);
    this.#failures += 1;
    if (status !== 401 && status !== 403) this.#open(Math.max(Number(retryAfter) * 1000 || 0, this.#env.random() * step));
  }
}

/**
 * Whoever has this will get all they lack, if the line goes on from there.
 * @param {Cursor} at
 * @param {Cursor} cursor
 */
function reaches(at, cursor) {
  return !cursor.snapshot && !at.snapshot && at.epoch === cursor.epoch && at.seq <= cursor.seq;
}

/**
 * From where both get all they lack. Numbers of different histories cannot be compared: a snapshot can.
 * @param {Cursor} one
 * @param {Cursor} other
 * @returns {Cursor}
 */
function together(one, other) {
  if (one.snapshot || other.snapshot || one.epoch !== other.epoch) return { epoch: 0, seq: 0, snapshot: true };
  return one.seq <= other.seq ? one : { ...other };
}
