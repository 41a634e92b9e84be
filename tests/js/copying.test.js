/** What is copied as text reads like the answer, without marks. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { plainText } from '../../static/chat/copying.js';
import { MarkdownView } from '../../static/chat/markdown/view.js';
import { FakeDocument } from './dom.js';

/** @param {string} markdown */
function copied(markdown) {
  /** @type {any} */
  const box = new FakeDocument().createElement('div');
  const view = new MarkdownView(box, { calm: false });
  view.show(markdown);
  view.finish();
  return plainText(box);
}

for (const [what, markdown, text] of [
  ['paragraphs', 'One **two**\nthree `four`.\n\nFive [six](https://example.org).', 'One two\nthree four.\n\nFive six.'],
  ['headings and lines', '# Title\n\nText\n\n---\n\nMore', 'Title\n\nText\n\n—\n\nMore'],
  ['lists within lists', '3. one\n   - in it\n   - more\n4. two', '3. one\n   - in it\n   - more\n4. two'],
  ['points of several paragraphs', '- one\n\n  two\n- three', '- one\n  two\n- three'],
  ['code without its fences', 'So:\n\n```python\nif x:\n    y()\n```\n\nDone', 'So:\n\nif x:\n    y()\n\nDone'],
  ['tables in columns', '| a | b |\n|---|---|\n| 1 | **2** |', 'a\tb\n1\t2'],
  ['quotes', '> said\n>\n> twice', 'said\n\ntwice'],
  ['formulas as typed', 'So $a^2$', 'So a^2'],
  ['nothing', '', ''],
]) {
  test(`${what} are copied as they read`, () => assert.equal(copied(markdown), text));
}
