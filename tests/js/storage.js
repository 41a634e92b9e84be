/** A browser's storage, which may be full or forbidden. */
export class FakeStorage {
  /** @type {Map<string, string>} */
  items = new Map();
  full = false;

  get length() {
    return this.items.size;
  }

  key(/** @type {number} */ n) {
    return [...this.items.keys()][n] ?? null;
  }

  getItem(/** @type {string} */ name) {
    return this.items.get(name) ?? null;
  }

  setItem(/** @type {string} */ name, /** @type {string} */ value) {
    if (this.full) throw new DOMException('full', 'QuotaExceededError');
    this.items.set(name, value);
  }

  removeItem(/** @type {string} */ name) {
    this.items.delete(name);
  }
}
