/** The page's scripts tell of an answer what the server tells (chatapp/templatetags/answers.py). */
import assert from 'node:assert/strict';
import test from 'node:test';

import { emptySnapshot } from '../../static/chat/fold.js';
import { Telling } from '../../static/chat/telling.js';
import { Words } from '../../static/chat/words.js';
import { fixture, wordTable } from './ground.js';

const words = new Words(wordTable());
const telling = new Telling(words);
const ENDED = new Set(['completed', 'incomplete', 'failed', 'cancelled', 'interrupted']);

/** A snapshot as it comes over the wire, where every field is there. @param {any} fields @returns {any} */
function whole({ timings, usage, tool_calls: calls = [], notice = null, ...fields }) {
  const empty = emptySnapshot();
  const counts = { input_tokens: null, output_tokens: null, cached_input_tokens: null, reasoning_tokens: null, source: 'provider' };
  return {
    ...empty,
    ...fields,
    notice,
    timings: { ...empty.timings, ...timings },
    usage: usage ? { ...counts, ...usage } : null,
    tool_calls: calls.map((/** @type {any} */ call) => ({ raw: '', arguments: null, error: null, ...call })),
  };
}

test('what is told of an answer is what the server tells', () => {
  const cases = fixture('words/tellings.json');
  assert.ok(cases.length > 40);
  for (const { snapshot: fields, asked, told } of cases) {
    const snapshot = whole(fields);
    const ended = ENDED.has(snapshot.status);
    const here = {
      state: ended ? '' : words.state(snapshot),
      reasoning: telling.reasoning(snapshot),
      reasoning_of_parts: telling.reasoning(snapshot, { onlyThis: false }),
      instead: telling.instead(snapshot, asked),
      figures: telling.figures(snapshot),
      figures_of_part: telling.figures(snapshot, { onlyThis: false }).slice(0, 1),
      calls: snapshot.tool_calls.map((/** @type {any} */ call) => telling.call(call, ended)),
    };
    assert.deepEqual(here, told, JSON.stringify(fields));
  }
});

test('how long reasoning was seen to take is said until the log says it', () => {
  const writing = whole({ status: 'in_progress', reasoning: 'hm', text: '4' });
  assert.equal(telling.reasoning(writing), words.table.reasoning.was);
  assert.equal(telling.reasoning(writing, { seen_ms: 12_400 }), 'Thought for 12 s');
  const ended = whole({ status: 'completed', reasoning: 'hm', text: '4', timings: { first_token_at: '2026-03-01T12:00:00Z', first_text_at: '2026-03-01T12:00:13Z' } });
  assert.equal(telling.reasoning(ended, { seen_ms: 12_400 }), 'Thought for 13 s');
});
