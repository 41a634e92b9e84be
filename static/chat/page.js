/** The page of one chat: what the server rendered comes alive. */
import { fillActions, keepWhenOffline } from './actions.js';
import { Announcer } from './announcing.js';
import { AnswerView } from './answer.js';
import { Composer } from './composer.js';
import { installCopying } from './copying.js';
import { Drafts, storage } from './drafts.js';
import { Following } from './following.js';
import { installProse } from './markdown/code.js';
import { inSlices } from './markdown/slices.js';
import { warmUp } from './markdown/warm.js';
import { Mirror } from './mirror.js';
import { markRunning, openPresence } from './presence.js';
import { showQuestion } from './question.js';
import { EndFollower } from './scroll.js';
import { Sending } from './sending.js';
import { ChatSettings } from './settings.js';
import { openShared } from './shared.js';
import { browser } from './stream.js';
import { Words } from './words.js';

/** @param {string} id */
const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
/** @param {string} id */
const read = (id) => JSON.parse(element(id).textContent ?? '');

/** Data of pages that were fetched later. @type {Map<string, any>} */
const fetched = new Map();
/** @param {string} id of data that this page, or one that was fetched later, came with */
const known = (id) => fetched.get(id) ?? (document.getElementById(id) ? read(id) : undefined);

const words = new Words(read('words'));
/** @type {{chat: string, announces: string, double_text: string, stop_url: string, retry_url: string, limits: any}} */
const page = read('page');
const transcript = element('transcript');
const presence = openPresence();
const shared = openShared(); // its listeners come before this page's own: who follows finds it awake
const end = new EndFollower(element('scroller'), element('latest'));
const form = /** @type {HTMLFormElement} */ (element('composer'));
const person = form.dataset.person ?? '';
const composer = new Composer(form, {
  send,
  stop,
  drafts: new Drafts(storage(), person, page.chat),
  words,
  limits: page.limits,
  ahead: page.double_text !== 'reject',
});
const sending = new Sending({
  person,
  words,
  takeBack: (what) => composer.takeBack(what),
  sent: (entry, sent) => entry.chat === page.chat && show(entry.message, sent),
});
new ChatSettings(form, {
  chat: page.chat,
  words,
  trouble: (sentence) => composer.trouble(sentence),
  changed: (name, value) => name === 'double_text' && composer.ahead(value !== 'reject'),
});

/** The answer that is being written. @type {Following | null} */
let following = null;
/** Messages on their way to the server. */
let underWay = 0;
/** Answers that wait for the end of that one, in their order. @type {HTMLElement[]} */
const waiting = [];

/**
 * @param {HTMLElement} item
 * @param {boolean} waits it can be removed, and its question changed, for as long as it waits
 */
function mayBeRemoved(item, waits) {
  item.previousElementSibling?.toggleAttribute('data-waits', waits);
  /** @type {HTMLElement} */ (item.querySelector('[data-part="remove"]')).hidden = !waits;
}

/** @param {HTMLElement} item */
function wait(item) {
  waiting.push(item);
  mayBeRemoved(item, true);
}

const announcer = new Announcer(element('status'), { alert: element('failure'), how: page.announces, words });
/** @param {string} sentence @param {boolean} [atOnce] */
function announce(sentence, atOnce) {
  announcer.say(sentence, atOnce);
}

/**
 * @param {HTMLElement} item an answer of the transcript
 * @param {import('./fold.js').Snapshot | null} snapshot what it shows already
 */
function follow(item, snapshot) {
  const id = /** @type {string} */ (item.dataset.answer);
  const before = known(`before-${id}`);
  const painted = () => {
    end.painted();
    announcer.wrote(view);
  };
  const view = new AnswerView(item, { words, painted, before });
  if (snapshot) {
    announcer.stands(view);
    view.replace(snapshot);
  }
  presence.follow(id);
  markRunning(id, true);
  mayBeRemoved(item, false);
  element('stop').setAttribute('formaction', page.stop_url.replace('RESPONSE', id));
  const onEnd = () => {
    presence.ended(id);
    following = null;
    composer.running(false);
    composer.stopping(false);
    noStopFailed();
    const next = waiting.splice(0).filter((one) => one.isConnected); // one may have been removed elsewhere
    waiting.push(...next.slice(1));
    if (next.length > 0) follow(next[0], null);
  };
  const env = { ...browser, fetch: shared.fetch };
  following = new Following({ id, view, words, viewer: presence.viewer, announce, onEnd, env });
  composer.running(true);
  following.start();
}

