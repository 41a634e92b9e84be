/**
 * Without blanks around it. Not `trim`: Python's idea of a blank is another one; and no expression,
 * which would try each run of blanks from each of its characters.
 * @param {string} text
 */
export function trimmed(text) {
  const blank = (/** @type {number} */ at) => text[at] === ' ' || text[at] === '\t' || text[at] === '\n';
  let [from, to] = [0, text.length];
  while (from < to && blank(from)) from += 1;
  while (to > from && blank(to - 1)) to -= 1;
  return text.slice(from, to);
}
