/** Partial JSON, over the vectors that relay/wire/partial_json.py is held to as well. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { parsePartial } from '../../static/chat/partial_json.js';
import { fixture } from './ground.js';

const vectors = ['corpus', 'corpus_more'].flatMap((corpus) => fixture(`${corpus}/json_vectors.json`).vectors);

/** @param {any} vector @returns {string | null} null: these bytes are no text */
function textOf(vector) {
  if (vector.prefix_parts) return vector.prefix_parts.map((/** @type {[string, number]} */ [text, times]) => text.repeat(times)).join('');
  if (vector.prefix_b64 === undefined) return vector.prefix;
  try {
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    return decoder.decode(Buffer.from(vector.prefix_b64, 'base64'), { stream: true });
  } catch {
    return null;
  }
}

test('the vectors are all there', () => assert.equal(vectors.length, 89 + 110));

for (const vector of vectors) {
  test(`${vector.name} reads as recorded`, () => {
    const text = textOf(vector);
    if (text === null) {
      assert.equal(vector.error, 'invalid');
      return;
    }
    const got = parsePartial(text);
    assert.equal(got.error, vector.error);
    if (vector.error !== null && vector.error !== 'trailing_data') return;
    assert.deepEqual([got.has_value, got.complete], [vector.has_value, vector.complete]);
    assert.equal(JSON.stringify(got.value), JSON.stringify(vector.value ?? null));
  });
}

test('what was whole in a text is there at every cut of it', () => {
  const whole = '{"path":"a/b.py","lines":[1,-2.5e3,{"deep":null}],"on":true,"said":"\\u00e9\\n\\ud83d\\ude00 \\"x\\""}';
  for (let at = 0; at <= whole.length; at += 1) {
    const { error, value, complete } = parsePartial(whole.slice(0, at));
    assert.equal(error, null, whole.slice(0, at));
    assert.equal(complete, at === whole.length);
    if (at > 20) assert.equal(value.path, 'a/b.py');
  }
  assert.deepEqual(parsePartial(whole).value, JSON.parse(whole));
});

test('a key may have the name of what all objects have', () => {
  const { value } = parsePartial('{"__proto__":{"a":1},"b":2');
  assert.deepEqual(Object.keys(value), ['__proto__', 'b']);
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
});

test('a long string and a deep text are read without a call per level', () => {
  assert.equal(parsePartial(`"${'x'.repeat(1_000_000)}`).value.length, 1_000_000);
  assert.equal(parsePartial('['.repeat(100_000)).error, 'too_deep');
});
