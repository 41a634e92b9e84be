/** Numbers in the page are written as on the server (chatapp/numerals.py). */
import assert from 'node:assert/strict';
import test from 'node:test';

import { grouped, tenths } from '../../static/chat/numerals.js';
import { fixture } from './ground.js';

test('numbers are written as the server writes them, in each language', () => {
  const cases = fixture('words/numerals.json');
  assert.ok(cases.length > 40);
  for (const [language, number, whole, tenth] of cases) {
    assert.deepEqual([grouped(number, language), tenths(number, language)], [whole, tenth], `${language} ${number}`);
  }
});

test('without a page it is the source language', () => {
  assert.equal(grouped(1234567), '1,234,567');
});
