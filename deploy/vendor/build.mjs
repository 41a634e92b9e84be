/**
 * Makes static/vendor/ from the packages of package-lock.json: one minified module per purpose,
 * their licences, and vendor.json with versions and hashes.
 *
 *   npm ci --ignore-scripts && node build.mjs            writes
 *   npm ci --ignore-scripts && node build.mjs --check    fails if the committed files differ
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

const HERE = dirname(fileURLToPath(import.meta.url));
const OUT = join(HERE, '..', '..', 'static', 'vendor');
/** One module each. */
const WHOLE = ['markdown', 'highlight'];
/** What several of these share is a module of its own, and evaluated with the first of them. */
const PARTS = ['maths', 'maths_tables', 'maths_builders', 'maths_commands'];

/** @param {string[]} entries @param {boolean} splitting */
function bundle(entries, splitting) {
  return build({
    absWorkingDir: HERE,
    entryPoints: entries.map((name) => `entry/${name}.js`),
    outdir: OUT,
    bundle: true,
    minify: true,
    splitting,
    chunkNames: 'maths-[hash]',
    format: 'esm',
    target: 'es2022',
    charset: 'utf8',
    legalComments: 'none',
    alias: { 'linkify-it': './entry/no-linkify.js' },
    define: { __VERSION__: '""' }, // KaTeX's own, of its sources
    metafile: true,
    write: false,
  });
}

const results = [await bundle(WHOLE, false), await bundle(PARTS, true)];
const inputs = results.flatMap((result) => Object.keys(result.metafile.inputs));

/** Packages whose code is in a bundle. */
const packages = [...new Set(inputs.map(packageOf).filter(Boolean))].sort();

/** @param {string} input */
function packageOf(input) {
  return /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input)?.[1] ?? '';
}

/** @param {string} name */
function manifest(name) {
  return JSON.parse(readFileSync(join(HERE, 'node_modules', name, 'package.json'), 'utf8'));
}

/** @param {string} name */
function licence(name) {
  const folder = join(HERE, 'node_modules', name);
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  const { version, license } = manifest(name);
  const text = file ? readFileSync(join(folder, file), 'utf8').trim() : `${license}; the package ships no licence text.`;
  return `${name} ${version} (${license})\n${'-'.repeat(60)}\n${text}\n`;
}

/** @type {Map<string, string>} */
const files = new Map();
for (const file of results.flatMap((result) => result.outputFiles)) files.set(file.path.split('/').at(-1) ?? '', file.text);
files.set('package.json', '{"type": "module", "private": true}\n');
files.set('THIRD_PARTY_LICENSES.txt', packages.map(licence).join('\n\n'));
const hashes = Object.fromEntries(
  [...files].sort().map(([name, text]) => [name, createHash('sha256').update(text).digest('hex')]),
);
const versions = Object.fromEntries(packages.map((name) => [name, manifest(name).version]));
const built = { esbuild: manifest('esbuild').version };
files.set('vendor.json', `${JSON.stringify({ built, versions, sha256: hashes }, null, 2)}\n`);

if (process.argv.includes('--check')) {
  const differ = [...files].filter(([name, text]) => {
    const path = join(OUT, name);
    return !existsSync(path) || readFileSync(path, 'utf8') !== text;
  });
  if (differ.length > 0) {
    console.error(`static/vendor is not what package-lock.json makes: ${differ.map(([name]) => name).join(', ')}`);
    process.exit(1);
  }
} else {
  rmSync(OUT, { recursive: true, force: true }); // names of parts change with what is in them
  mkdirSync(OUT, { recursive: true });
  for (const [name, text] of files) writeFileSync(join(OUT, name), text);
}
