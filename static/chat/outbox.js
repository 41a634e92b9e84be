/** Sends messages: each at most once, however often the person presses Send. */
import { post, randomId } from './http.js';

export class Outbox {
  #words;
  #post;
  /** What was sent last without success: the same again gets the same key. */
  #attempt = { body: '', key: '' };

  /**
   * @param {import('./words.js').Words} words
   * @param {typeof post} [by]
   */
  constructor(words, by = post) {
    this.#words = words;
    this.#post = by;
  }

  /**
   * @param {string} chat
   * @param {{text: string, model?: string, on_disconnect: any}} message
   * @returns {Promise<{id: string, question: number, answer: number, trouble: ''} | {id: null, trouble: string}>}
   *   the ids of the response and of both messages, or a sentence for the person
   */
  async send(chat, message) {
    const body = JSON.stringify([chat, message]);
    if (this.#attempt.body !== body) this.#attempt = { body, key: randomId() };
    const url = `/api/chats/${encodeURIComponent(chat)}/messages`;
    const reply = await this.#post(url, { json: message, key: this.#attempt.key });
    if (reply.status !== 202) return this.#failed(reply);
    this.#attempt = { body: '', key: '' };
    const { id, question_id: question, answer_id: answer } = reply.body;
    return { id, question, answer, trouble: '' };
  }

  /**
   * A chat for the first message of a new conversation.
   * @param {Record<string, any>} settings
   * @returns {Promise<{id: string, trouble: ''} | {id: null, trouble: string}>}
   */
  async startChat(settings) {
    const reply = await this.#post('/api/chats', { json: settings });
    return reply.status === 201 ? { id: reply.body.id, trouble: '' } : this.#failed(reply);
  }

  /**
   * @param {import('./http.js').Reply} reply
   * @returns {{id: null, trouble: string}}
   */
  #failed({ status, detail }) {
    return { id: null, trouble: this.#words.sendFailed(status, detail) };
  }
}
