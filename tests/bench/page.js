/** One run of tests/bench/page.py: tokens arrive by the clock, each frame paints what has come. */

/** @param {string} text @returns {string[]} pieces as models send them: about 3.4 letters */
function tokens(text) {
  return text.match(/\s*[\p{L}\p{N}]{1,4}|\s*[^\s\p{L}\p{N}]{1,2}|\s+/gu) ?? [];
}

async function ours(place) {
  const { MarkdownView } = await import('/static/chat/markdown/view.js');
  const { inSlices } = await import('/static/chat/markdown/slices.js');
  const { warmUp } = await import('/static/chat/markdown/warm.js');
  await new Promise((done) => inSlices((function* warm() {
    yield* warmUp(document);
    done(null);
  })()));
  const view = new MarkdownView(place, { calm: false });
  return { add: (delta) => view.append(delta), end: () => view.finish() };
}

/** What most pages do: all of it read, cleaned and compared anew per frame. */
async function baseline(place) {
  const { DOMPurify, marked, morphdom } = await import('/baseline.js');
  let text = '';
  const paint = () => {
    const wanted = place.cloneNode(false);
    wanted.append(DOMPurify.sanitize(marked.parse(text), { RETURN_DOM_FRAGMENT: true }));
    morphdom(place, wanted, { childrenOnly: true, onBeforeElUpdated: (from, to) => !from.isEqualNode(to) });
  };
  return { add: (delta) => { text += delta; paint(); }, end: paint };
}

/**
 * The stream's clock is the frame: each brings a sixtieth of a second's tokens, however late it is, so
 * that a machine with other work has the same to do. `paced` waits for real frames.
 */
export async function run(which, text, perSecond, paced) {
  const scroller = document.querySelector('#scroller');
  const place = document.querySelector('.words');
  const view = await (which === 'ours' ? ours(place) : baseline(place));
  const pieces = tokens(text);
  // The frame that evaluates the modules is over: a page has done that before anybody asks.
  for (let frames = 0; frames < 2; frames += 1) await new Promise(requestAnimationFrame);
  const long = [];
  const observer = new PerformanceObserver((list) => long.push(...list.getEntries().map(({ duration }) => duration)));
  observer.observe({ type: 'long-animation-frame' });
  const flushes = [];
  let fed = 0;
  let frame = 0;
  await new Promise((done) => {
    // Within the callback itself: what follows an `await` is not counted as the page's scripting.
    const step = () => {
      frame += 1;
      const due = Math.min(pieces.length, Math.floor((frame * perSecond) / 60));
      if (due > fed) {
        const delta = pieces.slice(fed, due).join('');
        fed = due;
        const at = performance.now();
        view.add(delta);
        flushes.push(performance.now() - at);
        if (paced) scroller.scrollTop = scroller.scrollHeight;
      }
      if (fed === pieces.length) done(null);
      else if (paced) requestAnimationFrame(step);
      else setTimeout(step);
    };
    step();
  });
  const at = performance.now();
  view.end();
  const end = performance.now() - at;
  await new Promise((done) => setTimeout(done, 500));
  observer.disconnect();
  return { tokens: pieces.length, flushes, long, end };
}
