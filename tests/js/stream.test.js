/** Every event once and in order, over any number of connections; an end, or a sentence why not. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { emptySnapshot, fold } from '../../static/chat/fold.js';
import { DOUBT_MS, Follower, SILENCE_MS } from '../../static/chat/stream.js';
import { settle } from './ground.js';
import { CREATED, STARTED, ended, frame, ground, snapshotFrame, text } from './server.js';

/** @param {{epoch: number, seq: number}} [cursor] */
function follow(cursor = { epoch: 0, seq: 0 }) {
  const { clock, server, env } = ground();
  /** @type {any} */
  const seen = { events: [], snapshots: [], states: [] };
  const follower = new Follower({
    url: '/api/responses/0-r',
    viewer: 'v1',
    cursor,
    env,
    handlers: {
      onEvent: (event) => seen.events.push(event),
      onSnapshot: (snapshot) => seen.snapshots.push(snapshot),
      onState: (state) => seen.states.push(state),
    },
  });
  const seqs = () => seen.events.map((/** @type {any} */ event) => event.seq);
  const last = () => seen.states.at(-1);
  return { clock, server, follower, seen, seqs, last };
}

test('an answer is followed from its beginning to its end over one connection', async () => {
  const { server, follower, seqs, last, clock } = follow();
  const connection = server.stream(`retry: 2000\n${CREATED}${STARTED}${text(3, 'Hi')}`);
  follower.start();
  await settle();
  assert.deepEqual(server.sent(), { path: '/api/responses/0-r/events', viewer: 'v1', last: undefined });
  assert.equal(last().name, 'live');
  connection.send(ended(4));
  await settle();
  assert.deepEqual(seqs(), [1, 2, 3, 4]);
  assert.equal(last().name, 'ended');
  assert.equal(connection.open, false, 'the connection is given back');
  assert.deepEqual(clock.pending, [], 'no timer is left');
});

test('a page with a cursor asks for the rest only, by number and epoch', async () => {
  const { server, follower, seqs } = follow({ epoch: 7, seq: 3 });
  server.stream(text(4, 'x') + ended(5));
  follower.start();
  await settle();
  assert.deepEqual(server.sent(), { path: '/api/responses/0-r/events', viewer: 'v1', epoch: '7', last: '3' });
  assert.deepEqual(seqs(), [4, 5]);
});

for (const how of ['close', 'fail']) {
  test(`a connection that ends by ${how} in mid-frame is followed by another from the last number`, async () => {
    const { server, follower, clock, seqs, last } = follow();
    const whole = text(4, 'lost in the middle');
    const first = server.stream(CREATED + STARTED + text(3, 'a') + whole.slice(0, whole.length / 2));
    follower.start();
    await settle();
    how === 'close' ? first.close() : first.fail();
    await settle();
    assert.equal(last().name, 'waiting');
    server.stream(whole + ended(5));
    await clock.advance(2_000);
    assert.equal(server.sent().last, '3');
    assert.equal(server.sent().epoch, '7');
    assert.deepEqual(seqs(), [1, 2, 3, 4, 5]);
  });
}

test('the stream may be cut after every single byte: nothing is lost, nothing comes twice', async () => {
  const whole = CREATED + STARTED + text(3, 'naïve 🙂') + text(4, ' end') + ended(5);
  const frames = [CREATED, STARTED, text(3, 'naïve 🙂'), text(4, ' end'), ended(5)];
  for (let at = 1; at < whole.length; at += 1) {
    const { server, follower, clock, seqs, seen } = follow();
    const first = server.stream(whole.slice(0, at));
    follower.start();
    await settle();
    first.close();
    await settle();
    const from = seqs().length;
    server.stream(frames.slice(from).join(''));
    await clock.advance(2_000);
    assert.deepEqual(seqs(), [1, 2, 3, 4, 5], `cut at ${at}`);
    assert.equal(fold(seen.events).text, 'naïve 🙂 end');
  }
});

test('events that were seen before are dropped', async () => {
  const { server, follower, seqs } = follow({ epoch: 7, seq: 3 });
  server.stream(STARTED + text(3, 'again') + text(4, 'b') + text(4, 'b') + ended(5));
  follower.start();
  await settle();
  assert.deepEqual(seqs(), [4, 5]);
});

test('a jump is never shown: the state is asked for instead, and replaces', async () => {
  const { server, follower, clock, seqs, seen } = follow({ epoch: 7, seq: 3 });
  const holed = server.stream(text(4, 'a') + text(6, 'c'));
  follower.start();
  await settle();
  assert.equal(holed.open, false);
  const snapshot = { ...emptySnapshot(), status: 'in_progress', text: 'abc', seq: 6, epoch: 7 };
  server.stream(snapshotFrame(snapshot) + ended(7));
  await clock.advance(2_000);
  assert.equal(server.sent().snapshot, '1');
  assert.equal(server.sent().last, undefined, 'a valid cursor would be answered by events');
  assert.deepEqual(seqs(), [4, 7]);
  assert.deepEqual(seen.snapshots, [snapshot]);
});

