/**
 * Tokens become elements, from a list of what may be made; there is no HTML on the way, so nothing
 * that a model writes can become anything else.
 *
 * The twin of chatapp/rendering/html.py: both make the same tree.
 *
 * @typedef {import('./rules.js').Token} Token
 * @typedef {{code: string, region: string, table: string}} Labels names for assistive technology
 */
import { trimmed } from './blanks.js';
import { hostOf, misleads } from './links.js';

/** Headings of an answer stand below those of the page. @type {Record<string, string>} */
const HEADINGS = { h1: 'h3', h2: 'h4', h3: 'h5', h4: 'h6', h5: 'h6', h6: 'h6' };
/** @type {Record<string, string>} */
const PAIRS = {
  paragraph: 'p', blockquote: 'blockquote', bullet_list: 'ul', ordered_list: 'ol', list_item: 'li',
  thead: 'thead', tbody: 'tbody', tr: 'tr', th: 'th', td: 'td', em: 'em', strong: 'strong', s: 's',
};

/** @type {Labels} */
export const LABELS = { code: 'Code', region: '{language} code', table: 'Table' };

/**
 * @param {Document} document
 * @param {Token[]} tokens
 * @param {Labels} labels
 * @returns {Element[]} one per block
 */
export function build(document, tokens, labels) {
  const root = document.createElement('div');
  new Builder(document, root, labels).add(tokens);
  return [...root.children];
}

class Builder {
  #document;
  #labels;
  /** @type {Element[]} */
  #stack;

  /** @param {Document} document @param {Element} root @param {Labels} labels */
  constructor(document, root, labels) {
    this.#document = document;
    this.#labels = labels;
    this.#stack = [root];
  }

  /** @param {Token[]} tokens */
  add(tokens) {
    for (const token of tokens) this.#add(token);
  }

  get #here() {
    return /** @type {Element} */ (this.#stack.at(-1));
  }

  /** @param {Token} token */
  #add(token) {
    const { type, content } = token;
    if (type.endsWith('_open')) this.#open(token, type.slice(0, -5));
    else if (type.endsWith('_close')) this.#close(token, type.slice(0, -6));
    else if (type === 'inline') this.add(token.children ?? []);
    else if (type === 'text' || type === 'text_special' || type === 'plain_inline') this.#text(content);
    else if (type === 'softbreak') this.#text('\n');
    else if (type === 'hardbreak') this.#append('br');
    else if (type === 'hr') this.#append('hr');
    else if (type === 'code_inline') this.#append('code', {}, content);
    else if (type === 'math_inline') this.#append('span', { class: token.markup === '$$' ? 'math display' : 'math' }, content);
    else if (type === 'math_block') this.#append('div', { class: 'math display' }, content);
    else if (type === 'plain') this.#append('p', {}, content);
    else if (type === 'fence' || type === 'code_block') this.#code(token.info ?? '', content);
    else if (type === 'image') this.#image(token);
    else throw new Error(`no rule for ${type}`);
  }

  /** @param {Token} token @param {string} name */
  #open(token, name) {
    if (token.hidden) return;
    if (name === 'link') this.#push('a', linkAttributes(token.attrGet('href')));
    else if (name === 'table') {
      this.#push('div', { class: 'table', tabindex: '0', role: 'region', 'aria-label': this.#labels.table });
      this.#push('table', { dir: 'auto' });
    } else if (name === 'heading') this.#push(HEADINGS[token.tag]);
    else this.#push(PAIRS[name], attributesOf(token));
  }

  /** @param {Token} token @param {string} name */
  #close(token, name) {
    if (token.hidden) return;
    const element = this.#here;
    if (name === 'link') {
      const href = element.getAttribute('href') ?? '';
      if (misleads(element.textContent ?? '', href)) this.#append('span', { class: 'host' }, ` (${hostOf(href)})`);
    }
    this.#stack.pop();
    if (name === 'table') this.#stack.pop();
  }

  /** Pictures would be fetched, and a request can carry away what was said: a link, or its text. @param {Token} token */
  #image(token) {
    const alt = spoken(token.children ?? []);
    if (this.#stack.some((element) => element.nodeName.toLowerCase() === 'a')) {
      this.#text(alt);
      return;
    }
    const href = token.attrGet('src');
    this.#push('a', { class: 'picture', ...linkAttributes(href) });
    if (alt) this.#text(alt);
    this.#append('span', { class: 'host' }, alt ? ` (${hostOf(href)})` : hostOf(href));
    this.#stack.pop();
  }

  /** @param {string} info @param {string} content */
  #code(info, content) {
    const language = languageOf(info);
    const label = language ? this.#labels.region.replace('{language}', () => language) : this.#labels.code;
    this.#push('figure', language ? { class: 'code', 'data-language': language } : { class: 'code' });
    this.#append('figcaption', {}, language || this.#labels.code);
    this.#push('pre', { tabindex: '0', role: 'region', 'aria-label': label });
    this.#append('code', {}, content);
    this.#stack.pop();
    this.#stack.pop();
  }

  /** @param {string} tag @param {Record<string, string>} [attributes] */
  #push(tag, attributes) {
    this.#stack.push(this.#append(tag, attributes));
  }

  /** @param {string} tag @param {Record<string, string>} [attributes] @param {string} [text] */
  #append(tag, attributes = {}, text = '') {
    const element = this.#document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== '') element.appendChild(this.#document.createTextNode(text));
    this.#here.appendChild(element);
    return element;
  }

  /** Neighbours are one node, as they are when the server's page was read. @param {string} text */
  #text(text) {
    if (text === '') return;
    const last = this.#here.lastChild;
    if (last?.nodeType === 3) /** @type {Text} */ (last).appendData(text);
    else this.#here.appendChild(this.#document.createTextNode(text));
  }
}

/** @param {string} info what follows the signs that open a block of code */
export function languageOf(info) {
  return trimmed(info).split(/[ \t{,:]/)[0].slice(0, 32);
}

/** @param {string} href @returns {Record<string, string>} */
function linkAttributes(href) {
  return { href, title: hostOf(href), rel: 'noopener noreferrer nofollow', target: '_blank' };
}

/** What has marks at its side: they stand where its first letter begins to be read. */
const SIDED = new Set(['bullet_list_open', 'ordered_list_open', 'blockquote_open']);

/** @param {Token} token @returns {Record<string, string>} */
function attributesOf(token) {
  const start = token.attrGet('start');
  if (SIDED.has(token.type)) return start === null ? { dir: 'auto' } : { dir: 'auto', start: String(start) };
  const side = /text-align:(center|right)/.exec(token.attrGet('style') ?? '')?.[1];
  return side ? { class: side } : {};
}

/** @param {Token[]} tokens @returns {string} */
function spoken(tokens) {
  return tokens.map((token) => {
    if (token.type === 'image') return spoken(token.children ?? []);
    return token.type === 'softbreak' || token.type === 'hardbreak' ? ' ' : token.content;
  }).join('');
}
