/**
 * The end of the conversation stays in sight while a person is there, and only then.
 *
 * Whoever scrolls up reads: nothing moves until they are back at the end or ask to be taken there.
 */

/** So near the end counts as being there, in CSS pixels: two lines. */
const NEAR_PX = 56;

export class EndFollower {
  #scroller;
  #button;
  #pinned = true;
  #lastTop = 0;
  /** Of all there was to read with the last paint. */
  #height = 0;

  /**
   * @param {HTMLElement} scroller
   * @param {HTMLElement} button takes the reader to the end; shown while they are elsewhere
   */
  constructor(scroller, button) {
    this.#scroller = scroller;
    this.#button = button;
    this.#lastTop = scroller.scrollTop;
    scroller.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    // A wheel that turns up lets go before the first pixel has moved: the next paint must not win.
    scroller.addEventListener('wheel', (event) => event.deltaY < 0 && this.#letGo(), { passive: true });
    button.addEventListener('click', () => {
      this.pin();
      // The button is gone now, and the focus goes where the person wanted to be.
      const latest = /** @type {HTMLElement | null} */ (scroller.querySelector('.turn:last-child > article'));
      latest?.focus({ preventScroll: true });
    });
    new ResizeObserver(() => this.#resized()).observe(scroller); // a phone's keyboard, a turned phone
  }

  /** Something grew. */
  painted() {
    if (this.#pinned && this.#selects()) this.#letGo();
    if (this.#pinned) this.#toEnd();
    else if (this.#scroller.scrollHeight > this.#height) this.#button.toggleAttribute('data-unread', true);
    this.#height = this.#scroller.scrollHeight;
    this.#showButton();
  }

  /** Go to the end and stay there: the person sent something, or asked for it. */
  pin() {
    this.#pinned = true;
    this.painted();
  }

  /** Lines that break elsewhere make it higher, and nothing is new. */
  #resized() {
    this.#height = Math.max(this.#height, this.#scroller.scrollHeight);
    this.painted();
  }

  /** Somebody marks words, which must not move under the pointer. */
  #selects() {
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && this.#scroller.contains(selection.anchorNode);
  }

  #showButton() {
    this.#button.hidden = this.#pinned || this.#distance() <= NEAR_PX;
    if (this.#button.hidden) this.#button.removeAttribute('data-unread');
  }

  #letGo() {
    if (this.#scroller.scrollHeight > this.#scroller.clientHeight) this.#pinned = false;
  }

  #scrolled() {
    const { scrollTop } = this.#scroller;
    if (scrollTop < this.#lastTop) this.#pinned = false;
    if (this.#distance() <= 4 || (scrollTop > this.#lastTop && this.#distance() <= NEAR_PX)) this.#pinned = true;
    this.#lastTop = scrollTop;
    this.#showButton();
  }

  #distance() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight;
  }

  #toEnd() {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#lastTop = this.#scroller.scrollTop;
  }
}
