/**
 * Pictures beside the box. Each is made smaller here, to what models look at anyway: that is quick to
 * send, and nothing but the picture is in it, no place and no camera.
 */
import { undirected } from './names.js';
import { fill } from './words.js';

/** Of the longer side. Anthropic and OpenAI make larger ones smaller themselves. */
const LONG_SIDE = 1568;
/** In their order, until one is small enough. */
const QUALITIES = [0.85, 0.7, 0.5];

export class Pictures {
  #list;
  #limits;
  #words;
  #trouble;
  #changed;
  /** @type {{url: string, bytes: number}[]} */
  #pictures = [];
  welcome = true;

  /**
   * @param {HTMLElement} list
   * @param {object} options
   * @param {{max_images: number, max_image_bytes: number}} options.limits
   * @param {import('./words.js').Words} options.words
   * @param {(sentence: string) => void} options.trouble
   * @param {() => void} options.changed
   */
  constructor(list, { limits, words, trouble, changed }) {
    this.#list = list;
    this.#limits = limits;
    this.#words = words.table.pictures;
    this.#trouble = trouble;
    this.#changed = changed;
  }

  get urls() {
    return this.#pictures.map(({ url }) => url);
  }

  get bytes() {
    return this.#pictures.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** @param {string[]} urls instead of those that are there */
  replace(urls) {
    this.#pictures = urls.map((url) => ({ url, bytes: Math.floor((url.length - url.indexOf(',') - 1) * 0.75) }));
    this.#show();
  }

  /** @param {File} file */
  async add(file) {
    const { max_images: most, max_image_bytes: size } = this.#limits;
    if (!this.welcome) return this.#trouble(this.#words.not_seen);
    if (this.#pictures.length >= most) return this.#trouble(fill(this.#words.too_many, { count: most }));
    const blob = await smaller(file, size);
    if (blob === null) return this.#trouble(fill(this.#words.not_taken, { name: undirected(file.name) }));
    if (blob.size > size) return this.#trouble(fill(this.#words.too_large, { name: undirected(file.name) }));
    this.#pictures.push({ url: await dataUrl(blob), bytes: blob.size });
    this.#show();
    this.#changed();
  }

  #show() {
    this.#list.replaceChildren(...this.#pictures.map((picture, n) => this.#item(picture, n)));
    this.#list.hidden = this.#pictures.length === 0;
  }

  /**
   * @param {{url: string, bytes: number}} picture
   * @param {number} n
   */
  #item(picture, n) {
    const item = document.createElement('li');
    const shown = document.createElement('img');
    shown.src = picture.url;
    shown.alt = fill(this.#words.number, { number: n + 1 });
    const remove = document.createElement('button');
    remove.type = 'button';
    remove.textContent = '×';
    remove.setAttribute('aria-label', fill(this.#words.remove, { number: n + 1 }));
    remove.addEventListener('click', () => {
      this.#pictures.splice(this.#pictures.indexOf(picture), 1);
      this.#show();
      this.#changed();
    });
    item.append(shown, remove);
    return item;
  }
}

/**
 * @param {Blob} file
 * @param {number} maxBytes
 * @returns {Promise<Blob | null>} null: this browser cannot read it
 */
async function smaller(file, maxBytes) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file); // turned as its camera was held
  } catch {
    return null;
  }
  const scale = Math.min(1, LONG_SIDE / Math.max(bitmap.width, bitmap.height));
  // A GIF may move, and a frame of it would not; what it tells of its maker the server takes out.
  if (file.type === 'image/gif' && scale === 1 && file.size <= maxBytes) return file;
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const ground = canvas.getContext('2d');
  ground?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  const png = file.type === 'image/png' ? await drawn(canvas, 'image/png') : null;
  if (png && png.size <= maxBytes) return png;
  if (ground) {
    ground.globalCompositeOperation = 'destination-over'; // what is seen through would be black
    ground.fillStyle = '#fff';
    ground.fillRect(0, 0, canvas.width, canvas.height);
  }
  let made = null;
  for (const quality of QUALITIES) {
    made = await drawn(canvas, 'image/jpeg', quality);
    if (made && made.size <= maxBytes) break;
  }
  return made;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {string} type
 * @param {number} [quality]
 * @returns {Promise<Blob | null>}
 */
function drawn(canvas, type, quality) {
  return new Promise((resolve) => canvas.toBlob(resolve, type, quality));
}

/** @param {Blob} blob @returns {Promise<string>} */
function dataUrl(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
