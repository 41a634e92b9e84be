/**
 * Bytes of an event stream → frames, strictly as WHATWG HTML 9.2.6 says.
 *
 * No I/O: `feed` takes what came off the socket and returns the frames it completed, however the
 * bytes were cut. What is unfinished when the stream ends is dropped, as the standard wants.
 */

/**
 * @typedef {object} Frame
 * @property {string} event `message` when the stream named none
 * @property {string} data
 * @property {string} id the last id seen so far
 * @property {number | null} retry milliseconds, the last value seen so far
 */

/**
 * Longest line and longest data of one event, in characters. A log holds 2 MiB of content; escaped
 * as JSON it may grow sixfold. Beyond this the stream is not ours and `feed` throws RangeError.
 */
export const MAX_EVENT_CHARS = 16 * 1024 * 1024;

export class Decoder {
  #utf8 = new TextDecoder(); // strips one leading byte order mark, replaces what is not UTF-8
  /** @type {string[]} pieces of a line that is not complete; joined once, so a long line stays linear */
  #pieces = [];
  #pieceChars = 0;
  #afterCr = false;
  #event = '';
  /** @type {string[]} */
  #data = [];
  #dataChars = 0;
  #id = '';
  /** @type {number | null} */
  #retry = null;
  /** @type {Frame[]} */
  #frames = [];

  /**
   * @param {Uint8Array} bytes
   * @returns {Frame[]}
   */
  feed(bytes) {
    const text = this.#utf8.decode(bytes, { stream: true });
    let start = 0;
    for (let at = 0; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code !== 10 && code !== 13) {
        this.#afterCr = false;
        continue;
      }
      if (code === 10 && this.#afterCr) {
        this.#afterCr = false; // the second half of a CRLF, maybe of the chunk before
      } else {
        this.#line(this.#take(text.slice(start, at)));
        this.#afterCr = code === 13;
      }
      start = at + 1;
    }
    this.#keep(text.slice(start));
    const frames = this.#frames;
    this.#frames = [];
    return frames;
  }

  /** @param {string} rest */
  #keep(rest) {
    if (rest === '') return;
    this.#pieces.push(rest);
    this.#pieceChars += rest.length;
    if (this.#pieceChars > MAX_EVENT_CHARS) throw new RangeError('a line of the stream is too long');
  }

  /** @param {string} rest */
  #take(rest) {
    if (this.#pieces.length === 0) return rest;
    const line = this.#pieces.join('') + rest;
    this.#pieces = [];
    this.#pieceChars = 0;
    return line;
  }

  /** @param {string} line */
  #line(line) {
    if (line === '') {
      this.#dispatch();
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return; // a comment
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    this.#field(field, value);
  }

  /**
   * @param {string} field
   * @param {string} value
   */
  #field(field, value) {
    if (field === 'data') {
      this.#data.push(value);
      this.#dataChars += value.length + 1;
      if (this.#dataChars > MAX_EVENT_CHARS) throw new RangeError('an event of the stream is too long');
    } else if (field === 'event') {
      this.#event = value;
    } else if (field === 'id') {
      if (!value.includes('\0')) this.#id = value;
    } else if (field === 'retry' && /^[0-9]+$/.test(value)) {
      this.#retry = Number(value);
    }
  }

  #dispatch() {
    const event = this.#event || 'message';
    const data = this.#data.join('\n');
    const seen = this.#data.length > 0;
    this.#event = '';
    this.#data = [];
    this.#dataChars = 0;
    // "If the data buffer is an empty string, return": one empty `data` line is an empty buffer plus
    // the newline that is cut off again, and that one is dispatched.
    if (seen) this.#frames.push({ event, data, id: this.#id, retry: this.#retry });
  }
}
