/**
 * Long texts beside the box: a paste that would bury what is being written, or a file of text that was
 * dropped. Each can be opened and changed, put into the box, or taken away; a message carries them as
 * text (attached.js).
 */
import { preview } from './attached.js';
import { undirected } from './names.js';
import { size } from './question.js';

/** A paste longer than this is not what a person is writing. Two screens of a desk. */
export const LONG_CHARS = 8_000;

export class Attachments {
  #list;
  #template;
  #words;
  #changed;
  /** @type {import('./drafts.js').Attached[]} */
  #texts = [];
  #number = 0;

  /**
   * @param {HTMLElement} list
   * @param {object} options
   * @param {HTMLTemplateElement} options.template of one of them
   * @param {import('./words.js').Words} options.words
   * @param {(text: string | null) => void} options.changed with a text that goes into the box
   */
  constructor(list, { template, words, changed }) {
    this.#list = list;
    this.#template = template;
    this.#words = words;
    this.#changed = changed;
  }

  /** @returns {import('./drafts.js').Attached[]} */
  get texts() {
    return this.#texts.map((one) => ({ ...one }));
  }

  /** @param {import('./drafts.js').Attached[]} texts instead of those that are there */
  replace(texts) {
    this.#texts = [];
    this.#list.replaceChildren();
    for (const { name, text } of texts) this.#add({ name: undirected(String(name)), text: String(text) });
    this.#list.hidden = this.#texts.length === 0;
  }

  /**
   * @param {string} text
   * @param {string} [name]
   */
  add(text, name) {
    this.#number = Math.max(this.#number + 1, this.#texts.length + 1);
    this.#add({ name: undirected(name ?? `${this.#words.table.attached.pasted} ${this.#number}`), text });
    this.#list.hidden = false;
    this.#changed(null);
  }

  /** @param {import('./drafts.js').Attached} one */
  #add(one) {
    this.#texts.push(one);
    const item = /** @type {HTMLElement} */ (/** @type {Element} */ (this.#template.content.firstElementChild).cloneNode(true));
    /** @param {string} name */
    const part = (name) => /** @type {HTMLElement} */ (item.querySelector(`[data-part="${name}"]`));
    const whole = /** @type {HTMLTextAreaElement} */ (part('whole'));
    const describe = () => {
      part('size').textContent = size(one.text, this.#words);
      part('preview').textContent = preview(one.text);
    };
    part('name').textContent = one.name;
    whole.value = one.text;
    describe();
    whole.addEventListener('input', () => {
      one.text = whole.value;
      describe();
      this.#changed(null);
    });
    part('into').addEventListener('click', () => this.#take(one, item, one.text));
    part('remove').addEventListener('click', () => this.#take(one, item, null));
    this.#list.append(item);
  }

  /**
   * @param {import('./drafts.js').Attached} one
   * @param {HTMLElement} item
   * @param {string | null} into
   */
  #take(one, item, into) {
    this.#texts.splice(this.#texts.indexOf(one), 1);
    item.remove();
    this.#list.hidden = this.#texts.length === 0;
    this.#changed(into);
  }
}
