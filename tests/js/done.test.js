/** What ended while nobody looked: noted once, by one tab, until somebody looks. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { Done, titleWith } from '../../static/chat/done.js';

/** One browser: its storage, and a tab of it. */
function browser() {
  /** @type {Map<string, string>} */
  const items = new Map();
  const store = /** @type {any} */ ({ getItem: (/** @type {string} */ key) => items.get(key) ?? null, setItem: (/** @type {string} */ key, /** @type {string} */ value) => items.set(key, value) });
  /** @param {{chat?: string, looked?: boolean, leads?: boolean}} [how] */
  const tab = ({ chat = '', looked = true, leads = true } = {}) => {
    /** @type {any} */
    const world = { looked, leads, shown: {}, told: [] };
    world.done = new Done({
      chat,
      where: { store, looked: () => world.looked, leads: () => world.leads },
      show: (noted) => (world.shown = noted),
      notify: (change) => world.told.push(change.id),
    });
    world.done.begun(['r1']);
    return world;
  };
  return { tab, items };
}

const change = (/** @type {object} */ more = {}) => /** @type {any} */ ({ id: 'c1', response: 'r1', running: null, status: 'completed', deleted: false, ...more });

test('an end in a chat that nobody looks at is noted, until somebody does', () => {
  const { tab } = browser();
  const home = tab();
  home.done.take(change());
  assert.deepEqual(home.shown, { c1: 'completed' });
  assert.deepEqual(home.told, [], 'somebody looks at a page of the site: the note will do');
  const chat = tab({ chat: 'c1' });
  chat.done.look();
  home.done.look();
  assert.deepEqual([chat.shown, home.shown], [{}, {}]);
});

test('nobody is told what they see, did, never asked for, or what has not ended', () => {
  for (const [how, what] of /** @type {[any, any][]} */ ([
    [{ chat: 'c1' }, {}],
    [{}, { status: 'cancelled' }],
    [{}, { response: 'r2' }],
    [{}, { status: 'in_progress', running: 'r1' }],
    [{}, { response: null, status: null }],
    [{}, { deleted: true, response: null }],
    [{ leads: false }, {}],
  ])) {
    const one = browser().tab(how);
    one.done.take(change(what));
    assert.deepEqual(one.shown, {}, JSON.stringify([how, what]));
  }
});

test('whoever looks away is notified, once', () => {
  const { tab } = browser();
  const away = tab({ chat: 'c1', looked: false });
  away.done.take(change());
  away.done.take(change({ title: 'named later' }));
  assert.deepEqual(away.told, ['c1']);
  away.looked = true;
  away.done.look();
  assert.deepEqual(away.shown, {});
});

test('a chat that is deleted takes its note along, and junk in the storage is none', () => {
  const { tab, items } = browser();
  const one = tab();
  one.done.take(change());
  one.done.take(change({ deleted: true }));
  assert.deepEqual(one.shown, {});
  for (const junk of ['{', 'null', '[1]', '7']) {
    items.set('unbroken.done', junk);
    one.done.look();
    assert.deepEqual(one.shown, {}, junk);
  }
});

test('the number stands in front of the title, once, and a number of its own stays', () => {
  assert.equal(titleWith('Tides', 0, 2), '(2) Tides');
  assert.equal(titleWith('(2) Tides', 2, 1), '(1) Tides');
  assert.equal(titleWith('(1) Tides', 1, 0), 'Tides');
  assert.equal(titleWith('(1984) a year', 0, 0), '(1984) a year');
});
