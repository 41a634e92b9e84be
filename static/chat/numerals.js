/**
 * Numbers as the page's language writes them; the twin of chatapp/numerals.py, which says the rule:
 * digits are 0 to 9 in every language. `tests/fixtures/words/numerals.json` holds both to it.
 */

/** @type {Map<string, Intl.NumberFormat>} */
const formats = new Map();

/** @param {string} language @param {number} digits of the fraction */
function format(language, digits) {
  const key = `${language} ${digits}`;
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const made = formats.get(key) ?? new Intl.NumberFormat(`${language}-u-nu-latn`, options);
  formats.set(key, made);
  return made;
}

/** What is read is told in the language of the page. */
function language() {
  return globalThis.document?.documentElement?.lang || 'en';
}

/** 1234567 as `1,234,567`. @param {number} number @param {string} [of] the language */
export function grouped(number, of = language()) {
  return format(of, 0).format(number);
}

/** So many tenths: 12345 as `1,234.5`. @param {number} count @param {string} [of] the language */
export function tenths(count, of = language()) {
  return format(of, 1).format(count / 10);
}
