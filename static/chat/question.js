/** What a person said, as templates/chat/_question.html shows it: paragraphs, and long texts folded. */
import { partsOf, preview } from './attached.js';
import { grouped } from './numerals.js';
import { TextView } from './render.js';
import { fill } from './words.js';

/**
 * @param {Element} box
 * @param {string} text
 * @param {{template: HTMLTemplateElement, words: import('./words.js').Words, pictures?: string[]}} with_
 */
export function showQuestion(box, text, { template, words, pictures = [] }) {
  for (const part of partsOf(text)) {
    if (part.name !== '') {
      box.append(foldedText(part, template, words));
      continue;
    }
    const said = document.createElement('div');
    new TextView(said).show(part.text);
    box.append(...said.childNodes);
  }
  if (pictures.length === 0) return;
  const list = document.createElement('div');
  list.className = 'pictures';
  for (const url of pictures) {
    const picture = document.createElement('img');
    picture.src = url;
    picture.alt = words.table.pictures.alt;
    list.append(picture);
  }
  box.append(list);
}

/**
 * @param {import('./drafts.js').Attached} part
 * @param {HTMLTemplateElement} template
 * @param {import('./words.js').Words} words
 */
export function foldedText(part, template, words) {
  const folded = /** @type {HTMLElement} */ (/** @type {Element} */ (template.content.firstElementChild).cloneNode(true));
  /** @param {string} name @param {string} value */
  const put = (name, value) => {
    const place = folded.querySelector(`[data-part="${name}"]`);
    if (place) place.textContent = value;
  };
  put('name', part.name);
  put('size', size(part.text, words));
  put('preview', preview(part.text));
  put('whole', part.text);
  return folded;
}

/**
 * The twin of `attached_size` in chatapp/templatetags/words.py.
 * @param {string} text
 * @param {import('./words.js').Words} words
 */
export function size(text, words) {
  const lines = text.replace(/\n$/, '').split('\n').length; // a line feed ends a line
  const { one, many } = words.table.attached.size;
  return fill(lines === 1 ? one : many, { characters: grouped([...text].length), lines: grouped(lines) });
}
