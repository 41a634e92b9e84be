/**
 * As much of a document as the page's modules touch. Every change is counted on the node it
 * happened to, so a test can say what was left alone.
 */
export class FakeNode {
  /** @type {FakeElement | null} */
  parent = null;
  changes = 0;

  constructor(/** @type {FakeDocument} */ ownerDocument) {
    this.ownerDocument = ownerDocument;
  }

  remove() {
    if (!this.parent) return;
    this.parent.childNodes = this.parent.childNodes.filter((node) => node !== this);
    this.parent.changes += 1;
    this.parent = null;
  }
}

export class FakeText extends FakeNode {
  #data;

  constructor(/** @type {FakeDocument} */ ownerDocument, /** @type {string} */ data) {
    super(ownerDocument);
    this.#data = data;
  }

  get data() {
    return this.#data;
  }

  set data(data) {
    this.#data = data;
    this.changes += 1;
  }

  appendData(/** @type {string} */ data) {
    this.#data += data;
    this.changes += 1;
  }

  get textContent() {
    return this.#data;
  }
}

export class FakeElement extends FakeNode {
  /** @type {FakeNode[]} */
  childNodes = [];
  /** @type {Map<string, string>} */
  attributes = new Map();
  /** @type {Record<string, string>} */
  dataset = {};
  hidden = false;

  constructor(/** @type {FakeDocument} */ ownerDocument, /** @type {string} */ tag) {
    super(ownerDocument);
    this.tag = tag;
  }

  /** @returns {FakeElement[]} */
  get children() {
    return /** @type {FakeElement[]} */ (this.childNodes.filter((node) => node instanceof FakeElement));
  }

  get firstChild() {
    return this.childNodes[0] ?? null;
  }

  /** @returns {FakeElement | null} */
  get lastElementChild() {
    return this.children.at(-1) ?? null;
  }

  /** @returns {string} */
  get textContent() {
    return this.childNodes.map((node) => /** @type {any} */ (node).textContent).join('');
  }

  set textContent(text) {
    this.replaceChildren(this.ownerDocument.createTextNode(text));
  }

  append(/** @type {FakeNode[]} */ ...nodes) {
    for (const node of nodes) node.parent = this;
    this.childNodes.push(...nodes);
    this.changes += 1;
  }

  appendChild(/** @type {FakeNode} */ node) {
    this.append(node);
    return node;
  }

  replaceChildren(/** @type {FakeNode[]} */ ...nodes) {
    this.childNodes = [];
    this.append(...nodes);
  }

  getAttribute(/** @type {string} */ name) {
    return this.attributes.get(name) ?? null;
  }

  setAttribute(/** @type {string} */ name, /** @type {string} */ value) {
    this.attributes.set(name, value);
    this.changes += 1;
  }

  toggleAttribute(/** @type {string} */ name, /** @type {boolean} */ on) {
    if (on) this.attributes.set(name, '');
    else this.attributes.delete(name);
  }

  hasAttribute(/** @type {string} */ name) {
    return this.attributes.has(name);
  }

  /** Knows `[data-part="name"]` only. */
  querySelector(/** @type {string} */ selector) {
    const name = /^\[data-part="([\w-]+)"\]$/.exec(selector)?.[1];
    if (!name) throw new Error(`the fake document does not know ${selector}`);
    return this.#find(name);
  }

  /** @returns {FakeElement | null} */
  #find(/** @type {string} */ name) {
    for (const child of this.children) {
      const found = child.dataset.part === name ? child : child.#find(name);
      if (found) return found;
    }
    return null;
  }
}

export class FakeDocument {
  createElement(/** @type {string} */ tag) {
    return new FakeElement(this, tag);
  }

  createTextNode(/** @type {string} */ data) {
    return new FakeText(this, data);
  }
}

/** An element with the parts of templates/chat/_answer.html, which tests/chatapp holds to this list. */
export const ANSWER_PARTS = [
  ...['article', 'reasoning', 'reasoning-text', 'text', 'refusal', 'calls', 'state'],
  ...['end', 'icon', 'label', 'sentence', 'retry', 'remove'],
];

/** @returns {any} */
export function answerElement() {
  const document = new FakeDocument();
  const item = document.createElement('li');
  for (const name of ANSWER_PARTS) {
    const part = document.createElement('div');
    part.dataset.part = name;
    item.append(part);
  }
  return item;
}

/** Frames and timers that come when the test says so. */
export class FakeScreen {
  isHidden = false;
  /** @type {Map<number, {kind: string, run: () => void, delay?: number}>} */
  asked = new Map();
  #next = 1;

  #ask(/** @type {string} */ kind, /** @type {() => void} */ run, delay = 0) {
    this.asked.set(this.#next, { kind, run, delay });
    this.#next += 1;
    return this.#next - 1;
  }

  requestAnimationFrame = (/** @type {() => void} */ run) => this.#ask('frame', run);
  setTimeout = (/** @type {() => void} */ run, /** @type {number} */ delay) => this.#ask('timer', run, delay);
  cancelAnimationFrame = (/** @type {number} */ id) => void this.asked.delete(id);
  clearTimeout = (/** @type {number} */ id) => void this.asked.delete(id);
  hidden = () => this.isHidden;

  get kinds() {
    return [...this.asked.values()].map(({ kind }) => kind);
  }

  /** What was asked for comes true. */
  paint() {
    const due = [...this.asked.values()];
    this.asked.clear();
    for (const { run } of due) run();
  }
}
