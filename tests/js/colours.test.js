/** Colours come in parts, and are those of the whole. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';

import { coloured, grow } from '../../static/chat/markdown/colours.js';
import { highlight, prepare } from '../../static/vendor/highlight.js';

const ROOT = new URL('../../', import.meta.url);
const grammars = { highlight, prepare };

/** As much of a document as colours need. */
class FakeNode {
  /** @type {any[]} */
  childNodes = [];
  data = '';
  className = '';
  /** @param {number} nodeType @param {string} [text] */
  constructor(nodeType, text = '') {
    this.nodeType = nodeType;
    this.data = text;
  }
  get ownerDocument() {
    return {
      createElement: () => new FakeNode(1),
      createTextNode: (/** @type {string} */ text) => new FakeNode(3, text),
      createDocumentFragment: () => new FakeNode(11),
    };
  }
  get lastChild() {
    return this.childNodes.at(-1) ?? null;
  }
  /** @returns {string} */
  get textContent() {
    return this.nodeType === 3 ? this.data : this.childNodes.map((child) => child.textContent).join('');
  }
  /** @param {any} child */
  appendChild(child) {
    this.childNodes.push(child);
    return child;
  }
  /** @param {string} text */
  appendData(text) {
    this.data += text;
  }
  /** @param {string} _ @param {string} value */
  setAttribute(_, value) {
    this.className = value;
  }
  /** @param {any} fragment */
  replaceChildren(fragment) {
    this.childNodes = fragment.childNodes;
  }
  /** @returns {any[]} what is seen: letters and their colours */
  get seen() {
    return this.childNodes.map((child) => (child.nodeType === 3 ? child.data : [child.className, child.seen]));
  }
}

/** @param {string} text @param {string} language @param {any} [with_] @returns {[FakeNode, number]} and the steps that it took */
function colour(text, language, with_ = grammars) {
  const code = new FakeNode(1);
  code.appendChild(new FakeNode(3, text));
  return [code, [.../** @type {any} */ (coloured(/** @type {any} */ (code), language, with_))].length];
}

/** @param {string} text @param {string} language */
function atOnce(text, language) {
  const whole = new FakeNode(11);
  grow(/** @type {any} */ (whole), highlight(language, text).children);
  return whole;
}

/** @type {[string, string, RegExp][]} */
const SOURCES = [
  ['python', 'chatapp/services/', /\.py$/],
  ['javascript', 'static/chat/', /\.js$/],
  ['css', 'static/chat/', /\.css$/],
  ['json', 'static/chat/', /\.json$/],
  ['xml', 'templates/chat/', /\.html$/],
  ['markdown', './', /\.md$/],
  ['yaml', 'deploy/', /\.yml$/],
  ['bash', 'deploy/', /\.sh$/],
];

/** Of languages that nothing here is written in: a small file of each. */
const SMALL = {
  c: '#include <stdio.h>\n#define MAX(a, b) \\\n  ((a) > (b) ? (a) : (b))\n\n/* two\n\n   parts */\nint main(void) {\n  printf("%d\\n", MAX(1, 2)); // why\n  return 0;\n}\n\n',
  cpp: 'template <typename T>\nclass Box : public Base {\n public:\n  auto get() const -> T { return R"(raw\n\ntext)"; }\n};\n\n',
  csharp: '/// <summary>\n/// x\n/// </summary>\npublic class A<T> where T : new()\n{\n    var s = @"two\n\nlines";\n    string t = $"{s} {1 + 2}";\n}\n\n',
  java: '/**\n * Says.\n *\n * @param x what\n */\n@Override\npublic int say(String x) throws Error {\n  return """\n    text\n\n    block""".length();\n}\n\n',
  go: 'package main\n\nfunc (t *T) Say(x string) (int, error) {\n\ts := `raw\n\ntext`\n\treturn len(s), nil // why\n}\n\n',
  rust: "fn say<'a>(x: &'a str) -> Result<u8, Error> {\n    let s = r#\"raw\n\ntext\"#; /* a /* b */\n\n c */\n    println!(\"{}\", s);\n    Ok(b'x')\n}\n\n",
  php: "<?php\nnamespace A\\B;\n\nfunction say(?string $x = null): int {\n  $s = <<<EOT\ntwo $x\n\nlines\nEOT;\n  return strlen($s); # why\n}\n\n?>\n<p>html</p>\n\n",
  ruby: 'module A\n  class B < C\n    def say(x)\n      s = <<~TEXT\n        two #{x}\n\n        lines\n      TEXT\n      s.map { |y| y =~ /re/ }\n    end\n  end\nend\n\n=begin\nnot\n\nread\n=end\n\n',
  kotlin: 'data class A(val x: Int = 1) {\n  fun say() = """two\n\n  ${x}"""\n}\n\n',
  typescript: 'export interface A<T> extends B {\n  say(x: string): Promise<T>;\n}\n\nconst t = <T,>(x: T) => `two\n\n${x}`;\n\n',
  sql: "-- why\nSELECT a, COUNT(*) FROM b WHERE c = 'it''s\n\nso' GROUP BY a;\n\n",
  diff: 'diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-old\n+new\n\n same\n\n',
};

/** @param {string} language @param {string} text */
function holds(language, text) {
  const [code] = colour(text, language);
  assert.deepEqual(code.seen, atOnce(text, language).seen, language);
  assert.ok(text.length < 50 || code.childNodes.length > 1, `${language}: it has colours`);
}

for (const [language, folder, names] of SOURCES) {
  test(`files of this project in ${language} look as if they were read at once`, async () => {
    for (const _ of prepare(language));
    const files = readdirSync(new URL(folder, ROOT)).filter((name) => names.test(name));
    assert.ok(files.length > 0);
    for (const name of files) holds(language, readFileSync(new URL(folder + name, ROOT), 'utf8').slice(0, 12_000));
  });
}

for (const [language, text] of Object.entries(SMALL)) {
  test(`so does ${language}, wherever it is divided`, () => {
    for (const _ of prepare(language));
    for (let shift = 0; shift < 40; shift += 4) holds(language, text.slice(-shift) + text.repeat(Math.ceil(4_000 / text.length)));
  });
}

test('50,000 letters are many small steps', () => {
  for (const _ of prepare('json'));
  const text = `{\n${Array.from({ length: 1_500 }, (_, n) => `  "key_${n}": [1, "text", null],\n`).join('')}  "end": 1\n}\n`;
  /** @type {number[]} */
  const lengths = [];
  const counted = (/** @type {string} */ language, /** @type {string} */ part) => {
    lengths.push(part.length);
    return highlight(language, part);
  };
  const [code, steps] = colour(text, 'json', { prepare, highlight: counted });
  assert.ok(steps > 40 && Math.max(...lengths) < 2_500, `${steps} steps, at most ${Math.max(...lengths)} letters`);
  assert.equal(code.textContent, text);
});

test('what cannot be divided stays as it is where it is long, and has colours where it is short', () => {
  for (const _ of prepare('python'));
  const long = `x = """${'a line of a text\n\n'.repeat(400)}"""\n`;
  assert.deepEqual(colour(long, 'python')[0].seen, [long]);
  const short = `x = """${'a line of a text\n\n'.repeat(100)}"""\n`;
  assert.deepEqual(colour(short, 'python')[0].seen, atOnce(short, 'python').seen);
  const minified = 'let a=1;'.repeat(1_000);
  assert.deepEqual(colour(minified, 'javascript')[0].seen, [minified]);
});
