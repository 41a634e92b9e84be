/**
 * Names that people, models and files bring: no name looks like another one. The twin of chatapp/named.py, which says why.
 */

export const DIRECTIONS = /[\u202A-\u202E\u2066-\u2069]/g;

/** @param {string} name */
export function undirected(name) {
  return name.replace(DIRECTIONS, '');
}
