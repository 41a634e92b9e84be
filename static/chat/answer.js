/**
 * One answer on the page: what it means (fold.js) and how that looks (markdown/, render.js, calls.js),
 * in the words of words.js and telling.js.
 *
 * Nothing here knows the network. Events and snapshots come in, one paint per frame goes out; what is
 * shown is only ever added to, unless a snapshot says otherwise. An answer that has not ended says what
 * it is doing, and one that ended other than completed says so: it can never look complete.
 *
 * @typedef {import('./fold.js').Event} Event
 * @typedef {import('./fold.js').Snapshot} Snapshot
 */
import { CallsView, setText, writeRows } from './calls.js';
import { Folder } from './fold.js';
import { MarkdownView } from './markdown/view.js';
import { Painter, TextView } from './render.js';
import { Telling } from './telling.js';

/** Answers of this page that were followed, by their elements. @type {WeakMap<Element, AnswerView>} */
const views = new WeakMap();

/** @param {Element} element @returns {AnswerView | undefined} */
export function viewOf(element) {
  return views.get(element);
}

const DELTAS = new Set(['text.delta', 'reasoning.delta', 'refusal.delta']);
/** What ends the reasoning before it. */
const ANSWERS = new Set(['text.delta', 'refusal.delta', 'tool_call.started', 'tool_call.completed', 'ended']);

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
  /** The model that was asked for; '' until that is known. */
  #asked;
  /** When reasoning was seen to begin, and how long it took. @type {{from: number | null, ms: number | null}} */
  #reasoned = { from: null, ms: null };
  #telling;
  #now;
  #parts;
  #views;
  #calls;

  /**
   * @param {HTMLElement} element the `<li>` that the server rendered, or a copy of its template
   * @param {object} options
   * @param {import('./words.js').Words} options.words
   * @param {() => void} [options.painted] called after each paint
   * @param {import('./render.js').Screen} [options.screen]
   * @param {{text: string, reasoning: string}} [options.before] what it goes on from
   * @param {() => number} [options.now] milliseconds of a clock that is never set
   */
  constructor(element, { words, painted = () => {}, screen, before = { text: '', reasoning: '' }, now = () => performance.now() }) {
    this.element = element;
    views.set(element, this);
    this.#before = before;
    this.#asked = element.dataset.asked ?? '';
    this.#words = words;
    this.#telling = new Telling(words);
    this.#now = now;
    this.#painted = painted;
    this.#painter = new Painter(() => this.#paint(), screen);
    const part = (/** @type {string} */ name) =>
      /** @type {HTMLElement} */ (element.querySelector(`[data-part="${name}"]`));
    this.#parts = {
      article: part('article'),
      instead: part('instead'),
      reasoning: part('reasoning'),
      reasoningLabel: part('reasoning-label'),
      text: part('text'),
      calls: part('calls'),
      state: part('state'),
      progress: part('progress'),
      end: part('end'),
      label: part('label'),
      sentence: part('sentence'),
      icon: part('icon'),
      retry: part('retry'),
      continue: part('continue'),
      figures: part('figures'),
      figuresList: part('figures-list'),
    };
    this.#calls = new CallsView(this.#parts.calls);
    this.#views = {
      'text.delta': new MarkdownView(this.#parts.text, { labels: words.table.prose }),
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

  /** Where its words stand. @returns {Element} */
  get prose() {
    return this.#parts.text;
  }

  /** All that was written, as it was written: with what it goes on from. */
  get text() {
    return this.#before.text + this.#folder.text;
  }

  /** @param {Event} event */
  apply(event) {
    this.#folder.apply(event);
    if (event.type === 'created') this.#asked ||= event.model;
    this.#measure(event);
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

  /** @param {Event} event */
  #measure({ type }) {
    const { from, ms } = this.#reasoned;
    if (type === 'reasoning.delta') this.#reasoned.from ??= this.#now();
    else if (from !== null && ms === null && ANSWERS.has(type)) this.#reasoned.ms = this.#now() - from;
  }

  #paint() {
    const snapshot = this.#folder.snapshot();
    this.#paintText(snapshot);
    this.#paintReasoning(snapshot);
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
  }

  /** @param {Snapshot} snapshot */
  #reasoning({ reasoning }) {
    return [this.#before.reasoning, reasoning].filter((part) => part !== '').join('\n\n');
  }

  /**
   * Whether it is open is the person's: it never opens or closes by itself.
   * @param {Snapshot} snapshot
   */
  #paintReasoning(snapshot) {
    const { reasoning, reasoningLabel } = this.#parts;
    const whole = this.#reasoning(snapshot);
    reasoning.hidden = whole === '';
    const known = { seen_ms: this.#reasoned.ms, onlyThis: this.#before.reasoning === '' };
    setText(reasoningLabel, this.#telling.reasoning({ ...snapshot, reasoning: whole }, known));
  }

  /** @param {Snapshot} snapshot */
  #paintCalls({ tool_calls: calls }) {
    this.#parts.calls.hidden = calls.length === 0;
    this.#calls.show(calls.map((call) => this.#telling.call(call, this.ended)));
  }

  /** @param {Snapshot} snapshot */
  #paintState(snapshot) {
    const { state, progress, instead } = this.#parts;
    const doing = this.#stopping ? this.#words.table.state.stopping : this.#words.state(snapshot);
    const sentence = this.#connection ?? (this.ended ? '' : doing);
    state.hidden = sentence === '';
    setText(state, sentence);
    state.toggleAttribute('data-connection', this.#connection !== null);
    const { done, total } = snapshot.notice ?? {};
    progress.hidden = this.ended || this.#connection !== null || !total;
    if (!progress.hidden) {
      setAttribute(progress, 'max', String(total));
      setAttribute(progress, 'value', String(done ?? 0));
    }
    const other = this.#telling.instead(snapshot, this.#asked);
    instead.hidden = other === '';
    setText(instead, other);
  }

  /** @param {Snapshot} snapshot */
  #paintEnd(snapshot) {
    const { end, label, sentence, icon, retry, continue: goOn, figures, figuresList } = this.#parts;
    figures.hidden = !this.ended;
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
    writeRows(figuresList, this.#telling.figures(snapshot, { onlyThis: this.#before.text === '' }));
  }
}

/**
 * As `setText`.
 * @param {Element} element
 * @param {string} name
 * @param {string} value
 */
function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}
