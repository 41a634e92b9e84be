/** The page's scripts say what the server says, about every end there is. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { emptySnapshot } from '../../static/chat/fold.js';
import { Words, fill } from '../../static/chat/words.js';
import { fixture, wordTable } from './ground.js';

const table = wordTable();
const words = new Words(table);

/** @param {object} fields @returns {any} */
const snapshot = (fields) => ({ ...emptySnapshot(), ...fields });

test('every end has the words that the server has for it', () => {
  const cases = fixture('words/ends.json');
  assert.ok(cases.length > 100);
  for (const { snapshot: fields, end } of cases) {
    assert.deepEqual(words.end(snapshot(fields)), end, JSON.stringify(fields));
  }
});

test('a refusal or a tool call counts as something written', () => {
  assert.equal(words.end(snapshot({ status: 'completed', refusal: 'No.' })).label, '');
  assert.equal(words.end(snapshot({ status: 'completed', tool_calls: [{}] })).label, '');
});

test('a running answer says what it is doing', () => {
  assert.equal(words.state(snapshot({})), table.state.queued);
  assert.equal(words.state(snapshot({ status: 'in_progress' })), table.state.in_progress);
  assert.equal(words.state(snapshot({ status: 'in_progress', text: 'a' })), table.state.writing);
  assert.equal(words.state(snapshot({ notice: { message: 'Reading the prompt, 384 of 1731' } })), 'Reading the prompt, 384 of 1731');
});

test('a notice of the log, which is in English, is said in the language of the page', () => {
  const german = new Words({ ...table, language: 'de', notices: { ...table.notices, fallback: '{model} springt ein.' } });
  const notice = { code: 'fallback', message: 'Overloaded. other answers instead.', model: 'other' };
  assert.equal(german.state(snapshot({ notice })), 'other springt ein.');
  assert.equal(words.state(snapshot({ notice })), notice.message);
  assert.equal(german.state(snapshot({ notice: { code: 'of_tomorrow', message: 'New.' } })), 'New.');
});

test('a send that failed says what was kept and what to do', () => {
  for (const status of /** @type {any[]} */ ([400, 401, 403, 404, 409, 413, 422, 429, 503])) {
    assert.ok(words.sendFailed(status).includes(table.send.kept), String(status));
  }
});

test('nothing is claimed about a send whose outcome is not known', () => {
  for (const status of /** @type {any[]} */ (['network', 500, 502])) {
    const sentence = words.sendFailed(status);
    assert.ok(sentence.includes(table.send.unknown) && !sentence.includes(table.send.kept), sentence);
    assert.ok(sentence.includes('not be sent twice'), sentence);
  }
});

test('the sentence of the server itself wins where it knows more', () => {
  assert.ok(!words.sendFailed(503, 'connection refused').includes('refused'));
  assert.equal(
    words.sendFailed(413, 'The message has 3 MiB; 1 MiB is the limit.'),
    `The message has 3 MiB; 1 MiB is the limit. ${table.send.kept} ${table.send['413'].next}`,
  );
});

test('what a stop or a refusal to follow says is never empty', () => {
  for (const status of /** @type {any[]} */ (['network', 401, 404, 500, 503])) assert.ok(words.stopFailed(status).length > 40);
  for (const status of [401, 403, 404, 410]) assert.ok(words.refused(status).includes('What is shown stays'));
});

test('values take the places of their names', () => {
  assert.equal(fill('{a} of {b}, {a}', { a: 1, b: 2 }), '1 of 2, 1');
});
