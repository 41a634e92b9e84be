/** A long text beside a message is part of its text, and found there again. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { partsOf, preview, withAttached } from '../../static/chat/attached.js';
import { size } from '../../static/chat/question.js';
import { Words } from '../../static/chat/words.js';
import { fixture, wordTable } from './ground.js';

for (const { name, text, parts } of fixture('attached.json')) {
  test(`as the server reads it: ${name}`, () => {
    assert.deepEqual(partsOf(text).map((part) => [part.name, part.text]), parts);
  });
}

const TEXTS = ['x', '', '\n', 'a\n\nb\n', '~~~~\nx\n~~~~', '~~~~~~', 'Attached: a (1 characters)\n~~~~\nx\n~~~~', '🎈\r\n'];

test('what was attached comes back letter by letter, whatever stands in it', () => {
  for (const one of TEXTS) {
    for (const other of TEXTS) {
      const attached = [{ name: 'one', text: one }, { name: 'other', text: other }];
      assert.deepEqual(partsOf(withAttached('Look', attached)), [{ name: '', text: 'Look' }, ...attached]);
    }
  }
});

test('without words it stands alone, and a name is one line', () => {
  const text = withAttached('', [{ name: ' a\nb ', text: 'x' }]);
  assert.equal(text, 'Attached: a b (1 characters)\n~~~~\nx\n~~~~');
  assert.equal(withAttached('Hello ', []), 'Hello ');
  assert.match(withAttached('', [{ name: 'photo\u202Egpj.exe', text: 'x' }]), /^Attached: photogpj\.exe \(/);
  assert.match(withAttached('', [{ name: '\u202E', text: 'x' }]), /^Attached: Text \(/);
});

test('thousands that are not closed take no time', () => {
  const header = 'Attached: a (1 characters)\n';
  const text = Array.from({ length: 2_000 }, (_, n) => `${header}${'~'.repeat(4 + (n % 300))}`).join('\n') + '\nend';
  const begun = performance.now();
  partsOf(text + `\n${header}~~~~`.repeat(20_000));
  assert.ok(performance.now() - begun < 2_000);
});

test('a preview is one line of words', () => {
  assert.equal(preview('  a\n\n b\tc '), 'a b c');
  assert.equal([...preview('🎈'.repeat(500))].length, 120);
});

test('a line feed at the end begins no line', () => {
  const words = new Words(wordTable());
  assert.equal(size('one\n', words), size('ones', words), 'four letters of one line');
  assert.match(size('one\ntwo\n', words), /\b2 lines/);
});
