/** Law 13: the meaning of a log does not depend on where a reader came in; the same in both languages. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';

import { Folder, apply, emptySnapshot, fold } from '../../static/chat/fold.js';

const FOLDER = new URL('../fixtures/fold/', import.meta.url);
const cases = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.json'))
  .map((name) => JSON.parse(readFileSync(new URL(name, FOLDER), 'utf8')));

test('there are cases to hold the fold to', () => {
  assert.ok(cases.length >= 30, `found ${cases.length}`);
});

for (const { name, events, snapshot } of cases) {
  test(`${name}: the whole log means what relay/fold.py says`, () => {
    assert.deepEqual(fold(events), snapshot);
  });

  test(`${name}: a snapshot of the first k and the rest mean the same, for every k`, () => {
    for (let k = 0; k <= events.length; k += 1) {
      const first = JSON.parse(JSON.stringify(fold(events.slice(0, k))));
      assert.deepEqual(apply(first, events.slice(k)), snapshot, `k = ${k}`);
    }
  });
}

test('taking a snapshot changes nothing that was taken before', () => {
  const { events } = cases.find(({ name }) => name === 'tool_call_completed');
  const folder = new Folder();
  const taken = events.map((/** @type {any} */ event) => {
    folder.apply(event);
    return [folder.snapshot(), JSON.stringify(folder.snapshot())];
  });
  for (const [kept, asItWas] of taken) assert.equal(JSON.stringify(kept), asItWas);
});

test('a base that lacks later fields is filled in', () => {
  assert.deepEqual(apply(/** @type {any} */ ({ id: 'x' }), []), { ...emptySnapshot(), id: 'x' });
});
