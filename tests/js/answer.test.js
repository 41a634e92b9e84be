/** What a person sees of one answer, from its first event to each of its ends. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { AnswerView } from '../../static/chat/answer.js';
import { fold } from '../../static/chat/fold.js';
import { Words } from '../../static/chat/words.js';
import { FakeScreen, answerElement } from './dom.js';
import { fixture, wordTable } from './ground.js';

const words = new Words(wordTable());

function ground() {
  const element = answerElement();
  const screen = new FakeScreen();
  const view = new AnswerView(element, { words, screen });
  const part = (/** @type {string} */ name) => element.querySelector(`[data-part="${name}"]`);
  /** @param {any[]} events */
  const feed = (events) => {
    for (const event of events) view.apply(event);
    screen.paint();
  };
  return { element, screen, view, part, feed };
}

const { events } = fixture('fold/completed_text.json');

/** @param {number} seq @param {object} fields */
const end = (seq, fields) => ({ type: 'ended', seq, status: 'completed', reason: null, epoch: 1, finish_reason: null, error: null, usage: null, text_sha256: 'x', ...fields });

test('an answer that waits, thinks, writes and ends says so in turn', () => {
  const { element, part, feed } = ground();
  const { state } = words.table;
  feed([{ type: 'created', seq: 1, response_id: 'r', model: 'm', created_at: 'now' }]);
  assert.equal(part('state').textContent, state.queued);
  feed([{ type: 'started', seq: 2, upstream_model: 'm', attempt: 1, epoch: 1 }]);
  assert.equal(part('state').textContent, state.in_progress);
  feed([{ type: 'text.delta', seq: 3, part: 0, delta: 'Hel' }, { type: 'text.delta', seq: 4, part: 0, delta: 'lo' }]);
  assert.equal(part('state').textContent, state.writing);
  assert.equal(part('text').textContent, 'Hello');
  assert.ok(element.hasAttribute('data-running'));
  assert.equal(part('article').getAttribute('aria-busy'), 'true');
  feed([end(5, {})]);
  assert.equal(part('state').hidden, true);
  assert.equal(part('end').hidden, true, 'a complete answer needs no words');
  assert.ok(!element.hasAttribute('data-running'));
  assert.equal(part('article').getAttribute('aria-busy'), 'false');
});

test('events of one frame are one paint and one change of the text', () => {
  const { view, screen, part } = ground();
  screen.paint();
  view.apply({ type: 'text.delta', seq: 1, delta: 'a' });
  screen.paint();
  const node = part('text').children[0].firstChild;
  const before = node.changes;
  for (let seq = 2; seq < 100; seq += 1) view.apply({ type: 'text.delta', seq, delta: 'b' });
  assert.deepEqual(screen.kinds, ['frame']);
  screen.paint();
  assert.equal(node.changes, before + 1);
  assert.equal(part('text').textContent.length, 99);
});

test('the screen shows the same text whenever a paint comes in between', () => {
  const wanted = fold(events).text;
  for (let at = 0; at <= events.length; at += 1) {
    const { part, feed } = ground();
    feed(events.slice(0, at));
    feed(events.slice(at));
    assert.equal(part('text').textContent, wanted.replaceAll(/\n{2,}/g, ''), `paint after ${at}`);
  }
});

test('a snapshot and the events after it show what all events show, for every k', () => {
  for (let k = 0; k <= events.length; k += 1) {
    const whole = ground();
    whole.feed(events);
    const { view, part, feed } = ground();
    view.replace(fold(events.slice(0, k)));
    feed(events.slice(k));
    assert.equal(part('text').textContent, whole.part('text').textContent, `k = ${k}`);
    assert.equal(part('end').hidden, whole.part('end').hidden);
  }
});

test('deltas that wait for a paint are not shown twice when a snapshot replaces them', () => {
  const { view, screen, part } = ground();
  view.apply({ type: 'text.delta', seq: 1, delta: 'one' });
  view.replace({ ...fold([]), text: 'one two', seq: 2 });
  view.apply({ type: 'text.delta', seq: 3, delta: ' three' });
  screen.paint();
  assert.equal(part('text').textContent, 'one two three');
});

for (const [status, reason] of [
  ['incomplete', 'max_tokens'],
  ['failed', 'truncated'],
  ['cancelled', 'user'],
  ['interrupted', 'worker_lost'],
]) {
  test(`an answer that ends ${status} keeps its words and says so`, () => {
    const { element, part, feed } = ground();
    const error = status === 'failed' ? { code: reason, message: 'm', retryable: true } : null;
    feed([{ type: 'text.delta', seq: 1, delta: 'kept' }, end(2, { status, reason, error })]);
    assert.equal(part('text').textContent, 'kept');
    assert.equal(part('end').hidden, false);
    assert.equal(part('label').textContent, words.table.ends[status][reason].label);
    assert.ok(part('sentence').textContent.includes(words.table.kept));
    assert.equal(element.dataset.status, status);
    assert.equal(part('icon').getAttribute('href'), `#icon-${status}`);
    assert.equal(part('retry').hidden, status === 'incomplete');
  });
}

