/** A message is sent at most once, however often the person presses Send. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { Outbox } from '../../static/chat/outbox.js';
import { Words } from '../../static/chat/words.js';
import { wordTable } from './ground.js';

const words = new Words(wordTable());
const MESSAGE = { text: 'Hi', on_disconnect: null };
const TAKEN = { status: 202, body: { id: '0-r', question_id: 1, answer_id: 2 }, detail: '' };
const LOST = { status: 'network', body: null, detail: '' };

/** @param {any[]} replies */
function open(...replies) {
  /** @type {any[]} */
  const sent = [];
  const outbox = new Outbox(words, async (url, options) => {
    sent.push({ url, ...options });
    return replies.shift();
  });
  return { outbox, sent, keys: () => sent.map(({ key }) => key) };
}

test('a message that was taken gives the id of its answer', async () => {
  const { outbox, sent } = open(TAKEN);
  const taken = await outbox.send('c1', MESSAGE);
  assert.deepEqual(taken, { id: '0-r', question: 1, answer: 2, status: 202, trouble: '', key: sent[0].key });
  assert.equal(sent[0].url, '/api/chats/c1/messages');
  assert.deepEqual(sent[0].json, MESSAGE);
});

test('the same message after an unknown outcome has the same key', async () => {
  const { outbox, keys } = open(LOST, { status: 503, body: null, detail: '' }, TAKEN);
  for (let i = 0; i < 3; i += 1) await outbox.send('c1', MESSAGE);
  assert.equal(new Set(keys()).size, 1);
});

test('the same words once more after success are a new message', async () => {
  const { outbox, keys } = open(TAKEN, TAKEN);
  await outbox.send('c1', MESSAGE);
  await outbox.send('c1', MESSAGE);
  assert.equal(new Set(keys()).size, 2);
});

test('another text, model or chat has another key', async () => {
  const { outbox, keys } = open(LOST, LOST, LOST, LOST);
  await outbox.send('c1', MESSAGE);
  await outbox.send('c1', { ...MESSAGE, text: 'Ho' });
  await outbox.send('c1', { ...MESSAGE, text: 'Ho', model: 'x' });
  await outbox.send('c2', { ...MESSAGE, text: 'Ho', model: 'x' });
  assert.equal(new Set(keys()).size, 4);
});

test('a refusal is a sentence with the server’s own words in it', async () => {
  const { outbox } = open({ status: 422, body: null, detail: 'There is no model x.' });
  const { id, trouble } = await outbox.send('c1', MESSAGE);
  assert.equal(id, null);
  assert.equal(trouble, words.sendFailed(422, 'There is no model x.'));
});

test('a chat is made for the first message, with the model that was chosen', async () => {
  const { outbox, sent } = open({ status: 201, body: { id: 'c9' }, detail: '' }, LOST);
  assert.deepEqual(await outbox.startChat({ model: 'fast' }), { id: 'c9', status: 201, trouble: '' });
  assert.deepEqual(sent[0], { url: '/api/chats', json: { model: 'fast' } });
  const { trouble } = await outbox.startChat({});
  assert.equal(trouble, words.sendFailed('network'));
});

test('what is put back into the box keeps its key, and what is left to others does not', async () => {
  const { outbox, keys } = open(LOST, LOST, LOST);
  const { key } = await outbox.send('c1', MESSAGE);
  outbox.forget();
  await outbox.send('c1', MESSAGE);
  outbox.takeBack('c1', MESSAGE, key);
  await outbox.send('c1', MESSAGE);
  assert.equal(keys()[2], key);
  assert.notEqual(keys()[1], key);
});
