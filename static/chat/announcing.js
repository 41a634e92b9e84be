/**
 * What is said aloud, in the two regions that screen readers listen to: what may wait for a pause, and
 * what went wrong for good and is the person's turn now, which is heard at once. The transcript itself is
 * silent: readers that hear every change of it truncate and drop most (frontend of LibreChat, #3570).
 *
 * How much is said is the person's choice: that an answer begins and ends (''), all of it at its end
 * (`whole`), its sentences as they come (`sentences`), or only what went wrong (`silent`).
 */
import { plainText } from './copying.js';

/** Between two readings of sentences: what comes faster is cut off by the next. */
const BATCH_MS = 1_500;
/** Between the end of an answer, said in a sentence, and all of it: one would replace the other. */
const PAUSE_MS = 1_000;
/** Up to the last whole sentence or block. */
const SENTENCES = /^[^]*(?:[.!?…:]["'”’)\]]*\s|[。！？؟]|\n)/u;

/** @typedef {{setTimeout: (run: () => void, ms: number) => any}} Env */

/** @type {Env} */
const browser = { setTimeout: (run, ms) => globalThis.setTimeout(run, ms) };

export class Announcer {
  #region;
  #alert;
  #how;
  #routine;
  #env;
  /** How much of each answer was said, in characters. @type {WeakMap<object, number>} */
  #said = new WeakMap();
  /** Answers that were read as a whole. @type {WeakSet<object>} */
  #read = new WeakSet();
  #waits = false;

  /**
   * @param {Element} region with `role="status"`
   * @param {object} options
   * @param {Element} options.alert with `role="alert"`
   * @param {string} options.how
   * @param {import('./words.js').Words} options.words
   * @param {Env} [options.env]
   */
  constructor(region, { alert, how, words, env = browser }) {
    this.#region = region;
    this.#alert = alert;
    this.#how = how;
    this.#env = env;
    const { started, still, completed, back } = words.table.announce;
    this.#routine = [started, still, back, completed.split('{')[0]];
  }

  /**
   * @param {string} sentence
   * @param {boolean} [atOnce] nothing more will come, and somebody has to do something about it
   */
  say(sentence, atOnce = false) {
    this.#alert.textContent = atOnce ? sentence : ''; // the same words once more are heard once more
    if (atOnce) return;
    const isRoutine = this.#routine.some((begin) => sentence.startsWith(begin));
    if (this.#how !== 'silent' || !isRoutine) this.#region.textContent = sentence;
  }

  /**
   * What is there already is not read: the page has just come.
   * @param {{prose: Element}} view
   */
  stands(view) {
    this.#said.set(view, plainText(view.prose).length);
  }

  /**
   * After each paint of an answer.
   * @param {{ended: boolean, prose: Element}} view
   */
  wrote(view) {
    if (this.#how === 'sentences') {
      if (this.#waits) return;
      this.#waits = true;
      this.#env.setTimeout(() => this.#batch(view), BATCH_MS);
    } else if (this.#how === 'whole' && view.ended && !this.#read.has(view)) {
      this.#read.add(view);
      this.#env.setTimeout(() => this.#tell(plainText(view.prose)), PAUSE_MS);
    }
  }

  /** @param {{ended: boolean, prose: Element}} view */
  #batch(view) {
    this.#waits = false;
    const text = plainText(view.prose);
    const from = this.#said.get(view) ?? 0;
    const rest = text.slice(from);
    const whole = view.ended ? rest : (SENTENCES.exec(rest)?.[0] ?? '');
    this.#said.set(view, from + whole.length);
    this.#tell(whole);
  }

  /** @param {string} text */
  #tell(text) {
    if (text.trim() !== '') this.#region.textContent = text;
  }
}
