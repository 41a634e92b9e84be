/**
 * What a log means: the one function from events to the state a person sees (law 13).
 *
 * The exact twin of relay/fold.py; both are held to tests/fixtures/fold/. A snapshot here is the same
 * object as `GET /api/responses/{id}` answers, so a page with a snapshot and its cursor needs only
 * the events after it.
 *
 * @typedef {{type: string, seq: number, [field: string]: any}} Event
 *
 * @typedef {object} ToolCall
 * @property {number} index
 * @property {string} call_id
 * @property {string} name
 * @property {string} raw fragments of the arguments, for display only
 * @property {object | null} arguments
 * @property {string | null} error
 *
 * @typedef {object} Snapshot a response as of event `seq` of the log written under `epoch`
 * @property {string} id
 * @property {string} status
 * @property {string | null} reason
 * @property {string | null} finish_reason
 * @property {string} model
 * @property {string | null} upstream_model
 * @property {number} attempt
 * @property {number} seq
 * @property {number} epoch
 * @property {string} text
 * @property {string} reasoning
 * @property {string} refusal
 * @property {ToolCall[]} tool_calls
 * @property {Event[]} meta
 * @property {object | null} usage
 * @property {any} notice the last notice, until content or the end replaces it
 * @property {{created_at: ?string, started_at: ?string, first_token_at: ?string, first_text_at: ?string, ended_at: ?string}} timings
 * @property {{code: string, message: string, retryable: boolean} | null} error
 * @property {string | null} text_sha256 null until the response has ended
 */

/** Events that a person may have seen as part of the answer. */
const CONTENT = new Set([
  'text.delta',
  'reasoning.delta',
  'refusal.delta',
  'tool_call.started',
  'tool_call.delta',
  'tool_call.completed',
  'tool_call.invalid',
  'part.meta',
]);

const TERMINAL = new Set(['completed', 'incomplete', 'failed', 'cancelled', 'interrupted']);

/**
 * One that a later version has made up is `incomplete` to this page: ended, and not known to be whole.
 * @param {string} word
 */
const endStatus = (word) => (TERMINAL.has(word) ? word : 'incomplete');

/** @returns {Snapshot} */
export function emptySnapshot() {
  return {
    id: '',
    status: 'queued',
    reason: null,
    finish_reason: null,
    model: '',
    upstream_model: null,
    attempt: 0,
    seq: 0,
    epoch: 0,
    text: '',
    reasoning: '',
    refusal: '',
    tool_calls: [],
    meta: [],
    usage: null,
    notice: null,
    timings: { created_at: null, started_at: null, first_token_at: null, first_text_at: null, ended_at: null },
    error: null,
    text_sha256: null,
  };
}

/** Applies events one after the other; `snapshot()` is what they mean so far. */
export class Folder {
  /** @type {Snapshot} */
  #state;
  /** @type {Map<number, ToolCall>} by index, in order of first appearance */
  #calls;

  /** @param {Snapshot} [base] */
  constructor(base) {
    this.#state = { ...emptySnapshot(), ...base };
    if (this.ended) this.#state.status = endStatus(this.#state.status);
    this.#calls = new Map(this.#state.tool_calls.map((call) => [call.index, { ...call }]));
  }

  get seq() {
    return this.#state.seq;
  }

  get epoch() {
    return this.#state.epoch;
  }

  get text() {
    return this.#state.text;
  }

  get ended() {
    return this.#state.text_sha256 !== null;
  }

  /** @param {Event} event */
  apply(event) {
    const state = this.#state;
    state.seq = event.seq;
    switch (event.type) {
      case 'text.delta':
        state.text += event.delta;
        break;
      case 'reasoning.delta':
        state.reasoning += event.delta;
        break;
      case 'refusal.delta':
        state.refusal += event.delta;
        break;
      case 'created':
        state.id = event.response_id;
        state.model = event.model;
        this.#time({ created_at: event.created_at });
        break;
      case 'started':
        state.status = 'in_progress';
        state.upstream_model = event.upstream_model;
        state.attempt = event.attempt;
        state.epoch = event.epoch;
        this.#time({ started_at: event.at || null });
        break;
      case 'tool_call.started':
      case 'tool_call.delta':
      case 'tool_call.completed':
      case 'tool_call.invalid':
        this.#toolCall(event);
        break;
      case 'part.meta':
        state.meta = [
          ...state.meta,
          { type: event.type, seq: event.seq, part: event.part, kind: event.kind, data: event.data },
        ];
        break;
      case 'usage':
        state.usage = usageCount(event);
        break;
      case 'ended':
        this.#end(event);
        break;
      default: // `notice` is below; anything else is of a later schema and without meaning here
    }
    if (event.type === 'notice') {
      state.notice = notice(event);
      if (event.model != null) state.model = event.model;
    } else if (CONTENT.has(event.type) || event.type === 'ended') state.notice = null;
  }

  /** @returns {Snapshot} */
  snapshot() {
    return { ...this.#state, tool_calls: [...this.#calls.values()].map((call) => ({ ...call })) };
  }

  /** @param {Event} event */
  #toolCall(event) {
    const known = this.#calls.get(event.index);
    if (event.type === 'tool_call.delta') {
      // A snapshot has no place for fragments of a call that was never started.
      if (known) known.raw += event.delta;
      return;
    }
    const call = { index: event.index, call_id: event.call_id, name: event.name, raw: '', arguments: null, error: null };
    if (event.type === 'tool_call.completed') {
      call.raw = known ? known.raw : '';
      call.arguments = event.arguments;
    } else if (event.type === 'tool_call.invalid') {
      call.raw = event.raw;
      call.error = event.error;
    }
    this.#calls.set(event.index, call);
  }

  /** @param {Event} event */
  #end(event) {
    const state = this.#state;
    state.status = endStatus(event.status);
    state.reason = event.reason;
    state.finish_reason = event.finish_reason;
    state.error = event.error;
    if (event.usage) state.usage = usageCount(event.usage);
    state.text_sha256 = event.text_sha256;
    state.epoch = event.epoch;
    this.#time({
      first_token_at: event.first_token_at ?? null,
      first_text_at: event.first_text_at ?? null,
      ended_at: event.at ?? null,
    });
  }

  /** @param {Partial<Snapshot['timings']>} times */
  #time(times) {
    this.#state.timings = { ...this.#state.timings, ...times };
  }
}

/**
 * The meaning of a whole log, or of its beginning.
 * @param {Event[]} events
 */
export function fold(events) {
  return apply(emptySnapshot(), events);
}

/**
 * The meaning of `snapshot` and the events after it.
 * @param {Snapshot} snapshot
 * @param {Event[]} events
 */
export function apply(snapshot, events) {
  const folder = new Folder(snapshot);
  for (const event of events) folder.apply(event);
  return folder.snapshot();
}

/** @param {{[field: string]: any}} from */
function usageCount(from) {
  return {
    input_tokens: from.input_tokens ?? null,
    output_tokens: from.output_tokens ?? null,
    cached_input_tokens: from.cached_input_tokens ?? null,
    reasoning_tokens: from.reasoning_tokens ?? null,
    source: from.source ?? 'provider',
  };
}

/** @param {Event} event */
function notice(event) {
  return {
    type: 'notice',
    seq: event.seq,
    code: event.code,
    message: event.message,
    done: event.done ?? null,
    total: event.total ?? null,
    model: event.model ?? null,
  };
}
