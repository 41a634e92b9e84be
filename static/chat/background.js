/** Every page: this browser's one line, and what it tells of chats. */
import { openShared } from './shared.js';

const side = /** @type {HTMLElement} */ (document.getElementById('side'));
openShared().listen(Number(side.dataset.asOf), () => {});
