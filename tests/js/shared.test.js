/** One line for all tabs: each answer once and in order, whoever leads (PROTOCOL 15.5). */
import assert from 'node:assert/strict';
import test from 'node:test';

import { DEAF_MS, VERSION } from '../../static/chat/shared.js';
import { SILENCE_MS } from '../../static/chat/stream.js';
import { VirtualStream } from '../../static/chat/virtual.js';
import { settle } from './ground.js';
import { Browser } from './tabs.js';

const created = { type: 'created', response_id: 'r', model: 'm', created_at: 'now', schema: 1 };
const started = (epoch = 7) => ({ type: 'started', upstream_model: 'm', attempt: 1, epoch });
const text = (/** @type {string} */ delta) => ({ type: 'text.delta', part: 0, delta });
const ended = (epoch = 7) => ({ type: 'ended', status: 'completed', reason: null, epoch, finish_reason: 'stop', error: null, usage: null, text_sha256: '' });

/** @param {Browser} browser @param {string} id */
function begin(browser, id) {
  browser.server.append(id, created);
  browser.server.append(id, started());
}

test('one tab has one line, for its answer and for changes', async () => {
  const browser = new Browser();
  begin(browser, 'a');
  const tab = browser.open();
  const one = tab.follow('a');
  await browser.pass(100);
  browser.server.append('a', text('Hi'));
  browser.server.append('a', ended());
  await settle();
  assert.deepEqual([one.seqs, one.state], [[1, 2, 3, 4], 'ended']);
  assert.equal(browser.server.lines.size, 1);
  assert.deepEqual([...tab.presence.carriedIds], ['a'], 'its viewer is named, so it has to say when it leaves');
  assert.equal(tab.heard[0].kind, 'changes');
});

test('eight tabs have one line, and a late one gets what is missing, once', async () => {
  const browser = new Browser();
  const tabs = [];
  for (let n = 0; n < 8; n += 1) {
    begin(browser, `r${n}`);
    const tab = browser.open();
    tab.follow(`r${n}`);
    await browser.pass(100);
    browser.server.append(`r${n}`, text('a'));
    await settle();
    tabs.push(tab);
    assert.equal(browser.server.lines.size, 1);
    assert.equal(browser.leaders.length, 1);
    assert.equal(browser.leaders[0], tab, 'the one that is looked at');
  }
  const late = tabs[3].follow('r0');
  await browser.pass(100);
  for (let n = 0; n < 8; n += 1) browser.server.append(`r${n}`, ended());
  await settle();
  tabs.forEach((tab, n) => assert.deepEqual(tab.followed.get(`r${n}`)?.seqs, [1, 2, 3, 4]));
  assert.equal(late.folder.snapshot().text, 'a');
  assert.deepEqual(late.faults, []);
});

test('more answers than a line carries: the rest are asked for by and by, and no line breaks off for them', async () => {
  const browser = new Browser();
  const tab = browser.open();
  const ids = Array.from({ length: 40 }, (_, n) => `r${n}`);
  const all = ids.map((id) => {
    begin(browser, id);
    return tab.follow(id);
  });
  await browser.pass(100);
  for (const id of ids) browser.server.append(id, text('a'));
  await settle();
  const texts = () => all.filter((one) => one.folder.snapshot().text === 'a').length;
  assert.equal(texts(), 32, 'as many as one line carries are live');
  await browser.pass(60_000);
  assert.equal(texts(), 40, 'the others are seen to grow');
  assert.equal(browser.server.lines.size, 1);
  assert.ok(browser.server.asked.filter((url) => url.pathname === '/api/events').length <= 3, 'nobody who waits makes it open anew');
  for (const id of ids) browser.server.append(id, ended());
  await browser.pass(60_000);
  assert.deepEqual([...new Set(all.map((one) => one.state))], ['ended']);
  for (const one of all) assert.deepEqual(one.faults, []);
});

