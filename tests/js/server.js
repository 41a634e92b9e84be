/** A server that answers as it is told, over real Response objects and no network. */
import { FakeClock, bytes } from './ground.js';

/** One connection of a viewer: the test writes to it, closes it, breaks it. */
export class Connection {
  /** @type {ReadableStreamDefaultController<Uint8Array>} */
  #controller = /** @type {any} */ (null);
  open = true;

  constructor() {
    this.body = new ReadableStream({
      start: (controller) => {
        this.#controller = controller;
      },
      cancel: () => {
        this.open = false;
      },
    });
  }

  /** @param {string} text */
  send(text) {
    this.#controller.enqueue(bytes(text));
  }

  close() {
    if (this.open) this.#controller.close();
    this.open = false;
  }

  /** @param {Error} [error] */
  fail(error = new TypeError('network error')) {
    if (this.open) this.#controller.error(error);
    this.open = false;
  }
}

export class FakeServer {
  /** @type {{url: URL, init: any}[]} */
  requests = [];
  /** @type {Array<Response | Error | Connection | 'hang'>} what the next requests get, in order */
  replies = [];

  /** The next request gets a stream; it starts with `text`. */
  stream(text = '') {
    const connection = new Connection();
    if (text) connection.send(text);
    this.replies.push(connection);
    return connection;
  }

  /**
   * @param {number} status
   * @param {any} [body]
   * @param {Record<string, string>} [headers]
   */
  answer(status, body = null, headers = {}) {
    const text = body === null ? null : JSON.stringify(body);
    this.replies.push(new Response(text, { status, headers: { 'Content-Type': 'application/json', ...headers } }));
  }

  breakOff() {
    this.replies.push(new TypeError('Failed to fetch'));
  }

  hang() {
    this.replies.push('hang');
  }

  /** @type {any} */
  fetch = async (/** @type {string} */ url, /** @type {any} */ init) => {
    this.requests.push({ url: new URL(url, 'http://test'), init });
    const reply = this.replies.shift();
    if (reply === undefined) throw new Error(`nobody told the server what to answer to ${url}`);
    if (reply instanceof Error) throw reply;
    if (reply === 'hang') {
      return new Promise((_, reject) => {
        init.signal.addEventListener('abort', () => reject(init.signal.reason));
      });
    }
    if (reply instanceof Response) return reply;
    init.signal.addEventListener('abort', () => reply.fail(init.signal.reason));
    return new Response(reply.body, { headers: { 'Content-Type': 'text/event-stream; charset=utf-8' } });
  };

  /**
   * @param {number} [at] from the end: -1 is the last one
   * @returns {Record<string, any>}
   */
  sent(at = -1) {
    const { url, init } = /** @type {{url: URL, init: any}} */ (this.requests.at(at));
    return { path: url.pathname, ...Object.fromEntries(url.searchParams), last: init.headers['Last-Event-ID'] };
  }
}

/**
 * @param {number} seq
 * @param {string} type
 * @param {object} [fields]
 */
export function frame(seq, type, fields = {}) {
  return `id: ${seq}\nevent: ${type}\ndata: ${JSON.stringify({ type, seq, ...fields })}\n\n`;
}

/** @param {any} snapshot */
export function snapshotFrame(snapshot) {
  return `id: ${snapshot.seq}\nevent: snapshot\ndata: ${JSON.stringify(snapshot)}\n\n`;
}

export const CREATED = frame(1, 'created', { response_id: '0-r', model: 'fast', created_at: 'now', schema: 1 });
export const STARTED = frame(2, 'started', { upstream_model: 'm', attempt: 1, epoch: 7 });

/** @param {number} seq @param {string} delta */
export const text = (seq, delta) => frame(seq, 'text.delta', { part: 0, delta });

/** @param {number} seq */
export const ended = (seq, status = 'completed', sha = '', reason = null) =>
  frame(seq, 'ended', { status, reason, epoch: 7, finish_reason: 'stop', error: null, usage: null, text_sha256: sha });

/** What every test of the client begins with. */
export function ground() {
  const clock = new FakeClock();
  const server = new FakeServer();
  const env = { fetch: server.fetch, setTimeout: clock.setTimeout, clearTimeout: clock.clearTimeout, now: clock.now, random: clock.random };
  return { clock, server, env };
}