test('what the connection has to say takes the place of what the answer does, and gives it back', () => {
  const { element, view, screen, part, feed } = ground();
  feed([{ type: 'text.delta', seq: 1, delta: 'shown' }]);
  view.connection('Reconnecting…');
  screen.paint();
  assert.equal(part('state').textContent, 'Reconnecting…');
  assert.equal(part('text').textContent, 'shown');
  assert.ok(!element.hasAttribute('data-unfollowed'));
  view.connection(null);
  screen.paint();
  assert.notEqual(part('state').textContent, 'Reconnecting…');
});

test('an answer that cannot be followed any more keeps its words, says so and looks neither running nor whole', () => {
  const { element, view, screen, part, feed } = ground();
  feed([{ type: 'text.delta', seq: 1, delta: 'shown' }]);
  view.connection('You are signed out.', true);
  screen.paint();
  assert.ok(element.hasAttribute('data-unfollowed'));
  assert.equal(part('state').hidden, false);
  assert.equal(part('text').textContent, 'shown');
});

test('a stop that was asked for is said until the end comes', () => {
  const { view, screen, part, feed } = ground();
  feed([{ type: 'text.delta', seq: 1, delta: 'shown' }]);
  view.stopping(true);
  screen.paint();
  assert.equal(part('state').textContent, words.table.state.stopping);
  feed([{ type: 'text.delta', seq: 2, delta: ' and more' }, end(3, { status: 'cancelled', reason: 'user' })]);
  assert.equal(part('text').textContent, 'shown and more');
  assert.ok(part('sentence').textContent.startsWith('You stopped this answer.'));
});

