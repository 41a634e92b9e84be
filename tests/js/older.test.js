/** Earlier messages: whole turns of a fetched page, and what is read stays where it is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { OlderMessages } from '../../static/chat/older.js';
import { settle } from './ground.js';

/** A list whose turns are ten pixels high, in a scroller that does not anchor by itself. */
function ground(pages) {
  const scroller = { scrollTop: 30 };
  const polished = [];
  const block = (name) => ({
    ownerDocument: {
      get defaultView() {
        polished.push(name); // where there is none, nothing more is done
        return null;
      },
    },
  });
  const turn = (name) => ({
    name,
    querySelectorAll: () => [block(name)],
    getBoundingClientRect: () => ({ top: transcript.children.findIndex((it) => it.name === name) * 10 - scroller.scrollTop }),
  });
  const transcript = {
    children: ['c', 'd'].map(turn),
    get firstElementChild() {
      return this.children[0];
    },
    prepend(...turns) {
      this.children.unshift(...turns);
    },
  };
  const link = {
    href: '?before=3',
    hidden: false,
    attributes: new Set(),
    addEventListener(_, run) {
      this.click = run;
    },
    setAttribute(name) {
      this.attributes.add(name);
    },
    removeAttribute(name) {
      this.attributes.delete(name);
    },
  };
  const asked = [];
  globalThis.document = /** @type {any} */ ({ importNode: (node) => node });
  const fetch = async (url) => {
    asked.push(url);
    const page = pages[url];
    if (!page) return null;
    const parts = { '#transcript': { children: page.turns.map(turn) }, '[data-part="older"]': page.next && { href: page.next } };
    return /** @type {any} */ ({ querySelector: (selector) => parts[selector] ?? null });
  };
  const older = new OlderMessages(/** @type {any} */ ({ scroller, transcript, link }), /** @type {any} */ (fetch));
  return { older, scroller, transcript, link, asked, polished, names: () => transcript.children.map((it) => it.name).join('') };
}

const PAGES = { '?before=3': { turns: ['a', 'b'], next: '?before=1' }, '?before=1': { turns: ['x'], next: null } };

test('earlier turns come before the others, and what is read stays where it is', async () => {
  const { older, names, scroller, link, transcript, polished } = ground(PAGES);
  const read = transcript.children[0];
  const before = read.getBoundingClientRect().top;
  assert.equal(await older.load(), true);
  assert.equal(names(), 'abcd');
  assert.deepEqual(polished, ['a', 'b'], 'code and formulas of what came are finished');
  assert.equal(read.getBoundingClientRect().top, before);
  assert.equal(scroller.scrollTop, 50);
  assert.equal(link.href, '?before=1');
});

test('at the beginning the link goes, and nothing more is asked', async () => {
  const { older, names, link, asked } = ground(PAGES);
  await older.load();
  await older.load();
  assert.equal(names(), 'xabcd');
  assert.equal(link.hidden, true);
  assert.equal(await older.load(), false);
  assert.deepEqual(asked, ['?before=3', '?before=1']);
});

test('a page that does not come leaves the link for another try', async () => {
  const { older, names, link } = ground({});
  assert.equal(await older.load(), false);
  assert.equal(names(), 'cd');
  assert.equal(link.hidden, false);
  assert.equal(link.attributes.has('aria-busy'), false);
});

test('a second wish while one is on its way asks for nothing', async () => {
  const { older, asked, link } = ground(PAGES);
  const event = { preventDefault() {} };
  link.click(event);
  link.click(event);
  await older.load();
  await settle();
  assert.deepEqual(asked, ['?before=3']);
});
