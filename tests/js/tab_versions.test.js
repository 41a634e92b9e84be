/** A tab that was open before a deploy and one that was opened after it, in one browser (PROTOCOL 15.6). */
import assert from 'node:assert/strict';
import test from 'node:test';

import { VERSION } from '../../static/chat/shared.js';
import { Outbox } from '../../static/chat/outbox.js';
import { Unsent } from '../../static/chat/unsent.js';
import { Words } from '../../static/chat/words.js';
import { fixture, settle, wordTable } from './ground.js';
import { FakeStorage } from './storage.js';
import { Browser } from './tabs.js';

const created = { type: 'created', response_id: 'r', model: 'm', created_at: 'now', schema: 1 };
const started = { type: 'started', upstream_model: 'm', attempt: 1, epoch: 7 };
const ended = { type: 'ended', status: 'completed', reason: null, epoch: 7, finish_reason: 'stop', error: null, usage: null, text_sha256: '' };
const text = (/** @type {string} */ delta) => ({ type: 'text.delta', part: 0, delta });

test('tabs of two versions have a line each, and whatever one says harms no other', async () => {
  const browser = new Browser();
  for (const event of [created, started]) browser.server.append('a', event);
  const old = browser.open(true, VERSION).follow('a');
  await browser.pass(100);
  const fresh = browser.open(true, VERSION + 1).follow('a');
  await browser.pass(100);
  assert.equal(browser.leaders.length, 2);
  // 'unbroken.line': of before there was a number.
  for (const name of ['unbroken.line', `unbroken.line.${VERSION + 2}`]) {
    const other = browser.channels?.open(name);
    for (const message of [null, 7, {}, { kind: 'said' }, { kind: 'lost', status: 401 }, { kind: 'want' }]) other.postMessage(message);
  }
  const [oldTab, newTab] = browser.tabs;
  oldTab.close(); // the newer one's line goes on
  const again = browser.open(false, VERSION).follow('a');
  browser.server.append('a', text('Hi'));
  browser.server.append('a', ended);
  await browser.pass(2_000);
  for (const one of [fresh, again]) assert.deepEqual([one.seqs, one.state, one.faults], [[1, 2, 3, 4], 'ended', []]);
  assert.deepEqual(old.seqs, [1, 2]);
  assert.ok(newTab.shared.leads);
});

test('what tabs say has not changed without the number in its name', async () => {
  const browser = new Browser();
  for (const event of [created, started]) browser.server.append('a', event);
  browser.open().follow('a');
  await browser.pass(100);
  browser.open().follow('a');
  await browser.pass(100);
  browser.open(false).follow('b'); // no such answer
  await browser.pass(100);
  browser.server.append('a', text('Hi'));
  browser.server.lose('a', 1, 8);
  browser.server.append('a', ended);
  await settle();
  browser.server.faults = [503];
  browser.server.cut();
  await browser.pass(10_000);
  const said = /** @type {any} */ (browser.channels).said;
  /** @type {Record<string, string[]>} */
  const shapes = {};
  /** @param {string} name @param {any} thing */
  const note = (name, thing) => (shapes[name] = [...new Set([...(shapes[name] ?? []), ...Object.keys(thing)])].sort());
  for (const message of said) {
    note(message.kind, message);
    for (const item of message.items ?? []) {
      note(`said ${item.kind}`, item);
      if (item.from) note('from', item.from);
    }
    if (message.cursor) note('cursor', message.cursor);
  }
  assert.deepEqual({ version: VERSION, ...shapes }, fixture('tabs.json'), 'raise VERSION of shared.js, and write the new shapes down');
});

test('what a later version keeps for messages that wait is left to it', async () => {
  const later = [{ key: 'k0', to: { chat: 'c1' }, body: 'in another shape' }, { key: 'k1', v: 2 }];
  const store = new FakeStorage();
  store.setItem('unbroken.unsent:1', JSON.stringify(later));
  const words = new Words(wordTable());
  const taken = { status: /** @type {const} */ (202), body: { id: '0-r', question_id: 1, answer_id: 2 }, detail: '' };
  const outbox = new Outbox(words, async () => taken);
  /** @type {string[]} */
  const sent = [];
  const alone = async (/** @type {string} */ _, /** @type {() => Promise<void>} */ work) => work();
  const world = { setTimeout: () => 0, clearTimeout: () => {}, alone };
  const unsent = new Unsent({ store, person: '1', outbox, words, changed: () => {}, sent: ({ key }) => sent.push(key) }, world);
  const mine = { chat: 'c1', settings: {}, message: { text: 'mine' }, draft: { text: 'mine', attached: [] }, tried: 0, trouble: '' };
  unsent.add({ key: 'mine', ...mine });
  unsent.add({ key: 'not mine', ...mine });
  assert.equal(unsent.remove('not mine')?.key, 'not mine');
  await unsent.flush();
  assert.deepEqual(sent, ['mine']);
  assert.deepEqual(JSON.parse(store.getItem('unbroken.unsent:1') ?? ''), later);
  store.setItem('unbroken.unsent:1', '{"v": 3}');
  unsent.add({ key: 'mine', ...mine });
  await unsent.flush();
  assert.deepEqual(sent, ['mine', 'mine']);
  assert.equal(store.getItem('unbroken.unsent:1'), '{"v": 3}');
});
