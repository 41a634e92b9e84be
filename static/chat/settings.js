/**
 * What a chat is told beside its messages: its fields stand at the box, named as the API names them
 * (`[data-setting]`). Each is kept with the chat as soon as it is changed; those of a chat that is not
 * there yet, when it is begun. Without scripts they are sent with the next message.
 */
import { patch } from './http.js';

/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Field */

export class ChatSettings {
  #fields;
  #chat;
  #words;
  #patch;

  /**
   * @param {HTMLFormElement} form
   * @param {object} options
   * @param {string | null} options.chat null: it is begun with its first message
   * @param {import('./words.js').Words} options.words
   * @param {(sentence: string) => void} options.trouble is told what was not saved, or ''
   * @param {(name: string, value: any) => void} [options.changed]
   * @param {typeof patch} [by]
   */
  constructor(form, { chat, words, trouble, changed = () => {} }, by = patch) {
    this.#chat = chat;
    this.#words = words;
    this.#patch = by;
    this.#fields = /** @type {Field[]} */ ([...form.querySelectorAll('[data-setting]')]);
    for (const field of this.#fields) {
      field.addEventListener('change', async () => {
        const sentence = await this.keep(field);
        trouble(sentence);
        if (sentence === '') changed(field.name, valueOf(field));
      });
    }
  }

  /** Of a chat that is about to be begun. @returns {Record<string, any>} */
  values() {
    return Object.fromEntries(this.#fields.map((field) => [field.name, valueOf(field)]));
  }

  /**
   * @param {Field} field
   * @returns {Promise<string>} what went wrong, or ''
   */
  async keep(field) {
    if (this.#chat === null) return '';
    const url = `/api/chats/${encodeURIComponent(this.#chat)}`;
    const { status, detail } = await this.#patch(url, { [field.name]: valueOf(field) });
    if (status === 200) return '';
    return [detail, this.#words.table.more.not_saved].filter((part) => part !== '').join(' ');
  }
}

/**
 * Empty: as it was at first, which the API calls null.
 * @param {Field} field
 */
export function valueOf(field) {
  const value = field.value.trim();
  if (field.dataset.setting !== 'number') return value;
  if (value === '') return null;
  const number = Number(value.replace(',', '.'));
  return Number.isNaN(number) ? value : number; // the server says what is wrong with it
}
