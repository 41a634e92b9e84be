/** How much of an answer is said aloud is the person's choice. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { Announcer } from '../../static/chat/announcing.js';
import { fill, Words } from '../../static/chat/words.js';
import { MarkdownView } from '../../static/chat/markdown/view.js';
import { FakeDocument } from './dom.js';
import { wordTable } from './ground.js';

const words = new Words(wordTable());
const { announce } = words.table;

/** @param {string} how */
function ground(how) {
  /** @type {any} */
  const region = new FakeDocument().createElement('p');
  /** @type {any} */
  const alert = new FakeDocument().createElement('p');
  /** @type {any} */
  const prose = new FakeDocument().createElement('div');
  const text = new MarkdownView(prose, { calm: false });
  const view = { ended: false, prose };
  /** @type {(() => void)[]} */
  let timers = [];
  const env = { setTimeout: (/** @type {() => void} */ run) => timers.push(run) };
  const announcer = new Announcer(region, { alert, how, words, env });
  return {
    announcer,
    alert,
    view,
    /** @param {string} delta */
    write(delta) {
      text.append(delta);
      announcer.wrote(view);
    },
    /** @param {string} [sentence] */
    end(sentence = fill(announce.completed, { words: 3 })) {
      view.ended = true;
      text.finish();
      announcer.wrote(view);
      announcer.say(sentence);
    },
    /** Time passes; what is said now. @returns {string} */
    heard() {
      const due = timers;
      timers = [];
      for (const run of due) run();
      const said = region.textContent;
      region.textContent = '';
      return said;
    },
  };
}

test('by default the boundaries are said, and none of the words', () => {
  const { announcer, write, end, heard } = ground('');
  announcer.say(announce.started);
  assert.equal(heard(), announce.started);
  write('One. Two. Three.');
  assert.equal(heard(), '');
  end();
  assert.equal(heard(), fill(announce.completed, { words: 3 }));
});

test('sentences are said when they are whole, each once, the rest at the end', () => {
  const { write, end, heard } = ground('sentences');
  write('');
  assert.equal(heard(), '');
  write('One is **bold**. Two is');
  assert.equal(heard(), 'One is bold. ');
  write(' longer');
  assert.equal(heard(), '');
  write('. Three\n\nis');
  assert.equal(heard(), 'Two is longer. Three\n\n');
  write(' more');
  end();
  assert.equal(heard(), 'is more');
});

test('what stood there when the page came is not read again', () => {
  const { announcer, view, write, heard } = ground('sentences');
  write('One. Two. ');
  announcer.stands(view);
  assert.equal(heard(), '');
  write('Three. Four');
  assert.equal(heard().trim(), 'Three.');
});

test('all of it is read after its end was said, once', () => {
  const { announcer, view, write, end, heard } = ground('whole');
  write('One **two**.');
  assert.equal(heard(), '');
  end();
  announcer.wrote(view);
  assert.equal(heard(), 'One two.');
  announcer.wrote(view);
  assert.equal(heard(), '');
});

test('who wants silence hears what goes wrong, and nothing else', () => {
  const { announcer, write, end, heard } = ground('silent');
  for (const sentence of [announce.started, announce.still, announce.back]) {
    announcer.say(sentence);
    assert.equal(heard(), '', sentence);
  }
  write('One. Two.');
  end();
  assert.equal(heard(), '');
  announcer.say(announce.lost);
  assert.equal(heard(), announce.lost);
  announcer.say('You stopped this answer. What was written is kept.');
  assert.match(heard(), /^You stopped/);
});

test('what is up to the person is heard at once, whatever they chose, and goes with the next word', () => {
  for (const how of ['', 'whole', 'sentences', 'silent']) {
    const { announcer, alert, heard } = ground(how);
    announcer.say('It failed. Try again.', true);
    assert.equal(alert.textContent, 'It failed. Try again.');
    assert.equal(heard(), '', 'and not twice');
    announcer.say(announce.started);
    assert.equal(alert.textContent, '');
  }
});
