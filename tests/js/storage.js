/** A browser's storage, which may be full: then it takes what is shorter than what it has, and no more. */
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
    if (this.full && value.length > (this.getItem(name) ?? '').length) throw new DOMException('full', 'QuotaExceededError');
    this.items.set(name, value);
  }

  removeItem(/** @type {string} */ name) {
    this.items.delete(name);
  }
}
