/**
 * One answer on the page: what it means (fold.js) and how that looks (markdown/, render.js, words.js).
 *
 * Nothing here knows the network. Events and snapshots come in, one paint per frame goes out; what is
 * shown is only ever added to, unless a snapshot says otherwise. An answer that has not ended says what
 * it is doing, and one that ended other than completed says so: it can never look complete.
 *
 * @typedef {import('./fold.js').Event} Event
 * @typedef {import('./fold.js').Snapshot} Snapshot
 */
import { Folder } from './fold.js';
import { MarkdownView } from './markdown/view.js';
import { Painter, TextView } from './render.js';

const DELTAS = new Set(['text.delta', 'reasoning.delta', 'refusal.delta']);

export class AnswerView {
  #words;
  #painted;
  #painter;
  #folder = new Folder();
  /** Deltas that were folded and are not on the screen yet. @type {Event[]} */
  #pending = [];
  #replaced = true;
  /** What the connection has to say; null while it has nothing to. @type {string | null} */
  #connection = null;
  #stopping = false;
  /** Nothing more will come, though the answer may go on. */
  #unfollowed = false;
  /** What the answer goes on from, written before it. @type {{text: string, reasoning: string}} */
  #before;
  #parts;
  #views;

  /**
   * @param {HTMLElement} element the `<li>` that the server rendered, or a copy of its template
   * @param {object} options
   * @param {import('./words.js').Words} options.words
   * @param {() => void} [options.painted] called after each paint
   * @param {import('./render.js').Screen} [options.screen]
   * @param {{text: string, reasoning: string}} [options.before] what it goes on from
   */
  constructor(element, { words, painted = () => {}, screen, before = { text: '', reasoning: '' } }) {
    this.element = element;
    this.#before = before;
    this.#words = words;
    this.#painted = painted;
    this.#painter = new Painter(() => this.#paint(), screen);
    const part = (/** @type {string} */ name) =>
      /** @type {HTMLElement} */ (element.querySelector(`[data-part="${name}"]`));
    this.#parts = {
      article: part('article'),
      reasoning: part('reasoning'),
      calls: part('calls'),
      state: part('state'),
      end: part('end'),
      label: part('label'),
      sentence: part('sentence'),
      icon: part('icon'),
      retry: part('retry'),
      continue: part('continue'),
    };
    this.#views = {
      'text.delta': new MarkdownView(part('text'), { labels: words.table.prose }),
      'reasoning.delta': new TextView(part('reasoning-text')),
      'refusal.delta': new TextView(part('refusal')),
    };
  }

  get ended() {
    return this.#folder.ended;
  }

  snapshot() {
    return this.#folder.snapshot();
  }

  /** @param {Event} event */
  apply(event) {
    this.#folder.apply(event);
    if (DELTAS.has(event.type)) this.#pending.push(event);
    this.#painter.ask();
  }

  /**
   * Show this instead of everything so far; what is the same stays untouched.
   * @param {Snapshot} snapshot
   */
  replace(snapshot) {
    this.#folder = new Folder(snapshot);
    this.#pending = [];
    this.#replaced = true;
    this.#painter.ask();
  }

  /**
   * @param {string | null} sentence about the connection, shown in place of what the answer is doing
   * @param {boolean} [final] nothing more will come, though the answer may go on
   */
  connection(sentence, final = false) {
    this.#connection = sentence;
    this.#unfollowed = final && !this.ended;
    this.element.toggleAttribute('data-unfollowed', this.#unfollowed);
    this.#painter.ask();
  }

  /** @param {boolean} stopping a stop was asked for and the end has not come yet */
  stopping(stopping) {
    this.#stopping = stopping;
    this.#painter.ask();
  }

  visibilityChanged() {
    this.#painter.visibilityChanged();
  }

  /** Paint what is waiting now, before the page is put away. */
  flush() {
    this.#painter.now();
  }

  #paint() {
    const snapshot = this.#folder.snapshot();
    this.#paintText(snapshot);
    this.#paintCalls(snapshot);
    this.element.dataset.status = snapshot.status;
    this.element.toggleAttribute('data-running', !this.ended);
    setAttribute(this.#parts.article, 'aria-busy', String(!this.ended));
    this.#paintState(snapshot);
    this.#paintEnd(snapshot);
    this.#painted();
  }

  /** @param {Snapshot} snapshot */
  #paintText(snapshot) {
    if (this.#replaced) {
      this.#views['text.delta'].show(this.#before.text + snapshot.text);
      this.#views['reasoning.delta'].show(this.#reasoning(snapshot));
      this.#views['refusal.delta'].show(snapshot.refusal);
      this.#replaced = false;
    } else {
      // Neighbours of one kind become one change of the document.
      for (const [type, view] of Object.entries(this.#views)) {
        view.append(this.#pending.filter((event) => event.type === type).map((event) => event.delta).join(''));
      }
    }
    this.#pending = [];
    if (this.ended || this.#unfollowed) this.#views['text.delta'].finish();
    this.#parts.reasoning.hidden = this.#reasoning(snapshot) === '';
  }

  /** @param {Snapshot} snapshot */
  #reasoning({ reasoning }) {
    return [this.#before.reasoning, reasoning].filter((part) => part !== '').join('\n\n');
  }

  /** @param {Snapshot} snapshot */
  #paintCalls({ tool_calls: calls }) {
    const { calls: list } = this.#parts;
    list.hidden = calls.length === 0;
    calls.forEach((call, index) => {
      const item = list.children[index] ?? list.appendChild(callItem(list.ownerDocument));
      setText(item.children[0], call.name);
      setText(item.children[1], call.arguments ? JSON.stringify(call.arguments) : call.raw);
    });
    while (list.children.length > calls.length) list.lastElementChild?.remove();
  }

  /** @param {Snapshot} snapshot */
  #paintState(snapshot) {
    const { state } = this.#parts;
    state.hidden = this.ended && this.#connection === null;
    const doing = this.#stopping ? this.#words.table.state.stopping : this.#words.state(snapshot);
    setText(state, this.#connection ?? (this.ended ? '' : doing));
    state.toggleAttribute('data-connection', this.#connection !== null);
  }

  /** @param {Snapshot} snapshot */
  #paintEnd(snapshot) {
    const { end, label, sentence, icon, retry, continue: goOn } = this.#parts;
    if (!this.ended) {
      end.hidden = true;
      return;
    }
    const words = this.#words.end({ ...snapshot, text: this.#before.text + snapshot.text });
    end.hidden = words.label === '';
    setText(label, words.label);
    setText(sentence, words.sentence);
    setAttribute(icon, 'href', `#icon-${snapshot.status}`);
    retry.hidden = !words.retry;
    goOn.hidden = !words.continues;
  }
}

/**
 * Writing what already stands there would still wake observers and screen readers.
 * @param {Element} element
 * @param {string} text
 */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {string} value
 */
function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** @param {Document} document */
function callItem(document) {
  const item = document.createElement('li');
  item.append(document.createElement('strong'), document.createElement('code'));
  return item;
}
