/** Frames do not depend on where the bytes were cut. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { Decoder, MAX_EVENT_CHARS } from '../../static/chat/sse.js';
import { bytes, sseVectors } from './ground.js';

/** @param {Uint8Array[]} chunks */
function decode(chunks) {
  const decoder = new Decoder();
  return chunks.flatMap((chunk) => decoder.feed(chunk));
}

/** @param {{events: any[]}} vector */
function expected({ events }) {
  return events.map(({ event, data, lastEventId, retry }) => ({ event, data, id: lastEventId, retry }));
}

const STREAM = bytes(
  '\ufeffretry: 2000\r\nid: 1\revent: text.delta\ndata: {"delta":"né\u2028🙂"}\r\n\r\n: ping\n\n' +
    'id: 2\ndata: a\ndata:\ndata: b\n\nid: 3\ndata\n\n',
);
const FRAMES = [
  { event: 'text.delta', data: '{"delta":"né\u2028🙂"}', id: '1', retry: 2000 },
  { event: 'message', data: 'a\n\nb', id: '2', retry: 2000 },
  { event: 'message', data: '', id: '3', retry: 2000 },
];

for (const vector of sseVectors()) {
  test(`vector ${vector.name}: as it came, whole, and byte by byte`, () => {
    const chunks = vector.chunks.map((/** @type {string} */ chunk) => new Uint8Array(Buffer.from(chunk, 'base64')));
    const whole = new Uint8Array(Buffer.concat(chunks));
    assert.deepEqual(decode(chunks), expected(vector));
    assert.deepEqual(decode([whole]), expected(vector));
    assert.deepEqual(decode([...whole].map((byte) => Uint8Array.of(byte))), expected(vector));
  });
}

test('a stream cut in two at any byte gives the same frames', () => {
  for (let at = 0; at <= STREAM.length; at += 1) {
    assert.deepEqual(decode([STREAM.slice(0, at), STREAM.slice(at)]), FRAMES, `cut at ${at}`);
  }
});

test('a stream cut in three gives the same frames', () => {
  for (let first = 0; first <= STREAM.length; first += 1) {
    for (let second = first; second <= STREAM.length; second += 3) {
      const chunks = [STREAM.slice(0, first), STREAM.slice(first, second), STREAM.slice(second)];
      assert.deepEqual(decode(chunks), FRAMES, `cut at ${first} and ${second}`);
    }
  }
});

test('a frame is handed out with the byte that ends it, not one later', () => {
  const decoder = new Decoder();
  assert.deepEqual(decoder.feed(bytes('data: a\n')), []);
  assert.equal(decoder.feed(bytes('\r')).length, 1);
  assert.deepEqual(decoder.feed(bytes('\n')), []);
});

test('what is unfinished at the end is never a frame', () => {
  for (const tail of ['data: x', 'data: x\n', 'data: x\nid: 9', ': c\ndata: x\r']) {
    assert.equal(decode([bytes(`data: a\n\n${tail}`)]).length, 1, JSON.stringify(tail));
  }
});

test('a line without end is refused instead of filling the memory', () => {
  const decoder = new Decoder();
  const piece = bytes('x'.repeat(MAX_EVENT_CHARS / 16));
  assert.throws(() => {
    for (let i = 0; i < 17; i += 1) decoder.feed(piece);
  }, RangeError);
});

test('an event of endless lines is refused too', () => {
  const decoder = new Decoder();
  const piece = bytes(`data: ${'x'.repeat(MAX_EVENT_CHARS / 16)}\n`);
  assert.throws(() => {
    for (let i = 0; i < 17; i += 1) decoder.feed(piece);
  }, RangeError);
});