test('after a snapshot its own epoch and number are the cursor', async () => {
  const { server, follower, clock } = follow({ epoch: 7, seq: 99 });
  const first = server.stream(snapshotFrame({ ...emptySnapshot(), status: 'in_progress', seq: 4, epoch: 12 }));
  follower.start();
  await settle();
  first.close();
  await settle();
  server.hang();
  await clock.advance(2_000);
  assert.deepEqual([server.sent().last, server.sent().epoch], ['4', '12']);
});

test('a snapshot of an ended answer is the end, whatever follows it', async () => {
  const { server, follower, seqs, seen, last } = follow({ epoch: 7, seq: 2 });
  server.stream(snapshotFrame({ ...emptySnapshot(), status: 'interrupted', seq: 9, epoch: 8, text_sha256: 'x' }) + ended(9));
  follower.start();
  await settle();
  assert.equal(last().name, 'ended');
  assert.equal(seen.snapshots.length, 1);
  assert.deepEqual(seqs(), []);
});

test('what cannot be read is not skipped: the state is asked for', async () => {
  for (const broken of ['data: {"type":"text.delta"\n\n', 'data: null\n\n', 'data: {"type":"text.delta"}\n\n']) {
    const { server, follower, clock } = follow({ epoch: 7, seq: 3 });
    server.stream(broken);
    follower.start();
    await settle();
    server.hang();
    await clock.advance(2_000);
    assert.equal(server.sent().snapshot, '1', broken);
  }
});

test('204 means that the cursor is at the end: the state is fetched and is the end', async () => {
  const { server, follower, seen, last } = follow({ epoch: 7, seq: 5 });
  server.answer(204);
  server.answer(200, { ...emptySnapshot(), status: 'completed', seq: 5, epoch: 7 });
  follower.start();
  await settle();
  assert.equal(server.sent().path, '/api/responses/0-r');
  assert.equal(seen.snapshots.length, 1);
  assert.equal(last().name, 'ended');
});

for (const status of [401, 403, 404, 410]) {
  test(`${status} is final and said`, async () => {
    const { server, follower, clock, last } = follow();
    server.answer(status, { title: 'no' });
    follower.start();
    await settle();
    assert.deepEqual(last(), { name: 'refused', status });
    assert.deepEqual(clock.pending, []);
  });
}

test('a cursor that the server cannot read is given up for a snapshot', async () => {
  const { server, follower, clock } = follow({ epoch: 7, seq: 3 });
  server.answer(400, {});
  follower.start();
  await settle();
  server.hang();
  await clock.advance(2_000);
  assert.equal(server.sent().snapshot, '1');
});

test('503 and 429 are asked again after Retry-After, not before, and no wake-up shortens it', async () => {
  for (const status of [503, 429]) {
    const { server, follower, clock, last } = follow();
    clock.randomValue = 0;
    server.answer(status, {}, { 'Retry-After': '5' });
    follower.start();
    await settle();
    assert.equal(last().name, 'waiting');
    follower.wake({ networkChanged: true });
    await clock.advance(4_999);
    assert.equal(server.requests.length, 1);
    server.stream(CREATED);
    await clock.advance(1);
    assert.equal(last().name, 'live');
  }
});

test('Retry-After may be a date', async () => {
  const { server, follower, clock } = follow();
  clock.randomValue = 0;
  server.answer(503, {}, { 'Retry-After': new Date(clock.nowMs + 7_000).toUTCString() });
  follower.start();
  await settle();
  assert.ok(clock.pending[0] > 5_000 && clock.pending[0] <= 7_000, String(clock.pending));
});

test('a page that is not our server is a lost connection', async () => {
  const { server, follower, clock, last } = follow();
  server.answer(200, {}, { 'Content-Type': 'text/html' });
  follower.start();
  await settle();
  assert.equal(last().name, 'waiting');
  server.stream(CREATED);
  await clock.advance(1_000);
  assert.equal(last().name, 'live');
});

test('waits grow with full jitter up to a limit, and start again after something new', async () => {
  const { server, follower, clock, seen } = follow();
  follower.start();
  /** @type {number[]} */
  const waits = [];
  server.breakOff();
  await settle();
  for (let i = 0; i < 7; i += 1) {
    waits.push(clock.pending[0]);
    if (i >= 1) server.answer(500); // the stream, then (from the third time on) the state
    else server.breakOff();
    server.breakOff();
    await clock.advance(clock.pending[0]);
    server.replies.length = 0;
  }
  assert.deepEqual(waits, [1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000]);
  assert.equal(seen.states.at(-1).attempt, 8);
  const connection = server.stream(`retry: 500\n${CREATED}`);
  await clock.advance(15_000);
  connection.close();
  await settle();
  assert.deepEqual(clock.pending, [500], 'the server named 500 ms');
});

