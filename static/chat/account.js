/** The account page: somebody is still there, and a fresh key can be copied. */
import './site.js';

for (const found of document.querySelectorAll('[data-copy]')) {
  const button = /** @type {HTMLButtonElement} */ (found);
  const said = button.textContent;
  button.hidden = !navigator.clipboard; // browsers have one on https and localhost only
  button.addEventListener('click', async () => {
    const text = document.getElementById(button.dataset.copy ?? '')?.textContent ?? '';
    await navigator.clipboard.writeText(text);
    button.textContent = button.dataset.done ?? said;
    setTimeout(() => (button.textContent = said), 2_000);
  });
}
