/**
 * One answer's part of a shared line, as the response to a request for its events: what follows it
 * (stream.js) cannot tell the difference, and its laws hold as they are.
 */

const utf8 = new TextEncoder();

export class VirtualStream {
  /** The line that has said yes; frames of others are not for this stream. @type {string | null} */
  line = null;
  over = false;
  /** @type {Promise<Response>} */
  response;
  /** @type {(response: Response) => void} */
  #answer = () => {};
  /** @type {(reason: unknown) => void} */
  #refuse = () => {};
  /** Once it is answered. @type {ReadableStreamDefaultController<Uint8Array> | null} */
  #body = null;
  #onOver;

  /**
   * @param {string} id
   * @param {import('./line.js').Cursor} cursor from where on
   * @param {AbortSignal | undefined} signal
   * @param {(stream: VirtualStream) => void} onOver nothing more is wanted, or will come
   */
  constructor(id, cursor, signal, onOver) {
    this.id = id;
    this.cursor = cursor;
    this.#onOver = onOver;
    this.response = new Promise((resolve, reject) => {
      this.#answer = resolve;
      this.#refuse = reject;
    });
    const abort = () => this.#fail(signal?.reason);
    if (signal?.aborted) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  }

  /**
   * @param {string} line that says it
   * @param {import('./line.js').Item} item
   */
  take(line, item) {
    if (item.id !== this.id || this.over) return;
    if (item.kind === 'verdict') this.#verdict(line, item);
    else if (line !== this.line) return; // from before this stream was asked for
    else if (item.kind === 'closed') this.#end();
    else this.#frame(item);
  }

  /** @param {string} line that has shown a sign of life */
  ping(line) {
    if (this.line === line) this.#body?.enqueue(utf8.encode(': ping\n'));
  }

  /**
   * The line is gone.
   * @param {number} status what its server said: 0 nothing, 200 that it was over
   * @param {string | null} retryAfter
   */
  lost(status, retryAfter) {
    if (this.#body === null && status !== 0 && status !== 200) this.#reply(status, retryAfter);
    else this.#fail(new TypeError('the line is lost'));
  }

  /**
   * @param {string} line
   * @param {import('./line.js').Item} verdict
   */
  #verdict(line, { status = 0, retryAfter = null, from }) {
    if (status === 200 && !this.#joins(from)) return; // said to another tab, which is further
    if (status !== 200) {
      if (this.#body === null) this.#reply(status, retryAfter);
      else this.#end(); // it is asked for again, and then told why not
      return;
    }
    this.line = line;
    if (this.#body !== null) return;
    const body = new ReadableStream({
      start: (controller) => {
        this.#body = controller;
      },
      cancel: () => this.#done(),
    });
    this.#answer(new Response(body, { headers: { 'Content-Type': 'text/event-stream' } }));
  }

  /** @param {import('./line.js').Cursor | undefined} from where the line goes on */
  #joins(from) {
    if (!from || from.snapshot) return true;
    return !this.cursor.snapshot && from.epoch === this.cursor.epoch && from.seq <= this.cursor.seq;
  }

  /** @param {import('./line.js').Item} frame */
  #frame({ seq = 0, epoch, snapshot = false, text = '' }) {
    // A line that was opened anew for somebody else begins where they are.
    if (snapshot ? epoch === this.cursor.epoch && seq < this.cursor.seq : seq <= this.cursor.seq) return;
    this.cursor = { epoch: epoch ?? this.cursor.epoch, seq };
    this.#body?.enqueue(utf8.encode(text));
  }

  /**
   * @param {number} status
   * @param {string | null} retryAfter
   */
  #reply(status, retryAfter) {
    const headers = retryAfter === null ? undefined : { 'Retry-After': retryAfter };
    this.#answer(new Response(null, { status, headers }));
    this.#done();
  }

  #end() {
    if (this.#body === null) this.#refuse(new TypeError('the line is closed'));
    this.#body?.close();
    this.#done();
  }

  /** @param {unknown} reason */
  #fail(reason) {
    if (this.over) return;
    this.#refuse(reason);
    this.#body?.error(reason);
    this.#done();
  }

  #done() {
    if (this.over) return;
    this.over = true;
    this.#body = null;
    this.#onOver(this);
  }
}
