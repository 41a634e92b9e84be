/** Words reach the screen once per frame; what stands there is left alone. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { HIDDEN_MS, Painter, TextView, paragraphs } from '../../static/chat/render.js';
import { FakeDocument, FakeScreen } from './dom.js';
import { fixture } from './ground.js';

const CASES = fixture('words/paragraphs.json');

function view() {
  /** @type {any} */
  const box = new FakeDocument().createElement('div');
  const shown = () => box.children.map((/** @type {any} */ paragraph) => paragraph.textContent);
  return { box, shown, text: new TextView(box) };
}

for (const { text, paragraphs: wanted } of CASES) {
  test(`${JSON.stringify(text)} is cut like on the server`, () => {
    assert.deepEqual(paragraphs(text), wanted);
  });

  test(`${JSON.stringify(text)} looks the same however it arrives`, () => {
    const letters = [...text]; // law 10: never half a character
    for (let at = 0; at <= letters.length; at += 1) {
      const { text: shower, shown } = view();
      shower.append(letters.slice(0, at).join(''));
      shower.append(letters.slice(at).join(''));
      assert.deepEqual(shown(), wanted, `cut at ${at}`);
    }
    const { text: shower, shown } = view();
    for (const letter of letters) shower.append(letter);
    assert.deepEqual(shown(), wanted, 'letter by letter');
  });

  test(`${JSON.stringify(text)} goes on from a snapshot of any part of it`, () => {
    const letters = [...text];
    for (let at = 0; at <= letters.length; at += 1) {
      const { text: shower, shown } = view();
      shower.show(letters.slice(0, at).join(''));
      shower.append(letters.slice(at).join(''));
      assert.deepEqual(shown(), wanted, `snapshot at ${at}`);
    }
  });
}

test('finished paragraphs are never touched again', () => {
  const { text, box } = view();
  text.append('one\n\ntwo\n\nth');
  const before = box.children.slice(0, 2).map((/** @type {any} */ p) => [p, p.changes, p.firstChild.changes]);
  text.append('ree\n\nfour');
  text.show('one\n\ntwo\n\nthree\n\nfour and more');
  for (const [paragraph, changes, textChanges] of before) {
    assert.ok(box.children.includes(paragraph));
    assert.deepEqual([paragraph.changes, paragraph.firstChild.changes], [changes, textChanges]);
  }
});

test('showing what stands there already changes nothing at all', () => {
  const { text, box } = view();
  text.show('one\n\ntwo\n');
  const changes = box.changes + box.children.reduce((/** @type {number} */ sum, /** @type {any} */ p) => sum + p.changes + p.firstChild.changes, 0);
  text.show('one\n\ntwo\n');
  const after = box.changes + box.children.reduce((/** @type {number} */ sum, /** @type {any} */ p) => sum + p.changes + p.firstChild.changes, 0);
  assert.equal(after, changes);
});

test('a longer text is added to, a different one is written over, a shorter one cut', () => {
  const { text, shown } = view();
  text.show('one\n\ntwo');
  text.show('one\n\ntwo three');
  assert.deepEqual(shown(), ['one', 'two three']);
  text.show('one\n\n2');
  assert.deepEqual(shown(), ['one', '2']);
  text.show('');
  assert.deepEqual(shown(), []);
  assert.equal(text.empty, true);
  text.append('anew');
  assert.deepEqual(shown(), ['anew']);
});

test('a paragraph that the server wrote is taken over as it stands', () => {
  const { box, shown, text } = view();
  const paragraph = box.ownerDocument.createElement('p');
  paragraph.append(box.ownerDocument.createTextNode('from the server'));
  box.append(paragraph);
  text.show('from the server');
  text.append(', and on');
  assert.equal(box.children[0], paragraph);
  assert.deepEqual(shown(), ['from the server, and on']);
});

test('any number of wishes is one paint', () => {
  let paints = 0;
  const screen = new FakeScreen();
  const painter = new Painter(() => (paints += 1), screen);
  for (let i = 0; i < 100; i += 1) painter.ask();
  assert.deepEqual(screen.kinds, ['frame']);
  screen.paint();
  assert.equal(paints, 1);
  painter.ask();
  screen.paint();
  assert.equal(paints, 2);
});

test('a hidden page, where no frames come, is painted within a second', () => {
  let paints = 0;
  const screen = new FakeScreen();
  const painter = new Painter(() => (paints += 1), screen);
  screen.isHidden = true;
  painter.ask();
  assert.deepEqual([...screen.asked.values()].map(({ kind, delay }) => [kind, delay]), [['timer', HIDDEN_MS]]);
  screen.paint();
  assert.equal(paints, 1);
});

test('a page that is hidden or shown meanwhile is painted in the way that still works', () => {
  let paints = 0;
  const screen = new FakeScreen();
  const painter = new Painter(() => (paints += 1), screen);
  painter.visibilityChanged();
  assert.deepEqual(screen.kinds, [], 'nothing was asked for');
  painter.ask();
  screen.isHidden = true;
  painter.visibilityChanged();
  assert.deepEqual(screen.kinds, ['timer']);
  screen.isHidden = false;
  painter.visibilityChanged();
  assert.deepEqual(screen.kinds, ['frame']);
  screen.paint();
  assert.equal(paints, 1);
});

test('a text of nothing but newlines, and a word, is shown at once', { timeout: 10_000 }, () => {
  const { text, shown } = view();
  text.show('a' + '\n'.repeat(400_000) + 'b');
  assert.deepEqual(shown(), ['a', 'b']);
  text.append('\n\nc');
  assert.deepEqual(shown(), ['a', 'b', 'c']);
});
