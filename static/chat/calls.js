/**
 * The tool calls of an answer, filling in as they are written. What stands there is only added to, as
 * long as it goes on as it began.
 */

export class CallsView {
  #list;

  /** @param {Element} list holds items as templates/chat/_answer.html writes them */
  constructor(list) {
    this.#list = list;
  }

  /** @param {import('./telling.js').Call[]} calls */
  show(calls) {
    const { children } = this.#list;
    calls.forEach((call, index) => write(children[index] ?? this.#list.appendChild(item(this.#list.ownerDocument)), call));
    while (this.#list.children.length > calls.length) this.#list.lastElementChild?.remove();
  }
}

/** @param {Document} document */
function item(document) {
  const call = document.createElement('li');
  const head = call.appendChild(document.createElement('p'));
  head.appendChild(document.createElement('strong'));
  head.appendChild(document.createTextNode(' '));
  head.appendChild(document.createElement('span'));
  call.appendChild(document.createElement('dl'));
  return call;
}

/** @param {Element} call @param {import('./telling.js').Call} wanted */
function write(call, { name, state, rows, broken }) {
  const [head, list] = call.children;
  setText(head.children[0], name);
  setText(head.children[1], state);
  const shown = broken ? 'broken' : '';
  if ((call.getAttribute('class') ?? '') !== shown) call.setAttribute('class', shown);
  writeRows(list, rows);
}

/**
 * Names with a value each.
 * @param {Element} list a `<dl>` whose `<div>`s hold one of both
 * @param {[string, string][]} rows
 */
export function writeRows(list, rows) {
  rows.forEach(([name, value], index) => {
    const row = list.children[index] ?? list.appendChild(emptyRow(list.ownerDocument));
    setText(row.children[0], name);
    setText(row.children[1], value);
  });
  while (list.children.length > rows.length) list.lastElementChild?.remove();
}

/** @param {Document} document */
function emptyRow(document) {
  const row = document.createElement('div');
  row.appendChild(document.createElement('dt'));
  row.appendChild(document.createElement('dd')).setAttribute('dir', 'auto');
  return row;
}

/**
 * Writing what already stands there would still wake observers and screen readers, and writing all of
 * it anew would lose a selection in it.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  const shown = element.textContent ?? '';
  if (shown === text) return;
  const { firstChild } = element;
  if (shown !== '' && text.startsWith(shown) && firstChild?.nodeType === 3 && element.childNodes.length === 1) {
    /** @type {Text} */ (firstChild).appendData(text.slice(shown.length));
  } else element.textContent = text;
}
