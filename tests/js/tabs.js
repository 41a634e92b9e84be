/** A browser of several tabs, and a server with a line: for tests of what the tabs share. */
import { Folder, emptySnapshot } from '../../static/chat/fold.js';
import { Shared, VERSION } from '../../static/chat/shared.js';
import { Follower } from '../../static/chat/stream.js';
import { FakeClock, settle } from './ground.js';
import { Connection } from './server.js';

/** Locks of any names, each as the Web Locks API has it: a queue, `steal` and `signal`. */
export class FakeLocks {
  /** By name. @type {Map<string, {held: any, queue: any[]}>} */
  #locks = new Map();

  /** @type {any} */
  request = (/** @type {string} */ name, /** @type {any} */ options, /** @type {any} */ run) =>
    new Promise((resolve, reject) => {
      const lock = this.#locks.get(name) ?? { held: null, queue: [] };
      this.#locks.set(name, lock);
      const wish = { run, resolve, reject };
      if (options.steal) {
        const loser = lock.held;
        lock.held = null;
        this.#grant(lock, wish);
        // It may hear of the new leader before it hears that it is none.
        setImmediate(() => setImmediate(() => loser?.reject(new DOMException('stolen', 'AbortError'))));
        return;
      }
      options.signal?.addEventListener('abort', () => {
        if (!lock.queue.includes(wish)) return;
        lock.queue = lock.queue.filter((other) => other !== wish);
        reject(options.signal.reason);
      });
      lock.queue.push(wish);
      this.#next(lock);
    });

  /** @param {{held: any, queue: any[]}} lock */
  #next(lock) {
    if (lock.held === null && lock.queue.length > 0) this.#grant(lock, lock.queue.shift());
  }

  /** @param {{held: any, queue: any[]}} lock @param {any} wish */
  #grant(lock, wish) {
    lock.held = wish;
    queueMicrotask(async () => {
      const value = await wish.run({});
      if (lock.held !== wish) return; // stolen meanwhile
      lock.held = null;
      wish.resolve(value);
      this.#next(lock);
    });
  }
}

/** Of each name everybody hears everybody else, a copy, a little later. */
export class FakeChannels {
  /** @type {Set<any>} */
  #open = new Set();
  /** All that was said. @type {any[]} */
  said = [];

  open = (/** @type {string} */ name) => {
    /** @type {any} */
    const channel = {
      name,
      onmessage: null,
      postMessage: (/** @type {any} */ message) => {
        const data = structuredClone(message);
        this.said.push(data);
        for (const other of this.#open) {
          if (other === channel || other.name !== name) continue;
          queueMicrotask(() => this.#open.has(other) && other.onmessage?.({ data }));
        }
      },
      close: () => this.#open.delete(channel),
    };
    this.#open.add(channel);
    return channel;
  };
}

/** Answers, and lines that carry them as PROTOCOL 15 says. */
export class LineServer {
  /** @type {Map<string, {epoch: number, events: any[]}>} */
  logs = new Map();
  /** Those that are open: one per browser, that is the promise. @type {Set<any>} */
  lines = new Set();
  /** @type {URL[]} */
  asked = [];
  /** What the next requests get instead of a line. @type {(number | 'broken')[]} */
  faults = [];

  /** @param {string} id @param {any} event */
  append(id, event) {
    const log = this.logs.get(id) ?? { epoch: 0, events: [] };
    this.logs.set(id, log);
    const seq = log.events.length + 1;
    if (event.type === 'started') log.epoch = event.epoch;
    log.events.push({ ...event, seq });
    for (const line of this.lines) if (line.follows.has(id)) this.#send(line, id, seq - 1);
  }

  /** The log has lost its last events; another writer goes on. @param {string} id @param {number} count @param {number} epoch */
  lose(id, count, epoch) {
    const log = /** @type {any} */ (this.logs.get(id));
    log.events.splice(Math.max(2, log.events.length - count));
    log.epoch = epoch;
    for (const line of [...this.lines]) {
      if (line.follows.has(id)) line.connection.send(`id: ${id} ${log.events.length}\nevent: snapshot\ndata: ${JSON.stringify(this.snapshot(id))}\n\n`);
    }
  }

  /** @param {string} id */
  snapshot(id) {
    const { epoch, events } = /** @type {any} */ (this.logs.get(id));
    const folder = new Folder({ ...emptySnapshot(), id });
    for (const event of events) folder.apply(event);
    return { ...folder.snapshot(), epoch };
  }

  cut() {
    for (const line of [...this.lines]) this.#close(line, true);
  }

