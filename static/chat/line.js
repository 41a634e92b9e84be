/**
 * One line: the events of several answers, and what changes of the person's chats, over one connection
 * (PROTOCOL 15). It is opened once and ends once; whoever follows comes back, not the line.
 *
 * @typedef {{epoch: number, seq: number, snapshot?: boolean}} Cursor `snapshot`: a snapshot is wished for
 *
 * @typedef {object} Item what a line says, in its order
 * @property {'verdict' | 'frame' | 'closed' | 'chat' | 'changes' | 'stale'} kind
 * @property {string} [id] of the answer
 * @property {number} [status] of a verdict
 * @property {string | null} [retryAfter] of a verdict, as the header has it
 * @property {Cursor} [from] of a verdict: where the line goes on
 * @property {number} [seq] of a frame
 * @property {number | null} [epoch] of a frame that says one
 * @property {boolean} [snapshot] of a frame
 * @property {string} [text] of a frame: as the answer's own stream would have had it
 * @property {any} [data] of a change
 */
import { Decoder } from './sse.js';
import { SILENCE_MS } from './stream.js';

const SAYS_EPOCH = new Set(['started', 'ended', 'snapshot']);

export class Line {
  #env;
  #connection = new AbortController();
  #on;
  #over = false;
  /** @type {any} */
  #watchdog = undefined;
  #heardMs;

  /**
   * @param {object} options
   * @param {Map<string, Cursor>} options.wants by answer
   * @param {number | null} options.changes the cursor of changes; null: none are wanted
   * @param {string} options.viewer
   * @param {{said: (items: Item[]) => void, over: (status: number, retryAfter: string | null) => void}} options.on
   *   `over`: nothing more will come; 0: it broke off or was not reached, 200: it ended
   * @param {import('./stream.js').Env} options.env
   */
  constructor({ wants, changes, viewer, on, env }) {
    this.#env = env;
    this.#on = on;
    this.#heardMs = env.now();
    void this.#run(address(wants, changes, viewer));
  }

  /** How long nothing has come, in milliseconds. */
  get silentMs() {
    return this.#env.now() - this.#heardMs;
  }

  /** Let go of it; `over` is not called any more. */
  close() {
    this.#over = true;
    this.#env.clearTimeout(this.#watchdog);
    this.#connection.abort();
  }

  /** @param {string} url */
  async #run(url) {
    this.#heard();
    try {
      const { signal } = this.#connection;
      const headers = { Accept: 'text/event-stream' };
      const response = await this.#env.fetch(url, { headers, signal, cache: 'no-store' });
      const type = response.headers.get('Content-Type') ?? '';
      const ours = response.status !== 200 || type.startsWith('text/event-stream');
      if (response.status === 200 && ours && response.body) await this.#read(response.body.getReader());
      this.#end(ours ? response.status : 0, response.headers.get('Retry-After'));
    } catch {
      this.#end(0, null); // no network, a reset, silence, an event too long to be ours
    }
  }

  /** @param {ReadableStreamDefaultReader<Uint8Array>} reader */
  async #read(reader) {
    const decoder = new Decoder();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.#over) return;
      this.#heard();
      // Also when it is empty: then it was a ping, which those who follow count on.
      this.#on.said(decoder.feed(value).flatMap(item));
    }
  }

  #heard() {
    this.#heardMs = this.#env.now();
    this.#env.clearTimeout(this.#watchdog);
    this.#watchdog = this.#env.setTimeout(() => this.#connection.abort(), SILENCE_MS);
  }

  /**
   * @param {number} status
   * @param {string | null} retryAfter
   */
  #end(status, retryAfter) {
    if (this.#over) return;
    this.close();
    this.#on.over(status, retryAfter);
  }
}

/**
 * @param {Map<string, Cursor>} wants
 * @param {number | null} changes
 * @param {string} viewer
 */
function address(wants, changes, viewer) {
  const query = new URLSearchParams({ viewer });
  for (const [id, { epoch, seq, snapshot }] of wants) {
    query.append('follow', snapshot ? `${id},snapshot` : seq > 0 ? `${id},${epoch},${seq}` : id);
  }
  if (changes !== null) query.set('changes', changes ? String(changes) : '');
  return `/api/events?${query}`;
}

/**
 * @param {import('./sse.js').Frame} frame
 * @returns {Item[]} none for what this version does not know
 */
function item({ event, data, id }) {
  const said = parse(data);
  if (event === 'follow') return [{ kind: 'verdict', id: said.id, status: said.status, retryAfter: said.retry_after ?? null }];
  if (event === 'closed') return [{ kind: 'closed', id: said.id }];
  if (event === 'chat' || event === 'changes' || event === 'stale') return [{ kind: event, data: said }];
  const [answer, seq] = id.split(' ');
  if (seq === undefined) return [];
  const text = `id: ${seq}\nevent: ${event}\ndata: ${data}\n\n`;
  const epoch = SAYS_EPOCH.has(event) && Number.isInteger(said.epoch) ? said.epoch : null;
  return [{ kind: 'frame', id: answer, seq: Number(seq), epoch, snapshot: event === 'snapshot', text }];
}

/**
 * @param {string} data
 * @returns {any} an object; an empty one for what is none
 */
function parse(data) {
  try {
    const said = JSON.parse(data);
    return said !== null && typeof said === 'object' ? said : {};
  } catch {
    return {}; // whoever follows the answer reads the same text, and asks for a snapshot
  }
}
