// Keeps the tables of the live page as the server sees them. Without scripts the page is loaded anew.
const tables = document.getElementById("live");
const state = document.getElementById("live-state");
const source = new EventSource("?stream=1");

source.addEventListener("tables", (event) => {
  const chosen = new Set([...tables.querySelectorAll("input:checked")].map((box) => box.value));
  const focused = document.activeElement;
  const again = focused && tables.contains(focused) ? [focused.name, focused.value] : null;
  const parsed = new DOMParser().parseFromString(event.data, "text/html");
  tables.replaceChildren(...parsed.body.childNodes);
  for (const box of tables.querySelectorAll("input")) box.checked = chosen.has(box.value);
  if (again) {
    [...tables.querySelectorAll("input, button")].find((one) => one.name === again[0] && one.value === again[1])?.focus();
  }
});
source.addEventListener("open", () => say("Follows what happens."));
source.addEventListener("full", () => say("Too many pages follow; load this one again for news."));
source.addEventListener("error", () => say("Not connected; tries again."));
addEventListener("pagehide", () => source.close());

function say(text) {
  if (state.textContent !== text) state.textContent = text;
}
