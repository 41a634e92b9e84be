/** Two versions side by side, as during every deploy; over the fixture of tests/relay/test_versions.py. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { AnswerView } from '../../static/chat/answer.js';
import { apply, fold } from '../../static/chat/fold.js';
import { Follower } from '../../static/chat/stream.js';
import { Words } from '../../static/chat/words.js';
import { FakeScreen, answerElement } from './dom.js';
import { fixture, settle, wordTable } from './ground.js';
import { frame, ground, snapshotFrame } from './server.js';

const versions = fixture('versions.json');
const words = new Words(wordTable());

/** @param {any} event */
const frameOf = ({ seq, type, ...fields }) => frame(seq, type, fields);

for (const name of ['newer', 'older']) {
  const { events, snapshot } = versions[name];

  test(`a log of a version that is ${name} is folded at every cut`, () => {
    assert.deepEqual(fold(events), snapshot);
    for (let k = 0; k <= events.length; k += 1) {
      const first = JSON.parse(JSON.stringify(fold(events.slice(0, k))));
      assert.deepEqual(apply(first, events.slice(k)), snapshot, `k = ${k}`);
    }
  });

  test(`a server of a version that is ${name} is followed over connections that break`, async () => {
    for (let at = 0; at < events.length; at += 1) {
      const { clock, server, env } = ground();
      /** @type {any[]} */
      const seen = [];
      /** @type {any[]} */
      const states = [];
      const handlers = {
        onEvent: (/** @type {any} */ event) => seen.push(event),
        onSnapshot: () => assert.fail('nothing made the cursor invalid'),
        onState: (/** @type {any} */ state) => states.push(state.name),
      };
      const follower = new Follower({ url: '/api/responses/r', viewer: 'v', cursor: { epoch: 0, seq: 0 }, env, handlers });
      const first = server.stream(events.slice(0, at).map(frameOf).join(''));
      server.stream(events.slice(at).map(frameOf).join(''));
      follower.start();
      await settle();
      first.close();
      await settle();
      await clock.advance(5_000);
      assert.deepEqual(seen, events, `broken after ${at}`);
      assert.equal(states.at(-1), 'ended');
    }
  });

  test(`an answer of a version that is ${name} is shown, its end in words`, () => {
    const element = answerElement();
    const screen = new FakeScreen();
    const view = new AnswerView(element, { words, screen });
    const part = (/** @type {string} */ part) => element.querySelector(`[data-part="${part}"]`);
    for (const event of events) {
      view.apply(event);
      screen.paint();
      if (event.type === 'notice') assert.equal(part('state').textContent, event.message);
    }
    assert.equal(part('text').textContent, snapshot.text);
    assert.equal(part('end').hidden, snapshot.status === 'completed');
    const { label, happened } = words.table.ends[snapshot.status]['*'];
    assert.equal(part('label').textContent, label);
    assert.ok(part('sentence').textContent.startsWith(happened), 'a reason nobody knows has the words of its status');
  });
}

test('a snapshot of a newer version ends the stream and shows what this one knows', async () => {
  const { snapshot, adds_to_a_snapshot: more } = versions.newer;
  const { server, env } = ground();
  /** @type {any[]} */
  const snapshots = [];
  /** @type {any[]} */
  const states = [];
  const handlers = {
    onEvent: () => assert.fail('there is nothing after the end'),
    onSnapshot: (/** @type {any} */ replaced) => snapshots.push(replaced),
    onState: (/** @type {any} */ state) => states.push(state.name),
  };
  const follower = new Follower({ url: '/api/responses/r', viewer: 'v', cursor: { epoch: 3, seq: 2 }, env, handlers });
  server.stream(snapshotFrame({ ...snapshot, ...more, timings: { ...snapshot.timings, ...more.timings } }));
  follower.start();
  await settle();
  assert.equal(states.at(-1), 'ended');
  const { element, screen } = { element: answerElement(), screen: new FakeScreen() };
  const view = new AnswerView(element, { words, screen });
  view.replace(snapshots[0]);
  screen.paint();
  assert.equal(element.querySelector('[data-part="text"]').textContent, snapshot.text);
});

test('a snapshot of an older version is filled in', () => {
  const { events, snapshot, not_yet_in_a_snapshot: missing } = versions.older;
  const first = /** @type {any} */ (fold(events.slice(0, 1)));
  for (const name of missing) delete first[name];
  assert.deepEqual(apply(first, events.slice(1)), snapshot);
});
