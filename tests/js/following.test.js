/** One answer from the network to the eyes and ears of a person. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { AnswerView } from '../../static/chat/answer.js';
import { Following, differs } from '../../static/chat/following.js';
import { emptySnapshot } from '../../static/chat/fold.js';
import { Words } from '../../static/chat/words.js';
import { FakeScreen, answerElement } from './dom.js';
import { settle, until, wordTable } from './ground.js';
import { CREATED, STARTED, ended, ground, text } from './server.js';

const words = new Words(wordTable());
const SHA_HI = '3639efcd08abb273b1619e82e78c29a7df02c1051b1820e99fc395dcaa3326b8';

function follow() {
  const { clock, server, env } = ground();
  const element = answerElement();
  const screen = new FakeScreen();
  const view = new AnswerView(element, { words, screen });
  /** @type {any} */
  const seen = { said: [], alerts: [], ends: 0, asked: [], replies: [] };
  const ask = async (/** @type {string} */ url) => {
    seen.asked.push(url);
    return seen.replies.shift() ?? { status: 'network', body: null, detail: '' };
  };
  const following = new Following({
    id: '0-r',
    view,
    words,
    viewer: 'v1',
    announce: (sentence, atOnce) => seen[atOnce ? 'alerts' : 'said'].push(sentence),
    onEnd: () => (seen.ends += 1),
    env,
    http: { get: ask, post: ask },
  });
  const part = (/** @type {string} */ name) => {
    screen.paint();
    return element.querySelector(`[data-part="${name}"]`);
  };
  return { clock, server, following, seen, part, element, view };
}

test('boundaries are said aloud, words are not', async () => {
  const { server, following, seen, part } = follow();
  server.stream(CREATED + STARTED + text(3, 'Hi') + ended(4, 'completed', SHA_HI));
  following.start();
  await settle();
  assert.deepEqual(seen.said, [words.table.announce.started, 'The answer is complete, 1 words.']);
  assert.equal(part('text').textContent, 'Hi');
  assert.equal(seen.ends, 1);
  assert.deepEqual(seen.asked, [], 'the text is what was generated: nothing to ask');
});

for (const [status, reason, alert] of /** @type {[string, string | null, boolean][]} */ ([
  ['failed', 'server_error', true],
  ['failed', 'authentication', true],
  ['interrupted', 'worker_lost', true],
  ['incomplete', 'max_tokens', false],
  ['cancelled', 'user', false],
])) {
  test(`the end ${status} (${reason}) is heard ${alert ? 'at once' : 'at the next pause'}, once`, async () => {
    const { server, following, seen } = follow();
    server.stream(CREATED + STARTED + text(3, 'Hi') + ended(4, status, SHA_HI, reason));
    following.start();
    await settle();
    const said = [...seen.said.slice(1), ...seen.alerts];
    const { label } = words.table.ends[status][reason ?? '*'];
    assert.equal(said.length, 1);
    assert.ok(said[0].startsWith(`${label}. `), said[0]);
    assert.equal(seen.alerts.length, alert ? 1 : 0);
  });
}

test('an answer without a word is heard at once: somebody has to ask again', async () => {
  const { server, following, seen } = follow();
  server.stream(CREATED + STARTED + ended(3, 'completed', ''));
  following.start();
  await settle();
  assert.deepEqual(seen.alerts.length, 1);
});

test('a long answer is said to go on every 15 s, until it has ended', async () => {
  const { server, following, seen, clock } = follow();
  const connection = server.stream(CREATED + STARTED);
  following.start();
  await settle();
  await clock.advance(15_000);
  connection.send(': ping\n');
  await settle();
  await clock.advance(15_000);
  assert.deepEqual(seen.said.slice(1), [words.table.announce.still, words.table.announce.still]);
  connection.send(ended(3, 'cancelled'));
  await settle();
  assert.deepEqual(clock.pending, []);
});

test('a text that is not what was generated is replaced by what was', async () => {
  const { server, following, seen, part } = follow();
  server.stream(CREATED + STARTED + text(3, 'Hx') + ended(4, 'completed', SHA_HI));
  seen.replies.push({ status: 200, body: { ...emptySnapshot(), status: 'completed', text: 'Hi', seq: 4, text_sha256: SHA_HI } });
  following.start();
  await until(() => seen.asked.length, 'the hash to differ and the snapshot to be asked for');
  await settle();
  assert.deepEqual(seen.asked, ['/api/responses/0-r']);
  assert.equal(part('text').textContent, 'Hi');
});

