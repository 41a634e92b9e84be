/**
 * Where a link of an answer may lead, and when its text is not to be trusted.
 *
 * The twin of chatapp/rendering/links.py. Addresses come from the parser, which has turned hosts
 * into ASCII (`xn--…` for foreign letters) and escaped what is none.
 */

import { trimmed } from './blanks.js';

/** A plain host: no user name before it, no escapes in it, which browsers would read differently. */
const WEB = /^https?:\/\/([0-9a-z](?:[0-9a-z.-]*[0-9a-z])?\.?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?(?:[/?#]|$)/i;
const MAIL = /^mailto:([^?]+)/i;
/** Looks like an address itself. */
const ADDRESS = /:\/\/|@|[^ \t\n.]\.[^ \t\n.]{2}/;

/** @param {string} href */
export function isLink(href) {
  return WEB.test(href) || MAIL.test(href);
}

/**
 * Who answers at this address, as it is shown.
 * @param {string} href of a link
 */
export function hostOf(href) {
  return (WEB.exec(href)?.[1] ?? MAIL.exec(href)?.[1] ?? '').toLowerCase();
}

/**
 * Whether the text names, or seems to name, another place than the one it leads to.
 * @param {string} text
 * @param {string} href
 */
export function misleads(text, href) {
  const host = hostOf(href);
  if (host.includes('xn--')) return true;
  if (!ADDRESS.test(text)) return false;
  const bare = (/** @type {string} */ name) => name.replace(/^www\./, '');
  const said = bare(trimmed(text).toLowerCase().replace(/^(?:https?:\/\/|mailto:)/, ''));
  const rest = said.startsWith(bare(host)) ? said.slice(bare(host).length) : 'x';
  return rest !== '' && !/^[/:?#]/.test(rest);
}
