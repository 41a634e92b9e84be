"""The real thing for tests: web processes, workers, a private Valkey, a scripted provider.

Everything listens on 127.0.0.1, is started as a process group of its own and killed as one. Limits
are short, so that a test waits for seconds where an installation waits for minutes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from chatapp.management.child import die_with
from tests.ports import free_port
from tests.valkey import PrivateValkey
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent
LEASE_S = 2.0
START_S = 30.0
FAST: Mapping[str, str] = {
    "RELAY_LEASE_S": str(LEASE_S),
    "RELAY_RENEW_S": "0.5",
    "RELAY_TAKE_OVER_S": "0.5",
    "RELAY_CHECK_S": "1",
    "RELAY_SWEEP_S": "1",
    "RELAY_MAX_GENERATIONS_PER_USER": "0",
    "TITLES": "0",  # tests count what a provider is asked
    # One tester at one address stands for many people.
    "MAX_REQUESTS_PER_ADDRESS": "0",
    "MAX_REQUESTS_PER_USER": "0",
    "MAX_STREAMS_PER_ADDRESS": "0",
    "MAX_STREAMS_PER_USER": "0",
}


class Proc:
    """One child with its log; signals go to its whole group."""

    def __init__(self, name: str, argv: list[str], env: Mapping[str, str], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                argv,
                cwd=ROOT,
                env=dict(env),
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=die_with(os.getpid()),  # a killed test run leaves no process behind
            )

    def __repr__(self) -> str:
        return f"<Proc {self.name} pid {self.popen.pid} exit {self.popen.poll()}>"

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def send(self, sig: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, sig)

    def kill(self) -> None:
        """As in a crash; a stopped process is woken up for it. Safe to repeat."""
        self.send(signal.SIGKILL)
        self.popen.wait(10)

    def wait(self, timeout: float = 30.0) -> int:
        return self.popen.wait(timeout)


class Site:
    """`async with Site(tmp_path, webs=2, workers=2) as site:`

    Args:
        webs: web processes; `embedded` says whether they run supervisors, by default only if
            there are no workers.
        server: "uvicorn" or "daphne".
        engine: also the embedded engine, as model `smollm2`.
        env: more settings of all processes.
    """

    def __init__(
        self,
        folder: Path,
        *,
        webs: int = 1,
        workers: int = 0,
        embedded: bool | None = None,
        server: str = "uvicorn",
        persist: bool = False,
        engine: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.valkey = PrivateValkey(persist=persist)
        self.webs: list[Proc] = []
        self._web_numbers, self._worker_numbers = count(), count()
        self.workers: list[Proc] = []
        self.urls: list[str] = []
        self.key = ""
        self.scripted_url = ""
        self._scripted: Proc | None = None
        self.engine_url = ""
        self._engine: Proc | None = None
        self._wants_engine = engine
        self._counts = (webs, workers)
        self._server = server
        models = folder / "models.toml"
        self._models = models
        self.env = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(ROOT),
            "DEBUG": "1",
            "SECRET_KEY": "only for tests",
            "ALLOWED_HOSTS": "127.0.0.1,localhost",
            "DATABASE_URL": f"sqlite:///{folder / 'db.sqlite3'}",
            "REDIS_URL": self.valkey.url,
            "RELAY_MODELS": str(models),
            "RELAY_EMBEDDED": "1" if (workers == 0 if embedded is None else embedded) else "0",
            **FAST,
            **(env or {}),
        }

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            for proc in (*self.webs, *self.workers):
                print(f"--- {proc!r}\n{proc.log[-4000:]}")
        self.close()

    def close(self) -> None:
        for proc in (*self.webs, *self.workers, self._scripted, self._engine):
            if proc is not None:
                proc.kill()
        self.valkey.close()

    async def _start(self) -> None:
        self.valkey.start()
        port = free_port()
        self.scripted_url = f"http://127.0.0.1:{port}"
        self._scripted = self._spawn("scripted", ["-m", "tests.scripted", "--port", str(port)])
        self._models.write_text(
            "[models.scripted]\n"
            'dialect = "openai-chat"\n'
            f'base_url = "{self.scripted_url}/v1"\n'
            'upstream_model = "scripted-1"\n'
            'supports = ["images"]\n'
        )
        if self._wants_engine:
            await self._start_engine()
        database = self.folder / "db.sqlite3"
        if self.env["DATABASE_URL"] == f"sqlite:///{database}":
            content, self.key = _prepared()
            database.write_bytes(content)
        else:
            self.key = self._prepare()
        webs, workers = self._counts
        for _ in range(webs):
            self.start_web()
        for _ in range(workers):
            self.start_worker()
        for url in self.urls:
            await self.until_ready(url)

    def _prepare(self) -> str:
        """Make the tables and the tester; the tester's key."""
        self.manage("migrate", "--verbosity", "0")
        return self.manage("create_api_key", "tester", "--create-user").strip()

    async def _start_engine(self) -> None:
        address = self.folder / "engine-address"
        argv = ["-m", "chatapp.management.engine", "--address-file", str(address)]
        self._engine = self._spawn("engine", argv)
        await wait_until(address.exists, "the engine to have loaded its model", timeout=START_S)
        self.engine_url = address.read_text().strip()
        with self._models.open("a") as models:
            models.write(
                "[models.smollm2]\n"
                'dialect = "openai-chat"\n'
                f'base_url = "{self.engine_url}/v1"\n'
                'upstream_model = "smollm2"\n'
                "extra_body = { return_progress = true }\n"
            )

    def manage(self, *args: str) -> str:
        """Run one manage.py command and return its output."""
        done = subprocess.run(
            [sys.executable, "manage.py", *args],
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"manage.py {' '.join(args)}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _spawn(self, name: str, argv: list[str], env: Mapping[str, str] | None = None) -> Proc:
        return Proc(name, [sys.executable, *argv], env or self.env, self.folder / f"{name}.log")

    def start_web(self) -> Proc:
        port = free_port()
        if self._server == "uvicorn":
            argv = ["-m", "uvicorn", "chatapp.asgi:application", "--host", "127.0.0.1"]
            argv += ["--http", "chatapp.middleware.heads:BoundedHttp"]
            argv += ["--port", str(port), "--timeout-graceful-shutdown", "5", "--log-level", "info"]
        else:
            argv = ["-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "chatapp.asgi:application"]
        proc = self._spawn(f"web{next(self._web_numbers)}", argv)
        self.webs.append(proc)
        self.urls.append(f"http://127.0.0.1:{port}")
        return proc

    def start_worker(self) -> Proc:
        proc = self._spawn(f"worker{next(self._worker_numbers)}", ["manage.py", "relay_worker"])
        self.workers.append(proc)
        return proc

    async def until_ready(self, url: str) -> None:
        async with httpx.AsyncClient() as client:

            async def ready() -> bool:
                dead = [p for p in (*self.webs, *self.workers) if not p.alive]
                assert not dead, f"{dead[0]!r} died:\n{dead[0].log[-3000:]}"
                try:
                    return (await client.get(f"{url}/readyz", timeout=5)).status_code == 200
                except httpx.TransportError:
                    return False

            await wait_until(ready, f"{url} to be ready", timeout=START_S)

    def client(self, web: int = 0) -> httpx.AsyncClient:
        """An API client of one web process, with the tester's key."""
        return httpx.AsyncClient(
            base_url=self.urls[web],
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=httpx.Timeout(30),
        )

    async def stats(self) -> list[dict[str, Any]]:
        """What the scripted provider saw of each request."""
        async with httpx.AsyncClient() as client:
            body: Any = (await client.get(f"{self.scripted_url}/stats")).json()
            requests: list[dict[str, Any]] = body["requests"]
            return requests


@cache
def _prepared() -> tuple[bytes, str]:
    """An SQLite file that is ready, and the tester's key: made once, as it is 4 s of CPU."""
    with tempfile.TemporaryDirectory(prefix="unbroken-site-") as folder:
        site = Site(Path(folder))
        site._models.touch()
        key = site._prepare()
        return (site.folder / "db.sqlite3").read_bytes(), key


async def ask(client: httpx.AsyncClient, text: str, *, model: str = "scripted", **more: Any) -> str:
    """Create a response; its id."""
    reply = await client.post("/api/responses", json={"model": model, "input": text, **more})
    assert reply.status_code == 202, reply.text
    rid: str = reply.json()["id"]
    return rid


async def snapshot(client: httpx.AsyncClient, rid: str) -> dict[str, Any]:
    reply = await client.get(f"/api/responses/{rid}")
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


async def until_status(
    client: httpx.AsyncClient, rid: str, *statuses: str, timeout: float = 20
) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        body = await snapshot(client, rid)
        return body if body["status"] in statuses else None

    return await wait_until(look, f"{rid} to be {' or '.join(statuses)}", timeout=timeout)


async def until_text(client: httpx.AsyncClient, rid: str, chars: int = 1) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        body = await snapshot(client, rid)
        return body if len(body["text"]) >= chars else None

    return await wait_until(look, f"{chars} characters of {rid}", timeout=20)


__all__ = ["LEASE_S", "Proc", "Site", "ask", "snapshot", "until_status", "until_text"]
