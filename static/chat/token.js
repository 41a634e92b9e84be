/**
 * The token that the page's own forms carry (the cookie may be hidden from scripts). Signing in gives
 * the browser another one: a page that stood open fetches it then, and goes on.
 */
import { fetchPage, whose } from './pages.js';

const FIELD = '[name="csrfmiddlewaretoken"]';

export function csrfToken() {
  const field = /** @type {HTMLInputElement | null} */ (document.querySelector(FIELD));
  return field?.value ?? '';
}

/** Several requests may be refused at once. @type {Promise<boolean> | null} */
let renewing = null;

/** @returns {Promise<boolean>} there is another one, and it is the same person's */
export function renewToken() {
  renewing ??= renew().finally(() => {
    renewing = null;
  });
  return renewing;
}

async function renew() {
  const home = /** @type {HTMLAnchorElement | null} */ (document.querySelector('a.brand'))?.href;
  const page = home ? await fetchPage(home) : null;
  const fresh = /** @type {HTMLInputElement | undefined | null} */ (page?.querySelector(FIELD))?.value;
  // What somebody wrote here is not sent in the name of who signed in after them.
  if (!fresh || whose(page) !== whose(document)) return false;
  for (const field of document.querySelectorAll(FIELD)) /** @type {HTMLInputElement} */ (field).value = fresh;
  return true;
}
