// Asks the stream door over this browser's own way and lets the server judge what came, and when.
// What it writes down is a Report of chatapp/doctor/observed.py.
const GAP_MS = 100;
const TABS = 7; // one more than the connections that a browser opens to a site over HTTP/1.1
const WATCHED_S = 5;
const POLL_MS = 250;

const form = document.querySelector("#doctor");
const told = form.querySelector("output");
const list = document.querySelector("#findings");

form.addEventListener("submit", (event) => {
  event.preventDefault();
  void examine();
});

async function examine() {
  const button = form.querySelector("button");
  const heartbeat = Number(form.querySelector("#heartbeat").value);
  button.disabled = true;
  list.replaceChildren();
  told.textContent = `Looking, for about ${Math.ceil(heartbeat * 1.2 + 10)} seconds …`;
  try {
    const flow = await watch({});
    if (flow.status !== 200) throw new Error(`the stream door answers ${flow.status}`);
    const silence = heartbeat * Number(form.dataset.margin);
    const [bare, quiet, leave] = await Promise.all([watch({ bare: "1" }), sitOut(silence), goAway()]);
    const tabs = await openTabs(); // alone: each of the others has a connection, too
    const url = location.origin;
    const report = { heartbeat_s: heartbeat, public: { url, flow, bare, quiet, tabs, leave } };
    const reply = await fetch(location.pathname, {
      method: "POST",
      headers: { "X-CSRFToken": form.elements.csrfmiddlewaretoken.value },
      body: JSON.stringify(report),
    });
    if (!reply.ok) throw new Error(`the server answers ${reply.status}`);
    show(await reply.json(), flow);
  } catch (error) {
    told.textContent = `It could not be examined: ${error.message}. Try again, or use the command below.`;
  } finally {
    button.disabled = false;
  }
}

function address(plan) {
  const probe = [...crypto.getRandomValues(new Uint8Array(8))].map((b) => b.toString(16).padStart(2, "0"));
  return new URLSearchParams({ probe: probe.join(""), gap_ms: GAP_MS, ...plan });
}

// One stream from its request to its end, however that comes.
async function watch(plan, { query = address(plan), signal } = {}) {
  const path = `/diag/stream?${query}`;
  const begun = performance.now();
  const seconds = () => (performance.now() - begun) / 1000;
  const flow = { status: 0, http_version: "", headers: {}, gap_ms: GAP_MS, asked_at: Date.now() / 1000 };
  Object.assign(flow, { headers_s: 0, arrivals: [], whole: false, hello: {} });
  try {
    const reply = await fetch(path, { headers: { Accept: "text/event-stream" }, signal, cache: "no-store" });
    flow.status = reply.status;
    flow.headers_s = seconds();
    flow.headers = Object.fromEntries(reply.headers);
    if (reply.ok) await read(reply.body, flow, seconds);
  } catch (error) {
    if (signal?.aborted) throw error;
  }
  const spoken = performance.getEntriesByName(new URL(path, location).href)[0]?.nextHopProtocol ?? "";
  flow.http_version = { h2: "HTTP/2", h3: "HTTP/3" }[spoken] ?? spoken.toUpperCase();
  return flow;
}

async function read(body, flow, seconds) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const now = seconds();
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const said = JSON.parse(frame.slice(frame.lastIndexOf("data: ") + 6));
      const { n, at, kind, pad: _, ...hello } = said;
      flow.arrivals.push({ n, size_bytes: frame.length + 2, sent_at: at, received_s: now });
      if (kind === "hello") flow.hello = hello;
      if (kind === "end") flow.whole = true;
    }
  }
}

async function sitOut(silence) {
  const begun = performance.now();
  const flow = await watch({ phase: "quiet", silence_s: silence });
  const lasted = (performance.now() - begun) / 1000 - (flow.arrivals[0]?.received_s ?? 0);
  return { silence_s: silence, lasted_s: lasted, whole: flow.whole };
}

// The server's own clock says which of them had to wait until another one had ended.
async function openTabs() {
  const flows = await Promise.all(Array.from({ length: TABS }, () => watch({})));
  const ends = flows.filter((flow) => flow.whole).map((flow) => flow.arrivals.at(-1).sent_at);
  if (!ends.length) return null;
  const first = Math.min(...ends);
  const waited = flows.filter((flow) => flow.arrivals.length && flow.arrivals[0].sent_at >= first);
  return { opened: TABS, waited: waited.length };
}

async function goAway() {
  const query = address({ phase: "quiet", silence_s: 60 });
  const leaving = new AbortController();
  const staying = watch({}, { query, signal: leaving.signal }).catch(() => {});
  const opened = await until(query, ["open"], WATCHED_S);
  leaving.abort();
  await staying;
  if (opened === null) return null;
  return { noticed_s: await until(query, ["left", "finished"], WATCHED_S), watched_s: WATCHED_S };
}

async function until(query, states, limit) {
  const begun = performance.now();
  for (;;) {
    const waited = (performance.now() - begun) / 1000;
    if (waited > limit) return null;
    const reply = await fetch(`/diag/report?${query}`, { cache: "no-store" });
    if (reply.ok && states.includes((await reply.json()).state)) return waited;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function show({ fine, findings }, flow) {
  const first = flow.arrivals[0] ? `, first byte after ${Math.round(flow.arrivals[0].received_s * 1000)} ms` : "";
  told.textContent = fine
    ? `Streams pass as they are sent (${flow.http_version}${first}).`
    : `Something needs mending (${flow.http_version}${first}).`;
  list.replaceChildren(...findings.map(line));
}

function line({ level, hop, what, change }) {
  const item = document.createElement("div");
  item.className = `finding ${level}`;
  const head = document.createElement("strong");
  head.textContent = level === "fault" ? `To mend, at ${hop}` : `To know, of ${hop}`;
  const sentence = document.createElement("p");
  sentence.textContent = what;
  item.append(head, sentence);
  if (change) {
    const code = document.createElement("code");
    code.textContent = change;
    item.append(code);
  }
  return item;
}
