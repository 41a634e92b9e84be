/** What several tests stand on: bytes, fixtures, a clock that moves only when it is told to. */
import { readFileSync } from 'node:fs';

const utf8 = new TextEncoder();

/** @param {string} text */
export function bytes(text) {
  return utf8.encode(text);
}

/** @param {string} path below tests/fixtures/ */
export function fixture(path) {
  return JSON.parse(readFileSync(new URL(`../fixtures/${path}`, import.meta.url), 'utf8'));
}

/** The event-stream vectors that relay/wire/sse.py is held to as well. */
export function sseVectors() {
  const { vectors } = fixture('corpus/sse_vectors.json');
  return vectors;
}

/** The sentences of the page. */
export function wordTable() {
  return JSON.parse(readFileSync(new URL('../../static/chat/words.json', import.meta.url), 'utf8'));
}

/**
 * Let every promise that can settle do so. Not a wait: nothing here depends on time.
 */
export async function settle() {
  for (let i = 0; i < 20; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Timers that fire when `advance` says so; `Math.random` with a set value. */
/**
 * Wait for what a thread of the runtime has to do first (hashing); fails after five seconds.
 * @param {() => unknown} isTrue
 * @param {string} what
 */
export async function until(isTrue, what) {
  const deadline = Date.now() + 5_000;
  while (!isTrue()) {
    if (Date.now() > deadline) throw new Error(`waited 5 s for: ${what}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

export class FakeClock {
  nowMs = 1_000_000;
  randomValue = 1;
  #next = 1;
  /** @type {Map<number, {at: number, run: () => void}>} */
  #timers = new Map();

  now = () => this.nowMs;

  random = () => this.randomValue;

  /** @type {(run: () => void, delay: number) => number} */
  setTimeout = (run, delay) => {
    const id = this.#next;
    this.#next += 1;
    this.#timers.set(id, { at: this.nowMs + delay, run });
    return id;
  };

  /** @param {number | undefined} id */
  clearTimeout = (id) => {
    if (id !== undefined) this.#timers.delete(id);
  };

  get pending() {
    return [...this.#timers.values()].map(({ at }) => at - this.nowMs).sort((a, b) => a - b);
  }

  /** @param {number} ms */
  async advance(ms) {
    const end = this.nowMs + ms;
    for (;;) {
      const due = [...this.#timers].filter(([, { at }]) => at <= end).sort((a, b) => a[1].at - b[1].at)[0];
      if (!due) break;
      this.#timers.delete(due[0]);
      this.nowMs = due[1].at;
      due[1].run();
      await settle();
    }
    this.nowMs = end;
    await settle();
  }
}
