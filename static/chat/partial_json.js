/**
 * What can be shown of a JSON text that is still being written: the arguments of a tool call.
 *
 * The twin of relay/wire/partial_json.py, over the same vectors. Nothing is taken back but a guess that
 * says so (`complete`): an unfinished string is what is there of it, a key without a value is not
 * there yet, `t` can only become true. One pass, no recursion. Never throws.
 *
 * @typedef {'invalid' | 'trailing_data' | 'too_deep' | 'out_of_range'} Mistake
 *
 * @typedef {object} Partial
 * @property {boolean} has_value false: no value has begun, or the text is wrong and there is none to be trusted
 * @property {any} value
 * @property {boolean} complete the text is valid JSON as it stands; a number may still grow
 * @property {Mistake | null} error null: the text is the beginning of some valid JSON text
 */

/** Containers in containers; what shows the value recurses. */
const MAX_DEPTH = 512;

const WHITE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const NUMBER_BEGUN = /^-?(?:0|[1-9][0-9]*)(?:\.|(?:\.[0-9]+)?[eE][+-]?)$/;
const ESCAPE_BEGUN = /^\\(?:u[0-9a-fA-F]{0,3})?$/;
/** Of a string, a piece at a time: engines keep a place for each repetition. */
const PIECE = /(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}){0,4096}/y;
/** @type {Record<string, [string, any]>} */
const LITERALS = { t: ['true', true], f: ['false', false], n: ['null', null] };

class Wrong extends Error {
  /** @param {Mistake} mistake */
  constructor(mistake) {
    super(mistake);
    this.mistake = mistake;
  }
}

/**
 * @param {string} text JSON, or the beginning of it
 * @returns {Partial}
 */
export function parsePartial(text) {
  try {
    return new Reader(text).read();
  } catch (error) {
    if (!(error instanceof Wrong)) throw error;
    return { has_value: false, value: null, complete: false, error: error.mistake };
  }
}

class Reader {
  #text;
  #at = 0;
  /** The text ended inside a value, or in front of one. */
  #cut = false;
  /** Containers around `#at`, each filled as its values come. @type {any[]} */
  #open = [];
  /** Of the objects in `#open` that wait for a value. @type {string[]} */
  #keys = [];
  /** The last thing read was the opening of a container. */
  #opened = false;
  #hasRoot = false;
  /** @type {any} */
  #root = null;

  /** @param {string} text */
  constructor(text) {
    this.#text = text;
  }

  /** @returns {Partial} */
  read() {
    while (this.#beginValue() && this.#afterValue());
    const complete = this.#hasRoot && this.#open.length === 0 && !this.#cut;
    const trailing = complete && this.#at < this.#text.length;
    return { has_value: this.#hasRoot, value: this.#root, complete: complete && !trailing, error: trailing ? 'trailing_data' : null };
  }

  /** The next character that is not white space; '' at the end. */
  #next() {
    this.#at += this.#match(WHITE).length;
    return this.#text[this.#at] ?? '';
  }

  /** @param {RegExp} pattern sticky @param {number} [at] */
  #match(pattern, at = this.#at) {
    pattern.lastIndex = at;
    return pattern.exec(this.#text)?.[0] ?? '';
  }

  /** Take a value, or the opening of one. @returns {boolean} false: the text ends before there is one */
  #beginValue() {
    const char = this.#next();
    this.#opened = char === '[' || char === '{';
    if (this.#opened) {
      if (this.#open.length === MAX_DEPTH) throw new Wrong('too_deep');
      const container = char === '[' ? [] : {};
      this.#at += 1;
      this.#put(container);
      this.#open.push(container);
    } else if (char === '"') this.#put(this.#string());
    else if (char in LITERALS) this.#put(this.#literal(...LITERALS[char]));
    else if (char !== '') return this.#number();
    else {
      this.#cut = true;
      return false;
    }
    return true;
  }

  /** Close what closes here and go to where the next value begins. @returns {boolean} false: there is none */
  #afterValue() {
    while (this.#open.length > 0 && !this.#cut) {
      const isList = Array.isArray(this.#open.at(-1));
      const char = this.#next();
      if (char === '') this.#cut = true;
      else if (char === (isList ? ']' : '}')) {
        this.#at += 1;
        this.#open.pop();
        this.#opened = false;
        continue;
      } else if (!this.#opened) {
        if (char !== ',') throw new Wrong('invalid');
        this.#at += 1;
      }
      return !this.#cut && (isList || this.#key());
    }
    this.#next();
    return false;
  }

  /** Take a key and its colon. @returns {boolean} false: the text ends before that */
  #key() {
    let char = this.#next();
    if (char !== '' && char !== '"') throw new Wrong('invalid');
    if (char !== '') {
      const key = this.#string();
      if (!this.#cut) {
        char = this.#next();
        if (char !== '' && char !== ':') throw new Wrong('invalid');
        if (char !== '') {
          this.#at += 1;
          this.#keys.push(key);
          return true;
        }
      }
    }
    this.#cut = true;
    return false;
  }

  /** @param {any} value */
  #put(value) {
    const inside = this.#open.at(-1);
    if (inside === undefined) [this.#root, this.#hasRoot] = [value, true];
    else if (Array.isArray(inside)) inside.push(value);
    // Defined and not assigned: a key may be named `__proto__`.
    else Object.defineProperty(inside, /** @type {string} */ (this.#keys.pop()), { value, enumerable: true, configurable: true, writable: true });
  }

  #string() {
    const begin = this.#at + 1;
    let end = begin;
    for (let piece; (piece = this.#match(PIECE, end)) !== ''; ) end += piece.length;
    let content = this.#text.slice(begin, end);
    this.#at = end;
    if (this.#text[end] === '"') this.#at += 1;
    else if (end === this.#text.length || ESCAPE_BEGUN.test(this.#text.slice(end, end + 7))) {
      this.#at = this.#text.length;
      this.#cut = true;
    } else throw new Wrong('invalid');
    content = JSON.parse(`"${content}"`);
    const last = content.charCodeAt(content.length - 1);
    if (this.#cut && last >= 0xd800 && last <= 0xdbff) content = content.slice(0, -1); // its other half is still to come
    return content.toWellFormed?.() ?? content;
  }

  /** @param {string} word @param {any} value */
  #literal(word, value) {
    const there = this.#text.slice(this.#at, this.#at + word.length);
    this.#at += there.length;
    if (there !== word) {
      if (this.#at < this.#text.length || !word.startsWith(there)) throw new Wrong('invalid');
      this.#cut = true;
    }
    return value;
  }

  #number() {
    const found = this.#match(NUMBER);
    const rest = this.#text.slice(this.#at, this.#at + found.length + 3);
    if (found === '') {
      if (rest !== '-') throw new Wrong('invalid');
      this.#cut = true;
      return false;
    }
    const end = this.#at + found.length;
    if (NUMBER_BEGUN.test(rest)) {
      this.#cut = true;
      this.#at = this.#text.length;
    } else if (/[0-9.eE]/.test(this.#text[end] ?? '')) throw new Wrong('invalid');
    else this.#at = end;
    const number = Number(found);
    if (!Number.isFinite(number)) throw new Wrong('out_of_range');
    this.#put(number);
    return true;
  }
}