test('a late tab goes on from its own page, and the others hear nothing of it', async () => {
  const browser = new Browser();
  begin(browser, 'a');
  const page = browser.server.snapshot('a');
  const tabs = [browser.open(), browser.open()];
  const early = tabs.map((tab) => tab.follow('a'));
  await browser.pass(100);
  for (let n = 0; n < 5; n += 1) browser.server.append('a', text(`${n}`));
  await settle();
  const late = browser.open(false).follow('a', page);
  browser.server.append('a', text('5')); // on its way when the late one asks
  await browser.pass(100);
  browser.server.append('a', ended());
  await settle();
  for (const one of early) assert.deepEqual(one.seqs, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.deepEqual(late.seqs, [3, 4, 5, 6, 7, 8, 9]);
  const asked = browser.server.asked.flatMap((url) => url.searchParams.getAll('follow'));
  assert.deepEqual(asked.filter((want) => want.endsWith('snapshot')), [], 'nobody had to start anew');
});

test('a part of a line takes what follows on what it has, from the line that has said yes to it', async () => {
  const stream = new VirtualStream('a', { epoch: 7, seq: 3 }, undefined, () => {});
  const frame = (/** @type {number} */ seq) => ({ kind: /** @type {const} */ ('frame'), id: 'a', seq, epoch: null, text: `${seq} ` });
  const verdict = (/** @type {any} */ from) => ({ kind: /** @type {const} */ ('verdict'), id: 'a', status: 200, from });
  stream.take('x.1', frame(4));
  for (const from of [{ epoch: 7, seq: 5 }, { epoch: 9, seq: 2 }, { epoch: 0, seq: 0 }]) stream.take('x.1', verdict(from));
  stream.take('x.1', frame(6));
  stream.take('x.2', verdict({ epoch: 7, seq: 2 }));
  for (const [line, seq] of /** @type {[string, number][]} */ ([['x.2', 3], ['x.1', 4], ['x.2', 4], ['x.2', 4], ['x.2', 5]])) stream.take(line, frame(seq));
  stream.take('x.2', { kind: 'closed', id: 'a' });
  assert.equal(await (await stream.response).text(), '4 5 ');
});

for (const how of /** @type {const} */ (['close', 'freeze'])) {
  test(`a leader that ${how}s hands over at once, with nothing lost or repeated`, async () => {
    const browser = new Browser();
    begin(browser, 'a');
    const first = browser.open(false);
    const one = first.follow('a');
    await browser.pass(100);
    const leader = browser.open();
    await browser.pass(100);
    assert.deepEqual(browser.leaders, [leader]);
    browser.server.append('a', text('1'));
    await settle();
    leader[how]();
    await settle();
    assert.deepEqual(browser.leaders, [first]);
    browser.server.append('a', text('2'));
    await browser.pass(100);
    assert.deepEqual(one.seqs, [1, 2, 3, 4]);
    assert.equal(one.state, 'live', 'the answer has not noticed');
  });
}

test('a leader that hears nothing is replaced by a tab that is looked at', async () => {
  const browser = new Browser();
  begin(browser, 'a');
  void browser.locks?.request(`unbroken.line.${VERSION}`, {}, () => new Promise(() => {})).catch(() => {}); // hung
  const tab = browser.open(false);
  const one = tab.follow('a');
  await browser.pass(10 * DEAF_MS);
  assert.deepEqual(one.seqs, [], 'nobody looks at it');
  tab.visible = true;
  tab.follow('a').follower.close();
  const again = tab.follow('a');
  await browser.pass(DEAF_MS + 200);
  assert.ok(tab.shared.leads);
  assert.deepEqual(again.seqs, [1, 2]);
  assert.deepEqual(one.seqs, [1, 2]);
});

test('without locks or channels each tab has a line of its own', async () => {
  for (const missing of ['locks', 'channels']) {
    const browser = new Browser();
    /** @type {any} */ (browser)[missing] = null;
    begin(browser, 'a');
    const tabs = [browser.open(), browser.open(false)];
    const both = tabs.map((tab) => tab.follow('a'));
    await browser.pass(100);
    browser.server.append('a', ended());
    await settle();
    for (const one of both) assert.deepEqual(one.seqs, [1, 2, 3]);
  }
});

test('what is refused is told to whoever follows, and to nobody else', async () => {
  const browser = new Browser();
  begin(browser, 'a');
  const tab = browser.open();
  const [gone, one] = [tab.follow('nothing'), tab.follow('a')];
  await browser.pass(100);
  assert.equal(gone.state, 'refused');
  assert.equal(one.state, 'live');
});

test('who was signed out is told, and nobody goes on asking', async () => {
  const browser = new Browser();
  begin(browser, 'a');
  const tab = browser.open();
  browser.server.faults = [401, 401, 401];
  const one = tab.follow('a');
  await browser.pass(500);
  assert.equal(one.state, 'refused');
  await browser.pass(100_000);
  assert.equal(browser.server.asked.length, 1);
});

test('a line that falls silent is given up; one that pings is not', async () => {
  const browser = new Browser();
  begin(browser, 'a');
  const tab = browser.open();
  const one = tab.follow('a');
  await browser.pass(100);
  for (let beat = 0; beat < 8; beat += 1) {
    await browser.pass(15_000);
    for (const line of browser.server.lines) line.connection.send(': ping\n');
    await settle();
  }
  assert.equal(browser.server.asked.length, 1);
  assert.equal(one.state, 'live');
  await browser.pass(SILENCE_MS + 3_000);
  assert.ok(browser.server.asked.length > 1);
});

test('a network that has changed is not trusted, and nobody is told twice', async () => {
  const browser = new Browser();
  begin(browser, 'a');
  const tab = browser.open();
  const one = tab.follow('a');
  await browser.pass(100);
  one.follower.wake({ networkChanged: true });
  tab.shared.networkChanged();
  await browser.pass(10);
  assert.equal(browser.server.asked.length, 2);
  assert.equal(browser.server.lines.size, 1);
  browser.server.append('a', ended());
  await settle();
  assert.deepEqual(one.seqs, [1, 2, 3]);
});

test('changes are asked for again from where they were, also when nothing is followed', async () => {
  const browser = new Browser();
  browser.open();
  await browser.pass(100);
  browser.server.cut();
  await browser.pass(3_000);
  assert.equal(browser.server.asked.at(-1)?.searchParams.get('changes'), '1000');
});

/** Numbers that a seed decides. @param {number} seed */
function dice(seed) {
  let state = seed * 2654435761 + 1;
  return (/** @type {number} */ sides) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 0x9e3779b9) | 0;
    return Math.abs(state ^ (state >>> 13)) % sides;
  };
}

