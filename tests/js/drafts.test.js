/** What is being written is not lost, and nobody else reads it. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { Drafts } from '../../static/chat/drafts.js';
import { FakeStorage } from './storage.js';

const NOTHING = { text: '', attached: [] };
const DRAFT = { text: 'half a sen', attached: [{ name: 'a', text: 'b' }] };
const DAY_MS = 86_400_000;

/** @param {any} store @param {string} [person] @param {string} [place] @param {number} [now] */
const open = (store, person = '1', place = 'c1', now = 0) => new Drafts(store, person, place, () => now);

test('a draft is there again on another page, for the same person at the same place', () => {
  const store = new FakeStorage();
  open(store).keep(DRAFT);
  assert.deepEqual(open(store).read(), DRAFT);
  assert.deepEqual(open(store, '2').read(), NOTHING);
  assert.deepEqual(open(store, '1', 'c2').read(), NOTHING);
});

test('an empty one leaves nothing behind', () => {
  const store = new FakeStorage();
  const drafts = open(store);
  drafts.keep(DRAFT);
  drafts.keep(NOTHING);
  assert.equal(store.length, 0);
});

test('what another page keeps at this place is told, and nothing else', () => {
  const [store, where] = [new FakeStorage(), new EventTarget()];
  /** @type {any[]} */
  const told = [];
  open(store).follow((draft) => told.push(draft), where);
  open(store).keep(DRAFT);
  for (const key of [...store.items.keys(), 'something else']) {
    where.dispatchEvent(Object.assign(new Event('storage'), { key }));
  }
  assert.deepEqual(told, [DRAFT]);
});

test('drafts of chats that nobody came back to go after a month', () => {
  const store = new FakeStorage();
  open(store, '1', 'old', 0).keep(DRAFT);
  open(store, '1', 'new', 20 * DAY_MS).keep(DRAFT);
  store.setItem('not ours', '{}');
  const drafts = open(store, '1', 'new', 31 * DAY_MS);
  assert.deepEqual(drafts.read(), DRAFT);
  assert.deepEqual([...store.items.keys()], ['unbroken.draft:1:new', 'not ours']);
});

test('a browser that forbids storage, is full, or holds nonsense is one without drafts', () => {
  assert.deepEqual(open(null).read(), NOTHING);
  open(null).keep(DRAFT);
  const store = new FakeStorage();
  store.setItem('unbroken.draft:1:c1', '{"text": 1, "at": 0}');
  assert.deepEqual(open(store).read(), NOTHING);
  store.full = true;
  open(store).keep(DRAFT);
});
