/** Sends messages: each at most once, however often the person presses Send. */
import { post, randomId } from './http.js';

/**
 * @typedef {{id: string, question: number, answer: number, status: 202, trouble: '', key: string}} Sent
 *   the ids of the response and of both messages
 * @typedef {{id: null, status: number | 'network', trouble: string, key: string}} Failed
 *   with a sentence for the person
 */

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
   * @param {{text: string, model?: string, images?: string[], on_disconnect: any}} message
   * @returns {Promise<Sent | Failed>}
   */
  async send(chat, message) {
    const sent = await this.resend(chat, message, this.key(chat, message));
    if (sent.id !== null) this.forget();
    return sent;
  }

  /**
   * The one that this message is sent with: the same again gets the same.
   * @param {string | null} chat
   * @param {any} message
   */
  key(chat, message) {
    const body = JSON.stringify([chat, message]);
    if (this.#attempt.body !== body) this.#attempt = { body, key: randomId() };
    return this.#attempt.key;
  }

  /**
   * Once more, with the key of an earlier attempt.
   * @param {string} chat
   * @param {any} message
   * @param {string} key
   * @returns {Promise<Sent | Failed>}
   */
  async resend(chat, message, key) {
    const url = `/api/chats/${encodeURIComponent(chat)}/messages`;
    const reply = await this.#post(url, { json: message, key });
    if (reply.status !== 202) return { ...this.#failed(reply), key };
    const { id, question_id: question, answer_id: answer } = reply.body;
    return { id, question, answer, status: 202, trouble: '', key };
  }

  /** The last attempt is somebody else's business now: the same words are a new message. */
  forget() {
    this.#attempt = { body: '', key: '' };
  }

  /**
   * It is in the box again: the same words are the same message.
   * @param {string | null} chat
   * @param {any} message
   * @param {string} key
   */
  takeBack(chat, message, key) {
    this.#attempt = { body: JSON.stringify([chat, message]), key };
  }

  /**
   * A chat for the first message of a new conversation.
   * @param {Record<string, any>} settings
   * @returns {Promise<{id: string, status: 201, trouble: ''} | {id: null, status: number | 'network', trouble: string}>}
   */
  async startChat(settings) {
    const reply = await this.#post('/api/chats', { json: settings });
    return reply.status === 201 ? { id: reply.body.id, status: 201, trouble: '' } : this.#failed(reply);
  }

  /**
   * @param {import('./http.js').Reply} reply
   * @returns {{id: null, status: number | 'network', trouble: string}}
   */
  #failed({ status, detail }) {
    return { id: null, status, trouble: this.#words.sendFailed(status, detail) };
  }
}
