/** The first page: the first message of a new conversation. */
import { Composer } from './composer.js';
import { Outbox } from './outbox.js';
import { openPresence } from './presence.js';
import { Words } from './words.js';

/** @param {string} id */
const read = (id) => JSON.parse(document.getElementById(id)?.textContent ?? '');

const words = new Words(read('words'));
/** @type {{on_disconnect: any, chat_url: string}} */
const page = read('page');
const outbox = new Outbox(words);
const presence = openPresence();
/** Made by the first attempt, used by the next if that one failed. @type {string | null} */
let chat = null;

/**
 * @param {string} text
 * @param {string | undefined} model
 * @returns {Promise<string>} what went wrong, or ''
 */
async function send(text, model) {
  if (chat === null) {
    const started = await outbox.startChat({ double_text: 'queue', ...(model && { model }) });
    if (started.id === null) return started.trouble;
    chat = started.id;
  }
  const { id, trouble } = await outbox.send(chat, { text, model, on_disconnect: page.on_disconnect });
  if (id === null) return trouble;
  const url = page.chat_url.replace('CHAT', chat);
  chat = null; // this page may come back from the browser's cache
  location.assign(url);
  return '';
}

const composer = new Composer(/** @type {HTMLFormElement} */ (document.getElementById('composer')), { send, stop: () => {} });
// Without scripts an example is a link to this page with the text in the box.
for (const found of document.querySelectorAll('[data-example]')) {
  const example = /** @type {HTMLElement} */ (found);
  example.addEventListener('click', (event) => {
    event.preventDefault();
    composer.write(example.dataset.example ?? '');
  });
}
presence.start();
addEventListener('pagehide', () => presence.leave());
addEventListener('pageshow', (event) => event.persisted && presence.start());
