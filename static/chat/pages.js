/**
 * Another page of this site, as a document to take parts from: the server's templates stay the only
 * source of what a list or a message looks like.
 *
 * XMLHttpRequest and not fetch, because only it parses: `DOMParser` and strings of HTML are refused by
 * `trusted-types 'none'`. Scripts in such a document do not run.
 */

/** How long a person waits for a part of a page before they are told that it did not come. */
const PATIENCE_MS = 20_000;

/**
 * @param {string} url of this site
 * @param {AbortSignal} [signal]
 * @returns {Promise<Document | null>} null: it did not come, or is not what was asked for
 */
export async function fetchPage(url, signal) {
  const request = await load(url, signal);
  return request?.status === 200 && isHere(request.responseURL, url) ? request.responseXML : null;
}

/**
 * Is this page, which came out of a cache, still the person's who is signed in now? Not where another
 * page is what they get.
 * @param {string} url of a page that every person has
 * @returns {Promise<boolean>} true also where nobody can say: there is no network
 */
export async function isStillTheirs(url) {
  const request = await load(url);
  if (request === null || request.status >= 500 || request.status === 429) return true;
  return isHere(request.responseURL, url) && whose(request.responseXML) === whose(document);
}

/** @param {Document | null} page the name of whoever it was made for; '': of nobody */
export function whose(page) {
  return page?.querySelector('#side .who')?.textContent ?? '';
}

/**
 * @param {string} url
 * @param {AbortSignal} [signal]
 * @returns {Promise<XMLHttpRequest | null>} null: no answer came
 */
function load(url, signal) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.responseType = 'document';
    request.timeout = PATIENCE_MS;
    request.onload = () => resolve(request);
    request.onerror = request.ontimeout = request.onabort = () => resolve(null);
    signal?.addEventListener('abort', () => request.abort());
    request.open('GET', url);
    request.send();
  });
}

/**
 * Who was signed out meanwhile is led to another page.
 * @param {string} came
 * @param {string} asked
 */
function isHere(came, asked) {
  return new URL(came).pathname === new URL(asked, location.href).pathname;
}

/**
 * A part of a fetched page, ready to be put into this one.
 * @param {Document} page
 * @param {string} selector
 * @returns {HTMLElement | null}
 */
export function partOf(page, selector) {
  const found = page.querySelector(selector);
  return found === null ? null : /** @type {HTMLElement} */ (document.importNode(found, true));
}
