/**
 * The forms at a turn that scripts have written (templates/chat/_actions.html): they are told what
 * they are about. They are sent as forms, and the server answers with the page.
 */

/**
 * @param {DocumentFragment | Element} turn a question and its answer, copied from the template
 * @param {{question: number, answer: number, text: string}} about ids of the messages, and what was asked
 */
export function fillActions(turn, { question, answer, text }) {
  for (const [kind, id] of /** @type {[string, number][]} */ ([['question', question], ['answer', answer]])) {
    const item = /** @type {Element} */ (turn.querySelector(`.${kind}`));
    item.id = `message-${id}`;
    for (const name of ['action', 'formaction']) {
      for (const found of item.querySelectorAll(`.actions [${name}]`)) {
        const url = found.getAttribute(name) ?? '';
        found.setAttribute(name, url.replace('/messages/0/', `/messages/${id}/`));
      }
    }
  }
  const box = turn.querySelector('.edit textarea');
  if (box) box.textContent = text; // its default value: what a reset form goes back to
}

/**
 * A form that left for a dead network would put the browser's own error page in the place of this one, and
 * of what was written into it.
 * @param {() => void} say that nothing was sent
 */
export function keepWhenOffline(say) {
  document.addEventListener('submit', (event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    if (event.defaultPrevented || navigator.onLine || form.method !== 'post') return;
    event.preventDefault();
    say();
  });
}
