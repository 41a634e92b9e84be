/** A conversation that went on elsewhere: what is here stays, what is missing comes. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { divide } from '../../static/chat/mirror.js';

const turns = (/** @type {string} */ ids) => /** @type {any[]} */ ([...ids].map((id) => ({ id: id === '-' ? '' : id })));

test('turns that both have stay, from the first that is known to the first that differs', () => {
  for (const [old, now, kept, fresh] of /** @type {[string, string, number, string][]} */ ([
    ['ab', 'abcd', 2, 'cd'],
    ['ab', 'ab', 2, ''],
    ['abcd', 'abef', 2, 'ef'],
    ['abcd', 'ab', 2, ''],
    ['abcd', 'cdef', 4, 'ef'], // the server shows fewer
    ['cd', 'abcdef', 2, 'ef'], // and here more
    ['ab', 'xy', 0, 'xy'],
    ['', 'ab', 0, 'ab'],
    ['-ab', '-abc', 3, 'c'], // a note has no id
  ])) {
    const found = divide(turns(old), turns(now));
    assert.deepEqual([found.kept, found.fresh.map((turn) => turn.id).join('')], [kept, fresh], `${old} → ${now}`);
  }
});