test('a connection that is back at once is not worth a word; a longer loss is said and taken back', async () => {
  const { server, following, seen, clock, part } = follow();
  clock.randomValue = 0.5;
  const first = server.stream(CREATED + STARTED + text(3, 'Hi'));
  following.start();
  await settle();
  first.close();
  await settle();
  server.hang();
  await clock.advance(700);
  assert.equal(part('state').textContent, words.table.connection.waiting);
  assert.equal(part('text').textContent, 'Hi', 'what was shown stays');
  server.stream(text(4, '!'));
  following.wake({ networkChanged: true });
  await settle();
  assert.equal(part('state').textContent, words.table.state.writing);
  assert.deepEqual(seen.said.slice(1), [words.table.announce.lost, words.table.announce.back]);
});

test('a clean close with an immediate return is silent', async () => {
  const { server, following, seen, clock } = follow();
  clock.randomValue = 0.1;
  const first = server.stream(CREATED + STARTED);
  following.start();
  await settle();
  first.close();
  await settle();
  server.stream(text(3, 'Hi'));
  await clock.advance(100);
  await clock.advance(5_000);
  assert.deepEqual(seen.said, [words.table.announce.started]);
});

test('what can no longer be followed is said, and the box is free again', async () => {
  const { server, following, seen, part, element } = follow();
  server.answer(401);
  following.start();
  await settle();
  assert.equal(part('state').textContent, words.table.connection['401']);
  assert.equal(seen.ends, 1);
  assert.ok(element.hasAttribute('data-unfollowed'));
});

test('a stop is said at once, and the end comes by the stream', async () => {
  const { server, following, seen, part } = follow();
  const connection = server.stream(CREATED + STARTED + text(3, 'Hi'));
  following.start();
  await settle();
  seen.replies.push({ status: 202, body: { cancelling: true } });
  const stopped = following.stop();
  assert.equal(part('state').textContent, words.table.state.stopping);
  assert.equal(await stopped, '');
  assert.deepEqual(seen.asked, ['/api/responses/0-r/cancel']);
  connection.send(ended(4, 'cancelled', SHA_HI).replace('"reason":null', '"reason":"user"'));
  await settle();
  assert.ok(part('sentence').textContent.startsWith('You stopped this answer. What was written is kept.'));
});

test('a stop works while the stream is lost: its answer is the end', async () => {
  const { server, following, seen, part, clock } = follow();
  server.breakOff();
  following.start();
  await settle();
  const body = { ...emptySnapshot(), status: 'cancelled', reason: 'user', text: 'Hi', seq: 4, text_sha256: SHA_HI };
  seen.replies.push({ status: 200, body });
  assert.equal(await following.stop(), '');
  await settle();
  assert.equal(part('text').textContent, 'Hi');
  assert.equal(part('end').hidden, false);
  assert.equal(seen.ends, 1);
  assert.deepEqual(clock.pending, [], 'nobody goes on reconnecting');
});

test('a stop that could not be stored is not called stopped', async () => {
  const { server, following, seen, part } = follow();
  server.stream(CREATED + STARTED + text(3, 'Hi'));
  following.start();
  await settle();
  seen.replies.push({ status: 503, body: null });
  assert.equal(await following.stop(), words.stopFailed(503));
  assert.equal(part('state').textContent, words.table.state.writing);
  assert.equal(seen.ends, 0);
});

test('a page that is put away lets go, and comes back as a new viewer from where it was', async () => {
  const { server, following, clock, seen } = follow();
  const first = server.stream(CREATED + STARTED + text(3, 'Hi'));
  following.start();
  await settle();
  following.suspend();
  await settle();
  assert.equal(first.open, false);
  assert.deepEqual(clock.pending, []);
  server.stream(ended(4, 'completed', SHA_HI));
  following.resume('v2');
  await settle();
  assert.deepEqual([server.sent().viewer, server.sent().last, server.sent().epoch], ['v2', '3', '7']);
  assert.equal(seen.ends, 1);
});

test('an ended answer that comes back from the cache asks for nothing', async () => {
  const { server, following } = follow();
  server.stream(CREATED + ended(2, 'cancelled'));
  following.start();
  await settle();
  following.suspend();
  following.resume('v2');
  await settle();
  assert.equal(server.requests.length, 1);
});

test('the hash is over the UTF-8 of the text', async () => {
  const naive = '7ffe2fa2ea744531b1a36cf9a7457c0398152d1efe4829ea8107ecfbc74f1742';
  assert.equal(await differs(/** @type {any} */ ({ text: 'Hi', text_sha256: SHA_HI })), false);
  assert.equal(await differs(/** @type {any} */ ({ text: 'Hi!', text_sha256: SHA_HI })), true);
  assert.equal(await differs(/** @type {any} */ ({ text: 'naïve 🙂', text_sha256: naive })), false);
  assert.equal(await differs(/** @type {any} */ ({ text: 'x', text_sha256: null })), false);
});
