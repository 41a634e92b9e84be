// Grammars of the languages that people ask about most. hast trees, never HTML strings.
import { createLowlight } from 'lowlight';
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
const grammars = createLowlight();

// All grammars at once take a slow phone a twentieth of a second: each is made ready when it is asked for.
function* add(name) {
  for (const one of [name, ...(within[name] ?? [])]) {
    if (grammars.listLanguages().includes(one)) continue;
    grammars.register(one, known[one]);
    yield;
  }
}

/** In steps: makes a language ready, by its name or another name that its grammar knows. Returns whether there is one. */
export function* prepare(language) {
  if (Object.hasOwn(known, language)) yield* add(language);
  for (const name of Object.keys(known)) {
    if (grammars.registered(language)) break;
    yield* add(name);
  }
  if (!grammars.registered(language)) return false;
  grammars.highlight(language, '');
  yield;
  return true;
}

export const highlight = (language, text) => grammars.highlight(language, text);
