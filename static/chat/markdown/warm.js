/**
 * The first words of an answer come as smoothly as the others: what reads them has run before, in idle
 * moments, so that a slow phone need not compile it in the frame that shows them.
 */
import { MarkdownView } from './view.js';

/** A bit of whatever answers are made of, as it comes. */
const SAMPLE = [
  '## A *title*\n\n', 'The **key** `point`, ', '[see](https://example.org/a) **wh', 'y** ~~not~~.\n\n', '- a\n  1. b\n', '  2. *c*\n- d\n\n',
  '> so\n\n', '```js\nlet a', ' = 1;\n```\n', '| a | b |\n|--:|---|\n', '| 1 | `2` |\n', '| 3 | 4 |\n\n', 'end',
];
const ROUNDS = 6;

/**
 * In steps, for `inSlices`.
 * @param {Document} document is not touched
 */
export function* warmUp(document) {
  const elsewhere = document.implementation.createHTMLDocument('');
  for (let round = 0; round < ROUNDS; round += 1) {
    const view = new MarkdownView(elsewhere.createElement('div'), { calm: false });
    for (const delta of SAMPLE) {
      view.append(delta);
      yield;
    }
    view.finish();
    yield;
  }
}
