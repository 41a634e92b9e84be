/**
 * What is told of an answer besides its words: its reasoning, its tool calls, its figures.
 *
 * The twin of chatapp/templatetags/answers.py, with the sentences of words.json; `tests/fixtures/words/`
 * holds both to the same cases.
 *
 * @typedef {import('./fold.js').Snapshot} Snapshot
 * @typedef {import('./fold.js').ToolCall} ToolCall
 *
 * @typedef {object} Call a tool call as far as it is known
 * @property {string} name
 * @property {string} state what is to be said of it; '': it is whole
 * @property {[string, string][]} rows arguments by name, for display only; one without a name: what
 *   cannot be read, as it came
 * @property {boolean} broken
 */
import { grouped, tenths } from './numerals.js';
import { parsePartial } from './partial_json.js';
import { fill } from './words.js';

/** Of writing: a speed over less than that says nothing. */
const LEAST_MS = 100;
const TERMINAL = new Set(['completed', 'incomplete', 'failed', 'cancelled', 'interrupted']);

export class Telling {
  #words;
  #table;

  /** @param {import('./words.js').Words} words */
  constructor(words) {
    this.#words = words;
    this.#table = words.table;
  }

  /**
   * @param {ToolCall} call
   * @param {boolean} ended the answer has
   * @returns {Call}
   */
  call(call, ended) {
    const { name, raw } = call;
    const words = this.#table.calls;
    /** @type {[string, string][]} */
    const asItCame = raw ? [['', raw]] : [];
    if (call.arguments !== null) return { name, state: '', rows: rows(call.arguments), broken: false };
    if (call.error !== null) return { name, state: fill(words.invalid, { error: call.error }), rows: asItCame, broken: true };
    const { error, value } = parsePartial(raw);
    const whole = error === null && value !== null && typeof value === 'object' && !Array.isArray(value);
    return { name, state: ended ? words.cut : words.open, rows: whole ? rows(value) : asItCame, broken: false };
  }

  /**
   * What stands over the reasoning.
   * @param {Snapshot} snapshot
   * @param {object} [known]
   * @param {number | null} [known.seen_ms] how long it was seen to come
   * @param {boolean} [known.onlyThis] it is all of this response, so it has a length
   */
  reasoning(snapshot, { seen_ms = null, onlyThis = true } = {}) {
    const words = this.#table.reasoning;
    if (snapshot.reasoning === '') return '';
    if (!TERMINAL.has(snapshot.status) && !answers(snapshot)) return words.now;
    const { first_token_at, first_text_at, ended_at } = snapshot.timings;
    const lasted_ms = between(first_token_at, first_text_at ?? ended_at) ?? seen_ms;
    if (lasted_ms === null || !onlyThis) return words.was;
    return fill(words.for, { time: this.#duration(lasted_ms) });
  }

  /**
   * Who answers, if it is not who was asked.
   * @param {Snapshot} snapshot
   * @param {string} asked
   */
  instead({ model }, asked) {
    return asked && model && asked !== model ? fill(this.#table.instead, { asked, model }) : '';
  }

  /**
   * Of an answer that has ended, for whoever asks for them: a name and a value each.
   * @param {Snapshot} snapshot
   * @param {object} [known]
   * @param {boolean} [known.onlyThis] this response is all of the answer
   * @returns {[string, string][]}
   */
  figures(snapshot, { onlyThis = true } = {}) {
    if (!TERMINAL.has(snapshot.status)) return [];
    const part = onlyThis ? {} : { part: this.#table.figures.part.value };
    const values = Object.entries({ ...part, ...this.#values(snapshot) }).filter(([, value]) => value !== '');
    return values.map(([name, value]) => [this.#table.figures[name].name, value]);
  }

  /** @param {Snapshot} snapshot @returns {Record<string, string>} */
  #values(snapshot) {
    const { model, upstream_model: upstream, timings: times } = snapshot;
    const usage = /** @type {any} */ (snapshot.usage);
    const words = this.#table.figures;
    const first = between(times.created_at, times.first_token_at);
    const whole = between(times.created_at, times.ended_at);
    return {
      model: upstream && upstream !== model ? fill(words.model.as, { model, upstream }) : model,
      read: usage ? this.#tokens('read', usage.input_tokens, usage.cached_input_tokens) : '',
      written: this.#written(usage),
      speed: this.#speed(snapshot, usage),
      first: first === null ? '' : fill(words.first.value, { s: seconds(first) }),
      whole: whole === null ? '' : fill(words.whole.value, { s: seconds(whole) }),
      end: this.#why(snapshot),
      id: snapshot.id,
    };
  }

  /** @param {string} which @param {number | null} count @param {number | null} part */
  #tokens(which, count, part) {
    if (count === null) return '';
    const words = this.#table.figures[which];
    return fill(words.value, { n: grouped(count) }) + (part ? fill(words.part, { n: grouped(part) }) : '');
  }

  /** @param {any} usage */
  #written(usage) {
    if (!usage) return '';
    const said = this.#tokens('written', usage.output_tokens, usage.reasoning_tokens);
    return said && usage.source === 'counted' ? said + this.#table.figures.written.counted : said;
  }

  /** @param {Snapshot} snapshot @param {any} usage */
  #speed({ timings: { first_token_at, ended_at } }, usage) {
    const written_ms = between(first_token_at, ended_at);
    if (!usage?.output_tokens || written_ms === null || written_ms < LEAST_MS) return '';
    return fill(this.#table.figures.speed.value, { n: tenths(Math.floor((usage.output_tokens * 10_000) / written_ms)) });
  }

  /** @param {Snapshot} snapshot */
  #why(snapshot) {
    const why = this.#table.figures.end;
    const { label } = this.#words.end(snapshot);
    if (label) return snapshot.reason ? `${label} (${snapshot.reason})` : label;
    return why[snapshot.finish_reason ?? ''] ?? why['*'];
  }

  /** @param {number} ms */
  #duration(ms) {
    const { time } = this.#table;
    const whole = Math.floor(ms / 1000);
    if (whole < 60) return fill(whole ? time.s : time.moment, { s: whole });
    return fill(time.min, { min: grouped(Math.floor(whole / 60)), s: whole % 60 });
  }
}

/** @param {Snapshot} snapshot */
function answers({ text, refusal, tool_calls: calls }) {
  return text !== '' || refusal !== '' || calls.length > 0;
}

/** @param {object} values @returns {[string, string][]} */
function rows(values) {
  return Object.entries(values).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]);
}

/** Milliseconds. @param {string | null} earlier @param {string | null} later */
function between(earlier, later) {
  return earlier === null || later === null ? null : Math.max(0, Date.parse(later) - Date.parse(earlier));
}

/** @param {number} ms */
function seconds(ms) {
  return tenths(Math.floor(ms / 100));
}
