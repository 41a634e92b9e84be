/** A message of a dead network is sent when there is one: once, in its order, whatever happens between. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { Outbox } from '../../static/chat/outbox.js';
import { Unsent } from '../../static/chat/unsent.js';
import { Words } from '../../static/chat/words.js';
import { FakeClock, wordTable } from './ground.js';
import { FakeStorage } from './storage.js';

const words = new Words(wordTable());
const LOST = { status: 'network', body: null, detail: '' };
const TAKEN = { status: 202, body: { id: '0-r', question_id: 1, answer_id: 2 }, detail: '' };
const BEGUN = { status: 201, body: { id: 'c9' }, detail: '' };
const DAY_MS = 86_400_000;

/** @param {any} [options] */
function open({ store = new FakeStorage(), clock = new FakeClock(), replies = [], alone = run } = {}) {
  /** @type {any} */
  const world = { store, clock, posts: [], sent: [], replies };
  const outbox = new Outbox(words, async (url, options) => {
    world.posts.push({ url, ...options });
    const reply = world.replies.shift() ?? LOST;
    return typeof reply === 'function' ? reply() : reply;
  });
  const sent = (/** @type {any} */ entry, /** @type {any} */ to) => world.sent.push([entry.message.text, entry.chat, to.id]);
  const { now, setTimeout, clearTimeout } = clock;
  const changed = () => {};
  world.unsent = new Unsent({ store, person: '1', outbox, words, changed, sent }, { now, setTimeout, clearTimeout, alone });
  world.keys = () => world.posts.map((/** @type {any} */ post) => post.key).filter(Boolean);
  return world;
}

/** @param {string} _ @param {() => Promise<void>} work */
async function run(_, work) {
  await work();
}

/** @param {string} key @param {any} [more] */
function entry(key, more = {}) {
  return { key, chat: 'c1', settings: {}, message: { text: key }, draft: { text: key, attached: [] }, tried: 0, trouble: '', ...more };
}

test('they are sent in their order with the keys of their first attempts', async () => {
  const page = open({ replies: [LOST, TAKEN, TAKEN] });
  page.unsent.add(entry('one'));
  page.unsent.add(entry('two'));
  await page.unsent.flush();
  assert.deepEqual(page.keys(), ['one'], 'what comes later does not overtake');
  await page.unsent.flush();
  assert.deepEqual(page.keys(), ['one', 'one', 'two']);
  assert.deepEqual(page.sent, [['one', 'c1', '0-r'], ['two', 'c1', '0-r']]);
  assert.equal(page.store.length, 0);
});

test('after a reload, or by another page, they are sent all the same', async () => {
  const first = open();
  first.unsent.add(entry('one'));
  const second = open({ store: first.store, replies: [TAKEN] });
  await second.unsent.flush();
  assert.deepEqual(second.keys(), ['one']);
  await first.unsent.flush();
  assert.deepEqual(first.keys(), []);
});

test('a page that comes second leaves them to the first', async () => {
  const page = open({ alone: async () => {}, replies: [TAKEN] });
  page.unsent.add(entry('one'));
  await page.unsent.flush();
  assert.deepEqual(page.keys(), []);
});

test('it is tried again, ever more slowly, without anybody doing anything', async () => {
  const page = open({ replies: [LOST, LOST, { status: 503, body: null, detail: '' }, TAKEN] });
  page.unsent.add(entry('one'));
  await page.clock.advance(60_000);
  assert.equal(page.keys().length, 4);
  assert.equal(page.sent.length, 1);
  assert.deepEqual(page.clock.pending, []);
});

