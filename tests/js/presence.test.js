/** Somebody is still there: said for every running answer of this browser, by every open page. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { Presence, Remembered } from '../../static/chat/presence.js';
import { FakeClock, settle } from './ground.js';

class FakeStorage {
  /** @type {Map<string, string>} */
  #items = new Map();
  getItem(/** @type {string} */ key) {
    return this.#items.get(key) ?? null;
  }
  setItem(/** @type {string} */ key, /** @type {string} */ value) {
    this.#items.set(key, value);
  }
}

/** @param {any} [storage] */
function open(storage = new FakeStorage()) {
  const clock = new FakeClock();
  /** @type {any} */
  const world = { asked: [], left: [], ended: [], status: 'in_progress', code: 200 };
  const presence = new Presence(new Remembered(storage), (id) => world.ended.push(id), {
    get: async (url) => {
      world.asked.push(url);
      return { status: world.code, body: { status: world.status }, detail: '' };
    },
    post: async (url, options) => {
      world.left.push([url, options]);
      return { status: 204, body: null, detail: '' };
    },
    setTimeout: clock.setTimeout,
    clearTimeout: clock.clearTimeout,
  });
  return { storage, clock, world, presence };
}

test('another page of the site keeps the answer present, at once and every 15 s', async () => {
  const chat = open();
  chat.presence.follow('0-a');
  const other = open(chat.storage);
  other.presence.start();
  await settle();
  assert.deepEqual(other.world.asked, [`/api/responses/0-a?viewer=${other.presence.viewer}`]);
  await other.clock.advance(15_000);
  assert.equal(other.world.asked.length, 2);
  assert.notEqual(other.presence.viewer, chat.presence.viewer);
});

test('an answer that the page follows counts by its stream', async () => {
  const { presence, world } = open();
  presence.follow('0-a');
  presence.start();
  await settle();
  assert.deepEqual(world.asked, []);
});

test('an answer that ended, or is not ours any more, is forgotten everywhere', async () => {
  for (const change of [{ status: 'completed' }, { code: 404, status: undefined }]) {
    const { storage, presence, world, clock } = open();
    new Remembered(storage).add('0-a');
    Object.assign(world, change);
    presence.start();
    await settle();
    await clock.advance(15_000);
    assert.equal(world.asked.length, 1);
    assert.deepEqual(new Remembered(storage).all(), []);
    assert.deepEqual(world.ended, ['0-a']);
  }
});

test('a lost connection forgets nothing', async () => {
  const { storage, presence, world, clock } = open();
  new Remembered(storage).add('0-a');
  world.code = 'network';
  world.status = undefined;
  presence.start();
  await clock.advance(15_000);
  assert.equal(world.asked.length, 2);
});

test('a page that goes says so for its own viewer, in a request that outlives it', async () => {
  const { storage, presence, world, clock } = open();
  new Remembered(storage).add('0-other');
  presence.follow('0-a');
  presence.start();
  await settle();
  const { viewer } = presence;
  presence.leave();
  assert.deepEqual(world.left.map((/** @type {any} */ [url]) => url).sort(), ['/api/responses/0-a/leave', '/api/responses/0-other/leave']);
  for (const [, options] of world.left) assert.deepEqual(options, { json: { viewer }, keepalive: true });
  assert.deepEqual(clock.pending, []);
  assert.deepEqual(new Remembered(storage).all(), ['0-other', '0-a'], 'the next page keeps them present');
});

test('a page that comes back from the cache is a new viewer: its late leave cannot remove it', async () => {
  const { storage, presence, world } = open();
  new Remembered(storage).add('0-a');
  presence.start();
  await settle();
  const { viewer } = presence;
  presence.leave();
  presence.start();
  await settle();
  assert.notEqual(presence.viewer, viewer);
  assert.ok(world.asked.at(-1).endsWith(presence.viewer));
});

test('start twice is one heartbeat', async () => {
  const { storage, presence, world, clock } = open();
  new Remembered(storage).add('0-a');
  presence.start();
  presence.start();
  await settle();
  assert.equal(world.asked.length, 1);
  assert.equal(clock.pending.length, 1);
});

test('a browser that forbids storage still knows this page', () => {
  const forbidden = {
    getItem() {
      throw new Error('forbidden');
    },
    setItem() {
      throw new Error('forbidden');
    },
  };
  for (const store of [null, forbidden]) {
    const remembered = new Remembered(/** @type {any} */ (store));
    remembered.add('0-a');
    assert.deepEqual(remembered.all(), ['0-a']);
    remembered.remove('0-a');
    assert.deepEqual(remembered.all(), []);
  }
});

test('what others wrote into the storage cannot break the page, nor grow for ever', () => {
  for (const junk of ['{', 'null', '{"a":1}', '7']) {
    const storage = new FakeStorage();
    storage.setItem('unbroken.running', junk);
    const remembered = new Remembered(/** @type {any} */ (storage));
    assert.deepEqual(remembered.all(), [], junk);
  }
  const storage = new FakeStorage();
  for (let i = 0; i < 50; i += 1) new Remembered(/** @type {any} */ (storage)).add(`0-${i}`);
  assert.equal(new Remembered(/** @type {any} */ (storage)).all().length, 20);
});