test('jitter is full: no two clients come back in step', async () => {
  const { server, follower, clock } = follow();
  clock.randomValue = 0.25;
  server.breakOff();
  follower.start();
  await settle();
  assert.deepEqual(clock.pending, [250]);
});

test('a connection that is silent for 40 s is given up; a comment is not silence', async () => {
  const { server, follower, clock, last } = follow();
  const first = server.stream(CREATED);
  follower.start();
  await settle();
  await clock.advance(SILENCE_MS - 1);
  first.send(': ping\n');
  await settle();
  await clock.advance(SILENCE_MS - 1);
  assert.equal(first.open, true);
  assert.equal(last().name, 'live');
  server.answer(200, { ...emptySnapshot(), status: 'in_progress', seq: 3, epoch: 7, text: 'from the state' });
  await clock.advance(1);
  assert.equal(first.open, false);
  assert.equal(last().name, 'waiting');
});

test('a server that does not answer at all is given up after 40 s too', async () => {
  const { server, follower, clock, last } = follow();
  server.hang();
  server.breakOff();
  follower.start();
  await settle();
  await clock.advance(SILENCE_MS);
  assert.equal(last().name, 'waiting');
});

test('where streams do not get through, the state is asked for and the end is found', async () => {
  const { server, follower, clock, seen, last } = follow();
  server.stream(); // a proxy holds everything back
  server.answer(200, { ...emptySnapshot(), status: 'in_progress', seq: 4, epoch: 7, text: 'half' });
  follower.start();
  await settle();
  await clock.advance(SILENCE_MS);
  assert.equal(seen.snapshots.at(-1).text, 'half');
  server.stream();
  server.answer(200, { ...emptySnapshot(), status: 'completed', seq: 8, epoch: 7, text: 'half and half' });
  await clock.advance(15_000);
  assert.equal(server.sent().last, '4');
  await clock.advance(SILENCE_MS);
  assert.equal(seen.snapshots.at(-1).text, 'half and half');
  assert.equal(last().name, 'ended');
});

test('a wake-up ends the wait at once', async () => {
  const { server, follower, clock, last } = follow();
  for (let i = 0; i < 2; i += 1) server.breakOff();
  follower.start();
  await settle();
  await clock.advance(1_000);
  assert.deepEqual(clock.pending, [2_000]);
  server.stream(CREATED);
  follower.wake();
  await settle();
  assert.equal(last().name, 'live');
  assert.equal(server.requests.length, 3);
});

test('a wake-up leaves a connection alone that spoke just now', async () => {
  const { server, follower, clock } = follow();
  const connection = server.stream(CREATED);
  follower.start();
  await settle();
  await clock.advance(DOUBT_MS - 1);
  follower.wake();
  await settle();
  assert.equal(connection.open, true);
});

test('a page that slept does not trust its connection, and is back without any wait', async () => {
  const { server, follower, clock, last } = follow();
  const dead = server.stream(CREATED);
  follower.start();
  await settle();
  clock.nowMs += 60_000; // frozen: time went by and no timer ran
  server.stream(STARTED);
  follower.wake();
  await settle();
  assert.equal(dead.open, false);
  assert.equal(last().name, 'live');
  assert.equal(server.sent().last, '1');
});

test('another network means another connection, however fresh this one is', async () => {
  const { server, follower, last } = follow();
  const old = server.stream(CREATED);
  follower.start();
  await settle();
  server.stream(STARTED);
  follower.wake({ networkChanged: true });
  await settle();
  assert.equal(old.open, false);
  assert.equal(last().name, 'live');
});

test('close lets go at once; start goes on from the same number', async () => {
  const { server, follower, clock, seqs } = follow();
  const first = server.stream(CREATED + STARTED);
  follower.start();
  await settle();
  follower.close();
  await settle();
  assert.equal(first.open, false);
  assert.deepEqual(clock.pending, []);
  server.stream(text(3, 'x') + ended(4));
  follower.start();
  await settle();
  assert.deepEqual(seqs(), [1, 2, 3, 4]);
});

test('close during a wait leaves nothing behind, even one that the server asked for', async () => {
  const { server, follower, clock } = follow();
  server.answer(503, {}, { 'Retry-After': '60' });
  follower.start();
  await settle();
  follower.close();
  await settle();
  assert.deepEqual(clock.pending, []);
  await clock.advance(200_000);
  assert.equal(server.requests.length, 1);
});

test('start twice is one connection, and an ended answer is not asked for again', async () => {
  const { server, follower } = follow();
  const connection = server.stream(CREATED);
  follower.start();
  follower.start();
  await settle();
  connection.send(STARTED + ended(3));
  await settle();
  follower.start();
  follower.wake();
  await settle();
  assert.equal(server.requests.length, 1);
});

test('types of a later schema move the number on', async () => {
  const { server, follower, seqs } = follow({ epoch: 7, seq: 2 });
  server.stream(frame(3, 'hologram', { x: 1 }) + text(4, 'a') + ended(5));
  follower.start();
  await settle();
  assert.deepEqual(seqs(), [3, 4, 5]);
});