test('one that begins a chat begins one chat, also if its message is lost then', async () => {
  const page = open({ replies: [LOST, BEGUN, LOST, TAKEN] });
  page.unsent.add(entry('one', { chat: null, settings: { double_text: 'queue' } }));
  for (let n = 0; n < 3; n += 1) await page.unsent.flush();
  assert.deepEqual(page.posts.map(({ url }) => url), ['/api/chats', '/api/chats', '/api/chats/c9/messages', '/api/chats/c9/messages']);
  assert.deepEqual(page.posts[0].json, { double_text: 'queue' });
  assert.deepEqual(page.sent, [['one', 'c9', '0-r']]);
});

test('a store that is full meanwhile loses no message and begins no second chat', async () => {
  const page = open({ replies: [BEGUN, LOST, TAKEN, TAKEN] });
  page.unsent.add(entry('one', { chat: null }));
  page.unsent.add(entry('two'));
  page.store.full = true;
  await page.unsent.flush();
  assert.deepEqual(page.unsent.all().map(({ key }) => key).toSorted(), ['one', 'two']);
  for (let n = 0; n < 3; n += 1) await page.unsent.flush();
  assert.deepEqual(page.posts.filter(({ url }) => url === '/api/chats').length, 1);
  assert.deepEqual(page.sent.map(([text]) => text).toSorted(), ['one', 'two']);
  assert.deepEqual(new Set(page.keys()), new Set(['one', 'two']));
  assert.deepEqual(page.unsent.all(), []);
});

test('one that was taken back is not sent', async () => {
  const page = open({ replies: [TAKEN] });
  page.unsent.add(entry('one'));
  page.unsent.add(entry('two'));
  assert.equal(page.unsent.remove('one').message.text, 'one');
  await page.unsent.flush();
  assert.deepEqual(page.keys(), ['two']);
  assert.equal(page.unsent.remove('one'), undefined);
});

test('a refusal stays with its reason, and the next one goes on', async () => {
  const page = open({ replies: [{ status: 404, body: null, detail: '' }, TAKEN] });
  page.unsent.add(entry('one'));
  page.unsent.add(entry('two'));
  await page.unsent.flush();
  assert.deepEqual(page.unsent.all().map(({ key, trouble }) => [key, trouble]), [['one', words.sendFailed(404)]]);
  await page.unsent.flush();
  assert.deepEqual(page.keys(), ['one', 'two'], 'it is not tried again by itself');
});

test('a key that the server may have forgotten is not used again', async () => {
  const page = open({ replies: [LOST, TAKEN, TAKEN] });
  page.unsent.add(entry('one'));
  await page.unsent.flush();
  page.unsent.add(entry('two'));
  page.clock.nowMs += DAY_MS;
  await page.unsent.flush();
  assert.deepEqual(page.keys(), ['one', 'two'], 'one that was never on its way is sent');
  assert.equal(page.unsent.all()[0].trouble, words.table.unsent.old);
});

test('without storage they wait in the page', async () => {
  for (const store of [null, Object.assign(new FakeStorage(), { full: true })]) {
    const page = open({ store, replies: [TAKEN] });
    page.unsent.add(entry('one'));
    assert.equal(page.unsent.all().length, 1);
    await page.unsent.flush();
    assert.deepEqual(page.keys(), ['one']);
    assert.deepEqual(page.unsent.all(), []);
  }
});

test('one that is removed while it is on its way stays removed', async () => {
  const page = open({ replies: [] });
  page.unsent.add(entry('one'));
  page.replies.push(() => {
    page.unsent.remove('one');
    return LOST;
  });
  await page.unsent.flush();
  assert.deepEqual(page.unsent.all(), []);
});

test('what is kept there and is no message stops nothing', () => {
  const store = new FakeStorage();
  const odd = [null, 1, 'x', {}, ['a'], { key: 'k', chat: null, message: null, trouble: '' }, { ...entry('k1'), message: { text: 5 } }];
  store.setItem('unbroken.unsent:1', JSON.stringify([...odd, entry('k2')]));
  const { unsent } = open({ store });
  assert.deepEqual(unsent.all().map(({ key }) => key), ['k2']);
  unsent.start(new EventTarget());
});
