/**
 * Which sentence belongs to what. The sentences are static/chat/words.json, the one source; the
 * server chooses from it in the same way (chatapp/templatetags/words.py), so a page says the same
 * before and after it is loaded anew. Every sentence says what happened, what was kept, what to do.
 *
 * @typedef {{happened: string, next: string}} Trouble
 * @typedef {{label: string, sentence: string, retry: boolean, continues: boolean}} End
 */

export class Words {
  /** @param {any} table the content of words.json */
  constructor(table) {
    this.table = table;
  }

  /**
   * How an answer ended, for a person. No label: it is complete and needs no words.
   * @param {import('./fold.js').Snapshot} snapshot
   * @returns {End}
   */
  end(snapshot) {
    const { status, reason, error } = snapshot;
    const wrote = snapshot.text !== '' || snapshot.refusal !== '' || snapshot.tool_calls.length > 0;
    const reasons = this.table.ends[status];
    const key = status === 'completed' && !wrote ? 'empty' : (reason ?? '*');
    const { label, happened, next, retry } = reasons[key] ?? reasons['*'];
    if (!label) return { label, sentence: '', retry, continues: false };
    const kept = wrote ? this.table.kept : status === 'completed' ? '' : this.table.nothing;
    const again = error ? error.retryable : retry;
    const begun = status !== 'completed' && snapshot.text !== '' && snapshot.tool_calls.length === 0;
    const continues = begun && (status !== 'failed' || again);
    return { label, sentence: sentence(happened, kept, next), retry: again, continues };
  }

  /**
   * What a running answer is doing; '' where something else says it.
   * @param {import('./fold.js').Snapshot} snapshot
   */
  state({ status, text, refusal, reasoning, tool_calls: calls, notice }) {
    if (notice) return this.#noticed(notice);
    const answers = text !== '' || refusal !== '' || calls.length > 0;
    if (reasoning !== '' && !answers) return ''; // what stands over the reasoning says it
    return status === 'in_progress' && answers ? this.table.state.writing : this.table.state[status];
  }

  /**
   * The log is written once, in English, for everybody: other languages have words for its codes.
   * @param {{code?: string, message: string}} notice
   */
  #noticed(notice) {
    const words = this.table.language === 'en' ? '' : this.table.notices[notice.code ?? ''];
    return words ? fill(words, notice) : notice.message;
  }

  /**
   * @param {number | 'network'} status of the answer to a send
   * @param {string} [detail] the server's own sentence, where it knows more than the status
   */
  sendFailed(status, detail) {
    const { send } = this.table;
    const found = send[status] ?? send['*'];
    const known = send[status] && status !== 'network'; // else it may have been sent all the same
    const happened = (found.detail && detail) || found.happened;
    return sentence(happened, known ? send.kept : send.unknown, found.next);
  }

  /** @param {number | 'network'} status of the answer to a stop */
  stopFailed(status) {
    const { stop } = this.table;
    const { happened, next } = stop[status] ?? stop['*'];
    return sentence(happened, stop.kept, next);
  }

  /** @param {number} status of the answer to an attempt to follow */
  refused(status) {
    return this.table.connection[status] ?? this.table.connection['404'];
  }
}

/** @param {string[]} parts */
function sentence(...parts) {
  return parts.filter((part) => part !== '').join(' ');
}

/**
 * @param {string} text with {names}
 * @param {Record<string, any>} values
 */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}