/** What may happen, at any moment. @type {Record<string, (browser: Browser, roll: (sides: number) => number) => void>} */
const happens = {
  write: ({ server }, roll) => {
    const id = `r${roll(3)}`;
    if (server.logs.get(id)?.events.at(-1)?.type !== 'ended') server.append(id, text(`${roll(10)}`));
  },
  openTab: (browser, roll) => {
    if (browser.tabs.size >= 5) return;
    const id = `r${roll(3)}`;
    browser.open(roll(3) > 0).follow(id, browser.server.snapshot(id));
  },
  openTabFromNothing: (browser, roll) => browser.tabs.size < 5 && browser.open(roll(3) > 0).follow(`r${roll(3)}`),
  closeTab: (browser, roll) => browser.tabs.size > 1 && pick(browser, roll).close(),
  freeze: (browser, roll) => pick(browser, roll).freeze(),
  thaw: (browser) => browser.tabs.forEach((tab) => tab.thaw()),
  show: (browser, roll) => pick(browser, roll).show(),
  cut: ({ server }) => server.cut(),
  refuse: ({ server }, roll) => server.faults.push(roll(2) ? 503 : 'broken'),
  network: (browser, roll) => {
    const tab = pick(browser, roll);
    for (const { follower } of tab.followed.values()) follower.wake({ networkChanged: true });
    tab.shared.networkChanged();
  },
  lose: ({ server }, roll) => {
    const id = `r${roll(3)}`;
    const log = server.logs.get(id);
    if (!log || log.events.at(-1)?.type === 'ended') return;
    server.lose(id, roll(3), log.epoch + 1);
    server.append(id, started(log.epoch));
  },
};

/** Different histories meet on one line. */
const NEEDS_SNAPSHOT = new Set(['openTabFromNothing', 'lose']);

/** @param {Browser} browser @param {(sides: number) => number} roll */
function pick(browser, roll) {
  return [...browser.tabs][roll(browser.tabs.size)];
}

test('whatever happens in whichever order, every tab ends with each answer whole', async () => {
  for (let seed = 1; seed <= 150; seed += 1) {
    const calm = seed % 2 === 0;
    const names = Object.keys(happens).filter((name) => !(calm && NEEDS_SNAPSHOT.has(name)));
    const roll = dice(seed);
    const browser = new Browser();
    browser.clock.randomValue = 0.3;
    for (let n = 0; n < 3; n += 1) begin(browser, `r${n}`);
    browser.open().follow('r0', browser.server.snapshot('r0'));
    const story = [];
    for (let step = 0; step < 40; step += 1) {
      const name = roll(2) ? 'write' : names[roll(names.length)];
      story.push(name);
      happens[name](browser, roll);
      if (roll(3) === 0) await browser.pass(roll(2_000));
      else if (roll(2)) await settle();
    }
    browser.server.faults = [];
    for (const tab of browser.tabs) tab.thaw();
    for (const [id, log] of browser.server.logs) browser.server.append(id, ended(log.epoch));
    await browser.pass(90_000);
    const told = `seed ${seed}: ${story.join(' ')}`;
    assert.ok(browser.server.lines.size <= 1, `${browser.server.lines.size} lines, ${told}`);
    assert.equal(browser.leaders.length, 1, told);
    if (calm) assert.ok(!browser.server.asked.some((url) => /snapshot/.test(url.search)), told);
    for (const tab of browser.tabs) {
      for (const [id, one] of tab.followed) {
        assert.deepEqual(one.faults, [], told);
        assert.equal(one.state, 'ended', `${id}, ${told}`);
        assert.equal(one.folder.snapshot().text, browser.server.snapshot(id).text, `${id}, ${told}`);
      }
    }
  }
});