  /** @type {any} */
  fetch = async (/** @type {string} */ address, /** @type {any} */ init) => {
    const url = new URL(address, 'http://test');
    this.asked.push(url);
    if (!url.pathname.endsWith('/events')) {
      const id = url.pathname.split('/').at(-1) ?? '';
      return new Response(JSON.stringify(this.snapshot(id)), { headers: { 'Content-Type': 'application/json' } });
    }
    const fault = this.faults.shift();
    if (fault === 'broken') throw new TypeError('Failed to fetch');
    if (fault) return new Response(null, { status: fault });
    if (url.searchParams.getAll('follow').length > 32) return new Response(null, { status: 400 }); // chatapp/lines.py
    const connection = new Connection();
    const line = { connection, follows: new Set() };
    this.lines.add(line);
    init.signal.addEventListener('abort', () => this.#close(line, true));
    for (const want of url.searchParams.getAll('follow')) this.#follow(line, want);
    if (url.searchParams.has('changes')) connection.send('event: changes\ndata: {"at": 1000}\n\n');
    return new Response(connection.body, { headers: { 'Content-Type': 'text/event-stream; charset=utf-8' } });
  };

  /** @param {any} line @param {string} want */
  #follow(line, want) {
    const [id, what, seq] = want.split(',');
    const log = this.logs.get(id);
    const say = (/** @type {number} */ status) => line.connection.send(`event: follow\ndata: ${JSON.stringify({ id, status, retry_after: null })}\n\n`);
    if (!log) return say(404);
    const after = Number(seq ?? 0);
    const snapshot = what === 'snapshot' || after > log.events.length || (after > 0 && Number(what) !== this.#epochAt(id, after));
    const over = log.events.at(-1)?.type === 'ended';
    if (!snapshot && over && after === log.events.length) return say(204);
    say(200);
    line.follows.add(id);
    if (!snapshot) return this.#send(line, id, after);
    line.connection.send(`id: ${id} ${log.events.length}\nevent: snapshot\ndata: ${JSON.stringify(this.snapshot(id))}\n\n`);
    return over && this.#send(line, id, log.events.length - 1);
  }

  /** Of whoever wrote the entry: the last `started` up to it. @param {string} id @param {number} seq */
  #epochAt(id, seq) {
    const { events, epoch } = /** @type {any} */ (this.logs.get(id));
    if (seq === events.length) return epoch;
    return events.slice(0, seq).findLast((/** @type {any} */ event) => event.type === 'started')?.epoch ?? 0;
  }

  /** @param {any} line @param {string} id @param {number} after */
  #send(line, id, after) {
    for (const event of /** @type {any} */ (this.logs.get(id)).events.slice(after)) {
      line.connection.send(`id: ${id} ${event.seq}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
      if (event.type !== 'ended') continue;
      line.connection.send(`event: closed\ndata: ${JSON.stringify({ id })}\n\n`);
      line.follows.delete(id);
    }
  }

  /** @param {any} line @param {boolean} broken */
  #close(line, broken) {
    this.lines.delete(line);
    if (broken) line.connection.fail();
    else line.connection.close();
  }
}

/** One tab: what it follows, and all that it was told. */
export class Tab {
  /** @type {any} */
  presence = { viewer: 'v', carriedIds: new Set(), lineIsOurs: true, carried: (/** @type {string} */ id) => this.presence.carriedIds.add(id) };
  /** @type {Map<string, {follower: Follower, seqs: number[], folder: Folder, state: string, faults: string[]}>} */
  followed = new Map();
  /** @type {any[]} */
  heard = [];

  /** @param {Browser} browser @param {boolean} visible @param {number} [version] */
  constructor(browser, visible, version = VERSION) {
    this.browser = browser;
    this.visible = visible;
    this.env = { ...browser.env };
    this.shared = new Shared(this.presence, {
      env: this.env,
      locks: browser.locks,
      channel: browser.channels?.open ?? null,
      version,
      visible: () => this.visible,
    });
    this.shared.start();
    this.shared.listen(1, (item) => this.heard.push(item));
  }

  /** @param {string} id @param {any} [snapshot] what the page shows */
  follow(id, snapshot) {
    const folder = new Folder(snapshot);
    const { seq, epoch } = folder.snapshot();
    /** @type {any} */
    const one = { seqs: [], folder, state: '', faults: [] };
    one.follower = new Follower({
      url: `/api/responses/${id}`,
      viewer: this.presence.viewer,
      cursor: { seq, epoch },
      env: { ...this.env, fetch: this.shared.fetch },
      handlers: {
        onEvent: (event) => {
          if (event.seq !== one.folder.snapshot().seq + 1) one.faults.push(`${event.seq} after ${one.folder.snapshot().seq}`);
          one.seqs.push(event.seq);
          one.folder.apply(event);
        },
        onSnapshot: (found) => (one.folder = new Folder(found)),
        onState: (state) => (one.state = state.name),
      },
    });
    this.followed.set(id, one);
    one.follower.start();
    return one;
  }

  show() {
    for (const other of this.browser.tabs) other.visible = other === this;
    this.shared.shown();
    for (const { follower } of this.followed.values()) follower.wake();
  }

  freeze() {
    this.shared.rest();
  }

  thaw() {
    this.shared.start();
  }

  close() {
    for (const { follower } of this.followed.values()) follower.close();
    this.shared.rest();
    this.browser.tabs.delete(this);
  }
}

export class Browser {
  clock = new FakeClock();
  server = new LineServer();
  /** @type {FakeLocks | null} */
  locks = new FakeLocks();
  /** @type {FakeChannels | null} */
  channels = new FakeChannels();
  /** @type {Set<Tab>} */
  tabs = new Set();

  get env() {
    const { setTimeout, clearTimeout, now, random } = this.clock;
    return { fetch: this.server.fetch, setTimeout, clearTimeout, now, random };
  }

  /** @param {boolean} [visible] @param {number} [version] of its scripts */
  open(visible = true, version = VERSION) {
    if (visible) for (const other of this.tabs) other.visible = false;
    const tab = new Tab(this, visible, version);
    this.tabs.add(tab);
    return tab;
  }

  /** @param {number} ms */
  async pass(ms) {
    await settle(); // whoever was just given the lock
    await this.clock.advance(ms);
  }

  get leaders() {
    return [...this.tabs].filter((tab) => tab.shared.leads);
  }
}
