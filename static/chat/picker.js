/**
 * Choosing a model with what each can do beside its name. The select of the form stays what is sent; it is
 * hidden, and a button with a list of options stands for it (WAI-ARIA's listbox pattern).
 */

/** A pause this long begins another word of what is typed to find an option. */
const TYPING_MS = 600;

export class ModelPicker {
  #select;
  #button;
  #list;
  /** @type {HTMLElement[]} */
  #options;
  #typed = '';
  #typedAt = 0;

  /**
   * @param {HTMLSelectElement} select
   * @param {string} label
   */
  constructor(select, label) {
    this.#select = select;
    this.#button = document.createElement('button');
    this.#button.type = 'button';
    this.#button.className = 'quiet picker';
    this.#button.setAttribute('aria-haspopup', 'listbox');
    this.#button.setAttribute('aria-expanded', 'false');
    this.#list = document.createElement('ul');
    this.#list.className = 'menu picker-list';
    this.#list.popover = 'auto';
    this.#list.setAttribute('role', 'listbox');
    this.#list.setAttribute('aria-label', label);
    this.#options = [...select.options].map((option) => this.#option(option));
    this.#list.append(...this.#options);
    select.hidden = true;
    select.after(this.#button, this.#list);
    this.#named(label);
    select.addEventListener('change', () => this.#named(label));
    this.#button.addEventListener('click', () => this.#list.togglePopover());
    this.#button.addEventListener('keydown', (event) => {
      if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
      event.preventDefault();
      this.#list.showPopover();
    });
    this.#list.addEventListener('toggle', (event) => this.#toggled(/** @type {ToggleEvent} */ (event).newState === 'open'));
    this.#list.addEventListener('keydown', (event) => this.#key(event));
    addEventListener('resize', () => this.#list.hidePopover()); // its place is another one then
  }

  /** @param {HTMLOptionElement} option */
  #option(option) {
    const item = document.createElement('li');
    item.setAttribute('role', 'option');
    item.tabIndex = -1;
    const name = document.createElement('strong');
    name.textContent = option.label;
    const about = document.createElement('span');
    about.textContent = option.dataset.about ?? '';
    item.append(name, about);
    item.addEventListener('click', () => this.#choose(item));
    return item;
  }

  /** @param {string} label */
  #named(label) {
    const at = this.#select.selectedIndex;
    this.#options.forEach((item, n) => item.setAttribute('aria-selected', String(n === at)));
    const name = this.#select.selectedOptions[0]?.label ?? '';
    const shown = document.createElement('span'); // which is cut, and not what opens the list
    shown.textContent = name;
    this.#button.replaceChildren(shown);
    this.#button.setAttribute('aria-label', `${label}: ${name}`);
  }

  /** @param {boolean} open */
  #toggled(open) {
    this.#button.setAttribute('aria-expanded', String(open));
    if (!open) return;
    const [button, list] = [this.#button.getBoundingClientRect(), this.#list.getBoundingClientRect()];
    const above = button.top - list.height - 4;
    this.#list.style.top = `${above >= 4 ? above : Math.min(button.bottom + 4, innerHeight - list.height - 4)}px`;
    this.#list.style.left = `${Math.max(4, Math.min(button.left, innerWidth - list.width - 4))}px`;
    this.#options[Math.max(0, this.#select.selectedIndex)]?.focus();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const at = this.#options.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const last = this.#options.length - 1;
    const to = { ArrowDown: Math.min(at + 1, last), ArrowUp: Math.max(at - 1, 0), Home: 0, End: last }[event.key];
    if (to !== undefined) this.#options[to].focus();
    else if (event.key === 'Enter' || event.key === ' ') this.#choose(this.#options[at]);
    else if (event.key === 'Tab') this.#list.hidePopover();
    else if (event.key.length === 1 && !event.ctrlKey && !event.metaKey) this.#find(event.key);
    else return;
    if (event.key !== 'Tab') event.preventDefault();
  }

  /** @param {string} letter */
  #find(letter) {
    this.#typed = (Date.now() - this.#typedAt > TYPING_MS ? '' : this.#typed) + letter.toLowerCase();
    this.#typedAt = Date.now();
    const names = [...this.#select.options].map(({ label }) => label.toLowerCase());
    this.#options[names.findIndex((name) => name.startsWith(this.#typed))]?.focus();
  }

  /** @param {HTMLElement | undefined} item */
  #choose(item) {
    this.#select.selectedIndex = item ? this.#options.indexOf(item) : this.#select.selectedIndex;
    this.#select.dispatchEvent(new Event('change', { bubbles: true }));
    this.#list.hidePopover();
    this.#button.focus();
  }
}
