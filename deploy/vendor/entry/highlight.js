// Grammars of the languages that people ask about most. Trees, never HTML strings.
import HighlightJs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import kotlin from 'highlight.js/lib/languages/kotlin';
import markdown from 'highlight.js/lib/languages/markdown';
import php from 'highlight.js/lib/languages/php';
import python from 'highlight.js/lib/languages/python';
import ruby from 'highlight.js/lib/languages/ruby';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';

const known = {
  python, javascript, bash, typescript, json, xml, css, sql, yaml, java, cpp, csharp, go, rust, php, c, ruby,
  kotlin, markdown, diff,
};
/** Languages that are written within another one. */
const within = {
  javascript: ['xml', 'css'], typescript: ['xml', 'css', 'javascript'], xml: ['css', 'javascript'],
  markdown: ['xml', 'css', 'javascript'], yaml: ['ruby'],
};
const grammars = HighlightJs.newInstance();

/** What a grammar finds: texts, and nodes {names, children} with the names that its themes know. */
class Tree {
  #stack = [{ names: [], children: [] }];
  constructor(options) {
    this.options = options;
  }
  get children() {
    return this.#stack[0].children;
  }
  addText(text) {
    if (text !== '') this.#stack.at(-1).children.push(text);
  }
  startScope(name) {
    this.openNode(name);
  }
  endScope() {
    this.closeNode();
  }
  openNode(name) {
    // The first part of a name gets the prefix, the others get underscores.
    const names = String(name).split('.').map((part, n) => (n === 0 ? this.options.classPrefix + part : part + '_'.repeat(n)));
    const node = { names, children: [] };
    this.#stack.at(-1).children.push(node);
    this.#stack.push(node);
  }
  closeNode() {
    this.#stack.pop();
  }
  __addSublanguage(other) {
    this.#stack.at(-1).children.push(...other.children);
  }
  finalize() {}
  toHTML() {
    return '';
  }
}
grammars.configure({ __emitter: Tree, classPrefix: 'hljs-' });
const registered = (name) => grammars.getLanguage(name) !== undefined;

// All grammars at once take a slow phone a twentieth of a second: each is made ready when it is asked for.
function* add(name) {
  for (const one of [name, ...(within[name] ?? [])]) {
    if (grammars.listLanguages().includes(one)) continue;
    grammars.registerLanguage(one, known[one]);
    yield;
  }
}

/** In steps: makes a language ready, by its name or another name that its grammar knows. Returns whether there is one. */
export function* prepare(language) {
  if (Object.hasOwn(known, language)) yield* add(language);
  for (const name of Object.keys(known)) {
    if (registered(language)) break;
    yield* add(name);
  }
  if (!registered(language)) return false;
  highlight(language, '');
  yield;
  return true;
}

/**
 * `closed`: nothing that began in the text is still open at its end, so what follows can be read by itself.
 * Raises where a grammar fails.
 */
export function highlight(language, text) {
  const found = grammars.highlight(text, { language, ignoreIllegals: true });
  if (found.errorRaised) throw found.errorRaised;
  return { children: found._emitter.children, closed: found._top.parent === undefined };
}