/** @type {import('./composer.js').Send} */
async function send(message, model) {
  underWay += 1;
  const { sent, ...outcome } = await sending.send(page.chat, message, { model, on_disconnect: composer.onDisconnect });
  underWay -= 1;
  if (sent) show(message, sent);
  else void mirror.look();
  return outcome;
}

/**
 * The server has it: its turn stands in the conversation.
 * @param {{text: string, images?: string[]}} message
 * @param {import('./outbox.js').Sent} sent
 */
function show({ text, images }, { id, question, answer }) {
  if (document.getElementById(`message-${answer}`)) return; // told by the server before its reply was here
  const turn = /** @type {HTMLTemplateElement} */ (element('turn')).content.cloneNode(true);
  const fresh = /** @type {DocumentFragment} */ (turn);
  const item = /** @type {HTMLElement} */ (fresh.querySelector('[data-answer]'));
  item.dataset.answer = id;
  const template = /** @type {HTMLTemplateElement} */ (element('attached-text'));
  const said = /** @type {Element} */ (fresh.querySelector('[data-part="question"]'));
  showQuestion(said, text, { template, words, pictures: images });
  item.querySelector('[data-part="retry"]')?.setAttribute('action', page.retry_url.replace('RESPONSE', id));
  item.querySelector('[data-part="remove"]')?.setAttribute('action', page.stop_url.replace('RESPONSE', id));
  fillActions(fresh, { question, answer, text });
  transcript.append(fresh);
  end.pin();
  if (following) wait(item);
  else follow(item, null);
  void mirror.look();
}

/** @param {HTMLElement} item as the server rendered it: now, or when it can be its turn */
function run(item) {
  if (following) wait(item);
  else follow(item, known(`snapshot-${item.dataset.answer}`) ?? null);
}

/** It is said that a stop failed: not true any more with the next one, or with the end. */
let stopFailed = false;

async function stop() {
  if (following === null) return;
  composer.stopping(true);
  noStopFailed();
  const asked = following;
  const trouble = await asked.stop();
  if (trouble === '' || following !== asked) return;
  stopFailed = true;
  composer.trouble(trouble);
  composer.stopping(false);
}

function noStopFailed() {
  if (stopFailed) composer.trouble('');
  stopFailed = false;
}

/** Another device has gone on: what came from there is shown, and followed, like what is asked here. */
const mirror = new Mirror({
  transcript,
  url: location.pathname,
  busy: () => underWay > 0,
  added: (turns, found) => {
    for (const turn of turns.filter((one) => one.matches('[data-answer][data-running]'))) {
      for (const name of [`snapshot-${turn.dataset.answer}`, `before-${turn.dataset.answer}`]) {
        const data = found.getElementById(name)?.textContent;
        if (data) fetched.set(name, JSON.parse(data));
      }
      run(turn);
    }
    end.painted();
  },
});
shared.listen(0, ({ kind, data }) => {
  if (kind === 'stale') void mirror.renew();
  if (kind === 'chat' && data.id === page.chat && !data.deleted) void mirror.changed(data.last);
});
keepWhenOffline(() => composer.trouble(words.table.branches.offline));
transcript.addEventListener('toggle', () => void mirror.look(), { capture: true });

installProse(transcript, { words: words.table.copy, announce });
installCopying(transcript, { words, announce });
for (const item of transcript.querySelectorAll('[data-answer][data-running]')) run(/** @type {HTMLElement} */ (item));
presence.start();
sending.start();
inSlices(warmUp(document));
// A version that was chosen is in sight; everything else begins at the end.
if (!document.querySelector('.turn:target:not(:last-child), .turn:not(:last-child) > :target')) end.pin();

document.addEventListener('visibilitychange', () => {
  following?.view.visibilityChanged();
  if (!document.hidden) following?.wake();
});
// A connection of a network that is gone may look alive for a minute: do not wait for that.
for (const change of ['online', 'offline']) {
  addEventListener(change, () => following?.wake({ networkChanged: true }));
}
addEventListener('pagehide', () => {
  following?.suspend();
  presence.leave();
});
addEventListener('pageshow', (event) => {
  if (!event.persisted) return;
  presence.start();
  if (following) {
    presence.follow(/** @type {string} */ (following.view.element.dataset.answer));
    following.resume(presence.viewer);
  }
});
