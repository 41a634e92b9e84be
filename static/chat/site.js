/** Every page of the site: somebody is still there. */
import { openPresence } from './presence.js';

const presence = openPresence();
presence.start();
addEventListener('pagehide', () => presence.leave());
addEventListener('pageshow', (event) => event.persisted && presence.start());