test('reasoning, refusals and tool calls have places of their own', () => {
  const { part, feed } = ground();
  feed([{ type: 'created', seq: 0, response_id: 'r', model: 'm', created_at: 'now' }]);
  assert.deepEqual([part('reasoning').hidden, part('calls').hidden], [true, true]);
  feed([
    { type: 'reasoning.delta', seq: 1, delta: 'hm' },
    { type: 'refusal.delta', seq: 2, delta: 'No.' },
    { type: 'tool_call.started', seq: 3, index: 0, call_id: 'c', name: 'look_up' },
    { type: 'tool_call.delta', seq: 4, index: 0, delta: '{"q":' },
  ]);
  assert.equal(part('reasoning').hidden, false);
  assert.equal(part('reasoning-text').textContent, 'hm');
  assert.equal(part('refusal').textContent, 'No.');
  const shown = () => part('calls').children.map((/** @type {any} */ item) => item.textContent);
  assert.deepEqual(shown(), ['look_up being written…']);
  feed([{ type: 'tool_call.delta', seq: 5, index: 0, delta: '"Be' }]);
  assert.deepEqual(shown(), ['look_up being written…qBe']);
  const value = part('calls').children[0].children[1].children[0].children[1];
  const node = value.firstChild;
  feed([{ type: 'tool_call.delta', seq: 6, index: 0, delta: 'rn"' }]);
  assert.equal(value.firstChild, node, 'what stands there stays');
  assert.equal(value.textContent, 'Bern');
  feed([{ type: 'tool_call.completed', seq: 7, index: 0, call_id: 'c', name: 'look_up', arguments: { q: 'Bern', n: 1 } }]);
  assert.deepEqual(shown(), ['look_up qBernn1']);
  feed([{ type: 'tool_call.invalid', seq: 8, index: 1, call_id: 'd', name: 'buy', raw: '{"n"', error: 'it is cut off' }]);
  assert.equal(part('calls').children[1].getAttribute('class'), 'broken');
  assert.match(shown()[1], /^buy not called, .*it is cut off\{"n"$/);
  feed([end(9, {})]);
  assert.equal(part('state').hidden, true);
});

test('an answer that goes on is one with its beginning, to the last word', () => {
  const element = answerElement();
  const screen = new FakeScreen();
  const before = { text: 'The moon pulls on the wat', reasoning: 'First.' };
  const view = new AnswerView(element, { words, screen, before });
  const part = (/** @type {string} */ name) => element.querySelector(`[data-part="${name}"]`);
  view.apply({ type: 'created', seq: 1, response_id: 'r', model: 'm', created_at: 'now' });
  view.apply({ type: 'started', seq: 2, upstream_model: 'm', attempt: 1, epoch: 1 });
  screen.paint();
  assert.equal(part('text').textContent, before.text);
  view.apply({ type: 'text.delta', seq: 3, part: 0, delta: 'er.' });
  screen.paint();
  assert.equal(part('text').textContent, 'The moon pulls on the water.');
  assert.equal(part('reasoning').hidden, false);
  view.apply(end(4, { status: 'cancelled', reason: 'user' }));
  screen.paint();
  assert.equal(part('continue').hidden, false);
  assert.equal(view.snapshot().text, 'er.', 'what is compared with the server is its own');
});

test('reasoning says that it goes on, then how long it took, and opens and closes for nobody', () => {
  const element = answerElement();
  const screen = new FakeScreen();
  let now = 0;
  const view = new AnswerView(element, { words, screen, now: () => now });
  const part = (/** @type {string} */ name) => element.querySelector(`[data-part="${name}"]`);
  const feed = (/** @type {any} */ event) => {
    view.apply(event);
    screen.paint();
  };
  feed({ type: 'started', seq: 1, upstream_model: 'm', attempt: 1, epoch: 1 });
  assert.equal(part('reasoning').hidden, true);
  feed({ type: 'reasoning.delta', seq: 2, delta: 'hm' });
  assert.equal(part('reasoning').hidden, false);
  assert.equal(part('reasoning-label').textContent, words.table.reasoning.now);
  assert.equal(part('state').hidden, true, 'it is said once');
  part('reasoning').setAttribute('open', '');
  const { changes } = part('reasoning');
  now = 12_400;
  feed({ type: 'text.delta', seq: 3, delta: '42' });
  assert.equal(part('reasoning-label').textContent, 'Thought for 12 s');
  assert.equal(part('state').textContent, words.table.state.writing);
  now = 60_000;
  feed({ type: 'reasoning.delta', seq: 4, delta: ' hm' });
  feed(end(5, { first_token_at: '2026-03-01T12:00:00Z', first_text_at: '2026-03-01T12:00:13Z' }));
  assert.equal(part('reasoning-label').textContent, 'Thought for 13 s', 'the log knows best');
  assert.equal(part('reasoning').changes, changes);
  assert.ok(part('reasoning').hasAttribute('open'));
});

test('a notice with a measure has a bar, and the next word takes both away', () => {
  const { part, feed } = ground();
  const notice = { type: 'notice', code: 'reading_prompt', message: 'Reading the prompt, 384 of 1731', total: 1731 };
  feed([{ type: 'started', seq: 1, upstream_model: 'm', attempt: 1, epoch: 1 }]);
  assert.equal(part('progress').hidden, true);
  feed([{ ...notice, seq: 2, done: 384 }]);
  assert.equal(part('state').textContent, notice.message);
  assert.deepEqual([part('progress').hidden, part('progress').getAttribute('max'), part('progress').getAttribute('value')], [false, '1731', '384']);
  feed([{ type: 'notice', seq: 3, code: 'retrying', message: 'Trying again.' }]);
  assert.equal(part('progress').hidden, true);
  feed([{ ...notice, seq: 4, done: 1731 }, { type: 'text.delta', seq: 5, delta: 'a' }]);
  assert.equal(part('progress').hidden, true);
  assert.equal(part('state').textContent, words.table.state.writing);
});

test('an answer of another model than was asked names both', () => {
  const { part, feed } = ground();
  feed([{ type: 'created', seq: 1, response_id: 'r', model: 'fast', created_at: 'now' }]);
  assert.equal(part('instead').hidden, true);
  feed([{ type: 'notice', seq: 2, code: 'fallback', message: 'Another answers.', model: 'slow' }, { type: 'text.delta', seq: 3, delta: 'a' }]);
  assert.equal(part('instead').hidden, false);
  assert.match(part('instead').textContent, /^fast .*slow/);
});

test('figures come with the end', () => {
  const { part, feed } = ground();
  feed([{ type: 'created', seq: 1, response_id: 'r', model: 'fast', created_at: '2026-03-01T12:00:00Z' }, { type: 'text.delta', seq: 2, delta: 'a' }]);
  assert.equal(part('figures').hidden, true);
  feed([end(3, { finish_reason: 'stop', usage: { input_tokens: 9, output_tokens: 1 } })]);
  assert.equal(part('figures').hidden, false);
  const { figures } = words.table;
  assert.deepEqual(
    part('figures-list').children.map((/** @type {any} */ row) => row.children.map((/** @type {any} */ cell) => cell.textContent)),
    [['Model', 'fast'], ['Tokens read', '9'], ['Tokens written', '1'], ['Ended', figures.end.stop], ['Response', 'r']],
  );
});
