/** The first page: the first message of a new conversation. */
import { Composer } from './composer.js';
import { Drafts, storage } from './drafts.js';
import { openPresence } from './presence.js';
import { Sending } from './sending.js';
import { ChatSettings } from './settings.js';
import { Words } from './words.js';

/** @param {string} id */
const read = (id) => JSON.parse(document.getElementById(id)?.textContent ?? '');

const words = new Words(read('words'));
/** @type {{chat_url: string, limits: any}} */
const page = read('page');
const form = /** @type {HTMLFormElement} */ (document.getElementById('composer'));
const person = form.dataset.person ?? '';
const presence = openPresence();
const composer = new Composer(form, {
  send,
  stop: () => {},
  drafts: new Drafts(storage(), person, 'new'),
  words,
  limits: page.limits,
});
const beside = new ChatSettings(form, { chat: null, words, trouble: (sentence) => composer.trouble(sentence) });
const sending = new Sending({
  person,
  words,
  takeBack: (what) => composer.takeBack(what),
  // Who is writing the next one is not led away from it; the list of chats has this one.
  sent: (entry) => entry.chat !== null && composer.empty && open(entry.chat),
});

/** @type {import('./composer.js').Send} */
async function send(message, model) {
  const settings = { double_text: 'queue', ...beside.values(), ...(model && { model }) };
  const { sent, ...outcome } = await sending.send(null, message, { model, on_disconnect: composer.onDisconnect, settings });
  if (!sent) return outcome;
  presence.remember(sent.id); // whichever page of the site comes next
  open(sent.chat);
  return outcome;
}

/** @param {string} chat */
function open(chat) {
  location.assign(page.chat_url.replace('CHAT', chat));
}

// Without scripts an example is a link to this page with the text in the box.
for (const found of document.querySelectorAll('[data-example]')) {
  const example = /** @type {HTMLElement} */ (found);
  example.addEventListener('click', (event) => {
    event.preventDefault();
    composer.write(example.dataset.example ?? '');
  });
}
presence.start();
sending.start();
addEventListener('pagehide', () => presence.leave());
addEventListener('pageshow', (event) => event.persisted && presence.start());
