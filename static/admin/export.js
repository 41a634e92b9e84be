// Shows how far an export is. Without scripts, or when it is large, the browser downloads by itself.
const MOST_ROWS = 200_000; // what a page may hold before it is a file
const SAID_EVERY_MS = 200;

for (const form of document.querySelectorAll("form.export")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void exportBy(form, event.submitter);
  });
}

async function exportBy(form, button) {
  const bar = form.querySelector("progress");
  const told = form.querySelector("output");
  const stop = new AbortController();
  const body = new FormData(form, button);
  bar.hidden = false;
  bar.removeAttribute("value");
  told.textContent = "Asking …";
  try {
    const reply = await fetch(form.action, { method: "POST", body, signal: stop.signal });
    if (!reply.ok) throw new Error(`the server answered ${reply.status}`);
    const total = Number(reply.headers.get("X-Rows"));
    if (total > MOST_ROWS) {
      stop.abort();
      told.textContent = `${total.toLocaleString("en")} rows: your browser shows how far it is.`;
      bar.hidden = true;
      submitPlain(form, button);
      return;
    }
    const pieces = await readAll(reply.body, (rows) => {
      bar.max = Math.max(total, 1);
      bar.value = Math.min(rows, total);
      told.textContent = `${Math.min(rows, total).toLocaleString("en")} of ${total.toLocaleString("en")}`;
    });
    save(new Blob(pieces), `answers.${button.value}`);
    told.textContent = `${total.toLocaleString("en")} rows exported.`;
  } catch (error) {
    told.textContent = `Nothing was saved: ${error.message}. Try again.`;
  }
  bar.hidden = true;
}

function submitPlain(form, button) {
  const kind = document.createElement("input");
  kind.type = "hidden";
  kind.name = button.name;
  kind.value = button.value;
  form.append(kind);
  form.submit(); // asks no listener
  kind.remove();
}

async function readAll(stream, say) {
  const pieces = [];
  let rows = 0;
  let saidMs = 0;
  for (const reader = stream.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces.push(value);
    for (const byte of value) rows += byte === 10 ? 1 : 0;
    if (performance.now() - saidMs > SAID_EVERY_MS) {
      saidMs = performance.now();
      say(rows);
    }
  }
  return pieces;
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
