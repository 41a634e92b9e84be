/** Every page: what goes on in other chats and on other devices is told here. */
import { Done, TERMINAL, titleWith } from './done.js';
import { LiveList } from './live.js';
import { isStillTheirs } from './pages.js';
import { openPresence } from './presence.js';
import { openShared } from './shared.js';
import { showTitle, shown } from './side.js';

/** The person's choice in this browser; the browser's own permission comes on top. */
const CHOICE = 'unbroken.notify';

/** Stands for the id in the address that the template gives. */
const NOBODYS = '00000000-0000-0000-0000-000000000000';

const side = /** @type {HTMLElement} */ (document.getElementById('side'));
const button = /** @type {HTMLButtonElement} */ (side.querySelector('[data-part="notify"]'));
/** The number in front of the page's title. */
let counted = 0;
const shared = openShared();
const presence = openPresence();
const asOf = Number(side.dataset.asOf);
const looked = () => !document.hidden;
const list = new LiveList({ side, url: side.dataset.list ?? '', asOf, looked, showTitle });
const done = new Done({
  chat: shown(),
  where: { store: storage(), looked, leads: () => shared.leads },
  show,
  notify,
});

shared.listen(asOf, async ({ kind, data }) => {
  if (kind === 'stale') await list.renew();
  if (kind !== 'chat') return;
  done.begun(presence.running());
  done.take(data);
  if (data.response && TERMINAL.has(data.status)) presence.ended(data.response);
  await list.take(data);
  done.look();
});
done.begun(presence.running());
presence.onRunning = (id) => done.begun([id]);
done.look();
document.addEventListener('visibilitychange', async () => {
  if (looked()) await list.shown();
  done.look();
});
addEventListener('pageshow', (event) => {
  done.look();
  if (event.persisted) void leaveIfNotTheirs();
});
addEventListener('storage', () => {
  done.begun(presence.running());
  done.look();
  showChoice();
});

/**
 * Back leads to pages that the browser kept whole, also when their person has signed out since.
 * `Clear-Site-Data` leaves those alone (tried, Chromium 156); `no-store` would take Back from everybody.
 */
async function leaveIfNotTheirs() {
  const home = /** @type {HTMLAnchorElement} */ (side.querySelector('a.brand')).href;
  if (!(await isStillTheirs(home))) location.reload();
}

/** @param {Record<string, string>} noted */
function show(noted) {
  for (const found of side.querySelectorAll('[data-chat]')) {
    const item = /** @type {HTMLElement} */ (found);
    const status = noted[item.dataset.chat ?? ''];
    const note = /** @type {HTMLElement | null} */ (item.querySelector('[data-part="done"]'));
    if (!note) continue;
    note.hidden = status === undefined;
    if (status !== undefined) note.textContent = (status === 'completed' ? note.dataset.completed : note.dataset.other) ?? '';
  }
  const count = Object.keys(noted).length;
  document.title = titleWith(document.title, counted, count);
  counted = count;
}

// -- notifications: only after a click on the button, and only while no page is looked at ------------
/** @param {import('./live.js').Change} change */
function notify({ id, title, status }) {
  if (!wanted()) return;
  const body = status === 'completed' ? button.dataset.completed : button.dataset.other;
  try {
    const note = new Notification(title, { body, tag: id });
    note.addEventListener('click', () => {
      window.focus();
      if (id !== shown()) location.assign((button.dataset.address ?? '').replace(NOBODYS, id));
      note.close();
    });
  } catch {
    // Android's browsers have them for service workers only; the note in the list stays.
  }
}

function wanted() {
  return globalThis.Notification?.permission === 'granted' && storage()?.getItem(CHOICE) === 'on';
}

function showChoice() {
  button.hidden = !globalThis.Notification || Notification.permission === 'denied' || storage() === null;
  button.setAttribute('aria-pressed', String(wanted()));
}

button.addEventListener('click', async () => {
  const on = !wanted();
  if (on && Notification.permission !== 'granted') await Notification.requestPermission();
  storage()?.setItem(CHOICE, on ? 'on' : 'off');
  showChoice();
});
showChoice();

/** @returns {Storage | null} */
function storage() {
  try {
    return globalThis.localStorage;
  } catch {
    return null; // forbidden by the browser's settings
  }
}
