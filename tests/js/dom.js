/**
 * As much of a document as the page's modules touch. Every change is counted on the node it
 * happened to, so a test can say what was left alone.
 */
export class FakeNode {
  /** @type {FakeElement | null} */
  parent = null;
  changes = 0;
  nodeType = 0;
  nodeName = '';

  constructor(/** @type {FakeDocument} */ ownerDocument) {
    this.ownerDocument = ownerDocument;
  }

  get parentNode() {
    return this.parent;
  }

  get nextSibling() {
    const siblings = this.parent?.childNodes ?? [];
    return siblings[siblings.indexOf(this) + 1] ?? null;
  }

  /** @returns {boolean} */
  isEqualNode(/** @type {any} */ other) {
    return inWords(this) === inWords(other);
  }

  remove() {
    if (!this.parent) return;
    this.parent.childNodes = this.parent.childNodes.filter((node) => node !== this);
    this.parent.changes += 1;
    this.parent = null;
  }
}

/** All there is to a node, as a text. @returns {string} */
function inWords(/** @type {any} */ node) {
  if (node.nodeType === 3) return JSON.stringify(node.data);
  const attributes = node.getAttributeNames().sort().map((/** @type {string} */ name) => [name, node.getAttribute(name)]);
  return `${node.nodeName}${JSON.stringify(attributes)}(${node.childNodes.map(inWords).join()})`;
}

export class FakeText extends FakeNode {
  #data;
  nodeType = 3;
  nodeName = '#text';

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

  get nodeValue() {
    return this.#data;
  }

  set nodeValue(data) {
    this.data = data;
  }

  appendData(/** @type {string} */ data) {
    this.#data += data;
    this.changes += 1;
  }

  replaceData(/** @type {number} */ at, /** @type {number} */ count, /** @type {string} */ data) {
    this.data = this.#data.slice(0, at) + data + this.#data.slice(at + count);
  }

  get textContent() {
    return this.#data;
  }
}

export class FakeElement extends FakeNode {
  /** @type {FakeNode[]} */
  childNodes = [];
  nodeType = 1;
  /** @type {Map<string, string>} */
  #attributes = new Map();
  /** @type {Record<string, string>} */
  dataset = {};
  hidden = false;

  constructor(/** @type {FakeDocument} */ ownerDocument, /** @type {string} */ tag) {
    super(ownerDocument);
    this.tag = tag;
    this.nodeName = tag.toUpperCase();
  }

  get attributes() {
    return [...this.#attributes].map(([name, value]) => ({ name, value, namespaceURI: null }));
  }

  get className() {
    return this.getAttribute('class') ?? '';
  }

  set className(name) {
    this.setAttribute('class', name);
  }

  /** @returns {FakeElement[]} */
  get children() {
    return /** @type {FakeElement[]} */ (this.childNodes.filter((node) => node instanceof FakeElement));
  }

  get firstChild() {
    return this.childNodes[0] ?? null;
  }

  get lastChild() {
    return this.childNodes.at(-1) ?? null;
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
    for (const node of nodes) {
      node.remove();
      node.parent = this;
    }
    this.childNodes.push(...nodes);
    this.changes += 1;
  }

  appendChild(/** @type {FakeNode} */ node) {
    this.append(node);
    return node;
  }

  insertBefore(/** @type {FakeNode} */ node, /** @type {FakeNode | null} */ before) {
    node.remove();
    const at = before ? this.childNodes.indexOf(before) : this.childNodes.length;
    this.childNodes.splice(at, 0, node);
    node.parent = this;
    this.changes += 1;
  }

  removeChild(/** @type {FakeNode} */ node) {
    node.remove();
    return node;
  }

  replaceChild(/** @type {FakeNode} */ node, /** @type {FakeNode} */ old) {
    this.insertBefore(node, old);
    old.remove();
  }

  replaceChildren(/** @type {FakeNode[]} */ ...nodes) {
    for (const node of this.childNodes) node.parent = null;
    this.childNodes = [];
    this.append(...nodes);
  }

  getAttributeNames() {
    return [...this.#attributes.keys()];
  }

  getAttribute(/** @type {string} */ name) {
    return this.#attributes.get(name) ?? null;
  }

  removeAttribute(/** @type {string} */ name) {
    this.#attributes.delete(name);
    this.changes += 1;
  }

  setAttribute(/** @type {string} */ name, /** @type {string} */ value) {
    this.#attributes.set(name, value);
    this.changes += 1;
  }

  toggleAttribute(/** @type {string} */ name, /** @type {boolean} */ on) {
    if (on) this.#attributes.set(name, '');
    else this.#attributes.delete(name);
  }

  hasAttribute(/** @type {string} */ name) {
    return this.#attributes.has(name);
  }

  /** Knows `[data-part="name"]` and names of elements only. @returns {FakeElement | null} */
  querySelector(/** @type {string} */ selector) {
    if (/^[a-z]+$/.test(selector)) {
      for (const child of this.children) {
        const found = child.tag === selector ? child : child.querySelector(selector);
        if (found) return found;
      }
      return null;
    }
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

/** What morphdom tells form fields by: here are none. */
/** @type {any} */ (globalThis).HTMLElement ??= class {};

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
  ...['article', 'instead', 'reasoning', 'reasoning-label', 'reasoning-text', 'text', 'refusal', 'calls'],
  ...['state', 'progress', 'end', 'icon', 'label', 'sentence', 'retry', 'remove', 'continue', 'actions'],
  ...['figures', 'figures-list'],
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
