/** Earlier messages come as one scrolls up, or by the link; what is being read stays where it is. */
import { polish } from './markdown/code.js';
import { fetchPage, partOf } from './pages.js';

/** Fetched before its place is reached, in CSS pixels: a screen ahead. */
const AHEAD_PX = 900;

export class OlderMessages {
  #scroller;
  #transcript;
  #link;
  #busy = false;
  #fetchPage;

  /**
   * @param {{scroller: HTMLElement, transcript: HTMLElement, link: HTMLAnchorElement}} parts
   * @param {(url: string) => Promise<Document | null>} [fetch]
   */
  constructor({ scroller, transcript, link }, fetch = fetchPage) {
    this.#scroller = scroller;
    this.#transcript = transcript;
    this.#link = link;
    this.#fetchPage = fetch;
    link.addEventListener('click', (event) => {
      event.preventDefault();
      void this.load();
    });
  }

  /** Also when the link comes near. Not before somebody moves: a chat is opened at its end. */
  watch() {
    const near = new IntersectionObserver(
      async (entries) => {
        if (!entries.some((entry) => entry.isIntersecting) || !(await this.load())) return;
        near.unobserve(this.#link); // if it is near still, that is to be told again
        near.observe(this.#link);
      },
      { root: this.#scroller, rootMargin: `${AHEAD_PX}px 0px 0px` },
    );
    for (const move of ['wheel', 'touchmove', 'pointerdown', 'keydown']) {
      this.#scroller.addEventListener(move, () => near.observe(this.#link), { once: true, passive: true });
    }
  }

  /** @returns {Promise<boolean>} whether there was anything */
  async load() {
    if (this.#busy || this.#link.hidden) return false;
    this.#busy = true;
    this.#link.setAttribute('aria-busy', 'true');
    const page = await this.#fetchPage(this.#link.href);
    this.#link.removeAttribute('aria-busy');
    this.#busy = false;
    if (page === null) return false; // the link is still there, for another try
    const turns = partOf(page, '#transcript');
    if (turns === null) return false;
    this.#prepend([...turns.children]);
    const next = /** @type {HTMLAnchorElement | null} */ (page.querySelector('[data-part="older"]'));
    if (next) this.#link.href = next.href;
    else this.#link.hidden = true;
    return true;
  }

  /** @param {Element[]} turns */
  #prepend(turns) {
    const first = this.#transcript.firstElementChild;
    const before = first?.getBoundingClientRect().top ?? 0;
    this.#transcript.prepend(...turns);
    for (const block of turns.flatMap((turn) => [...turn.querySelectorAll('.words.prose > *')])) polish(block);
    // Browsers that anchor the scroll have moved it already; then this adds nothing.
    if (first) this.#scroller.scrollTop += first.getBoundingClientRect().top - before;
  }
}

const link = /** @type {HTMLAnchorElement | null} */ (globalThis.document?.querySelector('[data-part="older"]') ?? null);
if (link) {
  const scroller = /** @type {HTMLElement} */ (document.getElementById('scroller'));
  const transcript = /** @type {HTMLElement} */ (document.getElementById('transcript'));
  new OlderMessages({ scroller, transcript, link }).watch();
}
