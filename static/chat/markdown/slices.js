/**
 * Work that may wait, in steps of which each idle moment does a few: an answer that is being written
 * next to it stays smooth on a slow phone.
 */

/** Of an idle moment; a frame has 16, and the page's own work comes first. */
const SLICE_MS = 4;
/** A page that is never idle gets to it all the same. */
const PATIENCE_MS = 1_000;

/** What is to be done, in its order. @type {Iterator<unknown>[]} */
const queue = [];
let asked = false;

/** @param {() => void} run */
export function whenIdle(run) {
  if (globalThis.requestIdleCallback) requestIdleCallback(run, { timeout: PATIENCE_MS });
  else setTimeout(run, 50);
}

/** @param {Iterator<unknown>} steps each short */
export function inSlices(steps) {
  queue.push(steps);
  if (asked) return;
  asked = true;
  whenIdle(slice);
}

function slice() {
  const until = performance.now() + SLICE_MS;
  try {
    while (queue.length > 0 && performance.now() < until) {
      const steps = /** @type {Iterator<unknown>} */ (queue.shift()); // one that throws is not asked again
      if (!steps.next().done) queue.unshift(steps);
    }
  } finally {
    asked = queue.length > 0;
    if (asked) whenIdle(slice);
  }
}
