/** Requests to our own API: who we are, and what became of it. Nothing here throws for a failure. */

import { csrfToken, renewToken } from './token.js';

/**
 * @typedef {object} Reply
 * @property {number | 'network'} status `network`: no answer came, and whether it arrived is not known
 * @property {any} body of a JSON answer, else null
 * @property {string} detail the server's own sentence about what went wrong, or ''
 */

/** How long a send or a stop may take before the person is told that the server cannot be reached. */
const PATIENCE_MS = 20_000;

/** Random enough for a viewer or an idempotency key; `randomUUID` exists only on https. */
export function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** What went wrong is said in the language of the page, which a person may have chosen. */
function accepts() {
  return { Accept: 'application/json', 'Accept-Language': document.documentElement.lang || 'en' };
}

/**
 * @param {string} url
 * @param {object} [options]
 * @param {unknown} [options.json]
 * @param {string} [options.key] Idempotency-Key: the same one may be sent again without harm
 * @param {boolean} [options.keepalive] the request outlives the page
 * @returns {Promise<Reply>}
 */
export async function post(url, { json, key, keepalive = false } = {}) {
  /** @type {Record<string, string>} */
  const headers = accepts();
  if (json !== undefined) headers['Content-Type'] = 'application/json';
  if (key) headers['Idempotency-Key'] = key;
  const body = json === undefined ? undefined : JSON.stringify(json);
  return change(url, { method: 'POST', headers, body, keepalive });
}

/**
 * @param {string} url
 * @param {unknown} json
 * @returns {Promise<Reply>}
 */
export async function patch(url, json) {
  const headers = { ...accepts(), 'Content-Type': 'application/json' };
  return change(url, { method: 'PATCH', headers, body: JSON.stringify(json) });
}

/**
 * @param {string} url
 * @returns {Promise<Reply>}
 */
export async function get(url) {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  return answer(() => fetch(url, { headers: accepts(), cache: 'no-store', signal }));
}

/**
 * A refusal may be owed to a token of before the last sign-in: nothing was done then, and it is asked
 * once more with the one of now.
 * @param {string} url
 * @param {RequestInit & {headers: Record<string, string>}} request
 */
async function change(url, request) {
  const ask = () => {
    const headers = { ...request.headers, 'X-CSRFToken': csrfToken() };
    const signal = request.keepalive ? undefined : AbortSignal.timeout(PATIENCE_MS);
    return answer(() => fetch(url, { ...request, headers, signal }));
  };
  const reply = await ask();
  return reply.status === 403 && !request.keepalive && (await renewToken()) ? ask() : reply;
}

/**
 * @param {() => Promise<Response>} request
 * @returns {Promise<Reply>}
 */
async function answer(request) {
  try {
    const response = await request();
    const body = /json/.test(response.headers.get('Content-Type') ?? '') ? await response.json() : null;
    return { status: response.status, body, detail: response.ok ? '' : (body?.detail ?? '') };
  } catch {
    return { status: 'network', body: null, detail: '' };
  }
}
