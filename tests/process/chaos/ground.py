"""What is broken: web processes, workers, Valkey behind a proxy, a database, a provider."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import httpx
import psutil
from redis.exceptions import RedisError

from relay.store import keys
from tests.ports import free_port
from tests.process.chaos.clock import Clock
from tests.process.chaos.database import Database, Postgres, Sqlite
from tests.process.chaos.ledger import MODELS
from tests.process.chaos.recovery import LEASE_S
from tests.process.chaos.servers import LOOKS, Servers
from tests.process.chaos.slot import READY_S, Slot
from tests.site import ROOT
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

TOTAL_S = 60.0
SETTINGS: Mapping[str, str] = {
    "RELAY_LEASE_S": str(LEASE_S),
    "RELAY_RENEW_S": "0.75",
    "RELAY_TAKE_OVER_S": "0.5",
    "RELAY_CHECK_S": "1",
    "RELAY_SWEEP_S": "1",
    "RELAY_HEARTBEAT_S": "2",
    "RELAY_READ_S": "4",
    "RELAY_FIRST_BYTE_S": "5",
    "RELAY_CONNECT_S": "2",
    "RELAY_TOTAL_S": str(TOTAL_S),
    "RELAY_DRAIN_S": "1",
    "RELAY_UPSTREAM_RETRIES": "1",
    "RELAY_MAX_GENERATIONS_PER_USER": "0",
    "TITLES": "0",  # what a provider is asked is counted
    # One tester at one address stands for many people.
    "MAX_REQUESTS_PER_ADDRESS": "0",
    "MAX_REQUESTS_PER_USER": "0",
    "MAX_STREAMS_PER_ADDRESS": "0",
    "MAX_STREAMS_PER_USER": "0",
}
MEMORY_ERROR = re.compile(r"(?<!\w)MemoryError")
"""Not redis-py's OutOfMemoryError, which is Redis's own memory."""
PROCESS_MAX_BYTES = 3 * 2**29
"""Of address space, for each web process and worker: 1.5 GiB, where they are seen to reserve up to
0.7 GiB. A leak meets it and is found."""


class Ground:
    """`async with Ground(folder, webs=2, workers=2, seed=7) as ground:`; all is killed at the end.

    The last of several web processes runs under Daphne.
    """

    def __init__(
        self,
        folder: Path,
        *,
        webs: int,
        workers: int,
        seed: int,
        postgres: bool = False,
        sentinels: bool = False,
    ) -> None:
        self.folder = folder
        self.servers = Servers(seed, sentinels=sentinels)
        self.database: Database = Postgres() if postgres else Sqlite(folder)
        self.key = ""
        self.peak_bytes = 0
        self.peak_process_bytes = 0
        """Of address space, in the one process that reserved most."""
        self.complaints: list[tuple[str, str]] = []
        """(column, sentence)."""
        provider_port = free_port()
        self.provider_url = f"http://127.0.0.1:{provider_port}"
        (folder / "models.toml").write_text(
            "".join(
                f'[models.{name}]\ndialect = "openai-chat"\n'
                f'base_url = "{self.provider_url}/v1"\nupstream_model = "{name}"\n'
                for name in MODELS
            )
        )
        self._env = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(ROOT),
            "DEBUG": "1",
            "SECRET_KEY": "only for tests",
            "ALLOWED_HOSTS": "127.0.0.1",
            "DATABASE_URL": self.database.url,
            "RELAY_MODELS": str(folder / "models.toml"),
            **SETTINGS,
        }
        argv = ["-m", "tests.scripted", "--port", str(provider_port)]
        self.provider = Slot("provider", argv, self._env, folder / "provider.log")
        self.workers = [
            self._slot(f"worker{n}", ["manage.py", "relay_worker"]) for n in range(workers)
        ]
        self.webs: list[Slot] = []
        self.urls: list[str] = []
        for n in range(webs):
            port = free_port()
            self.urls.append(f"http://127.0.0.1:{port}")
            self.webs.append(self._slot(f"web{n}", _web(port, daphne=0 < n == webs - 1)))

    @property
    def direct(self) -> Any:
        """To the primary, past the proxy."""
        return self.servers.direct

    @property
    def slots(self) -> list[Slot]:
        return [self.provider, *self.workers, *self.webs]

    async def __aenter__(self) -> Self:
        try:
            await self.servers.start()
            self._env["REDIS_URL"] = self.servers.url
            self.database.start()
            self.manage("manage.py", "migrate", "--verbosity", "0")
            self.key = self.manage("manage.py", "create_api_key", "me", "--create-user").strip()
            self.start_all()
            await self.until_ready()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        for slot in self.slots:
            slot.kill()
        await self.servers.close()
        self.database.close()

    def _slot(self, name: str, argv: list[str]) -> Slot:
        log = self.folder / f"{name}.log"
        clock = Clock(self.folder / f"{name}.clock")
        return Slot(name, argv, self._env, log, max_bytes=PROCESS_MAX_BYTES, clock=clock)

    def start_all(self) -> None:
        for slot in self.slots:
            slot.start()

    async def heal(self) -> None:
        """Everything runs and nothing is in its way."""
        self.servers.heal()
        for slot in self.slots:
            slot.send(signal.SIGCONT)
            if slot.clock is not None:
                slot.clock.set(0)
        await self.database.heal()
        with suppress(RedisError):
            await self.direct.config_set("maxmemory", 0)
            await self.direct.client_unpause()
        self.start_all()
        await self.until_ready()

    async def until_ready(self) -> None:
        async with httpx.AsyncClient() as client:
            for url in self.urls:

                async def ready(url: str = url) -> bool:
                    with suppress(httpx.HTTPError):
                        return (await client.get(f"{url}/readyz", timeout=5)).status_code == 200
                    return False

                await wait_until(ready, f"{url} to be ready", timeout=READY_S)

    def manage(self, *argv: str) -> str:
        done = subprocess.run(
            [sys.executable, *argv],
            cwd=ROOT,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(argv)}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def records(self) -> dict[str, Any]:
        """All rows that the checker needs, whatever the database."""
        rows: dict[str, Any] = json.loads(self.manage("-m", "tests.process.chaos.dump"))
        return rows

    async def provider_requests(self) -> list[dict[str, Any]]:
        async with httpx.AsyncClient() as client:
            body: Any = (await client.get(f"{self.provider_url}/stats", timeout=10)).json()
            requests: list[dict[str, Any]] = body["requests"]
            return requests

    def client(self) -> httpx.AsyncClient:
        """To be used for many requests: making one costs 40 ms of CPU."""
        return httpx.AsyncClient(headers={"Authorization": f"Bearer {self.key}"}, timeout=20)

    async def until_quiet(self, timeout_s: float) -> None:
        """No jobs, no open requests at the provider; or the time is up, and the checker says so."""

        async def quiet() -> bool:
            open_now = [r for r in await self.provider_requests() if r["state"] == "open"]
            return not (open_now or await self.channels() or await self.direct.xlen(keys.jobs(0)))

        with suppress(AssertionError):
            await wait_until(quiet, "the end of all work", timeout=timeout_s)

    async def held_by(self, pid: int) -> list[str]:
        """Answers in the hands of a worker process, as the job stream tells."""
        with suppress(RedisError, TimeoutError):
            async with asyncio.timeout(0.5):  # it may be away or paused; the fault does not wait
                return await self._held_by(pid)
        return []

    async def _held_by(self, pid: int) -> list[str]:
        jobs = keys.jobs(0)
        pending = await self.direct.xpending_range(jobs, keys.GROUP, "-", "+", 1000)
        mine = {entry["message_id"] for entry in pending if f":{pid}:" in entry["consumer"]}
        return [job["r"] for entry, job in await self.direct.xrange(jobs) if entry in mine]

    async def jobs(self) -> list[str]:
        """What is in the job stream, and in whose hands for how long."""
        jobs = keys.jobs(0)
        with suppress(RedisError):  # without a group nobody has any of them
            pending = await self.direct.xpending_range(jobs, keys.GROUP, "-", "+", 1000)
            hands = {
                entry["message_id"]: f"with {entry['consumer']}, "
                f"idle for {entry['time_since_delivered']} ms, "
                f"handed out {entry['times_delivered']} times"
                for entry in pending
            }
            entries = await self.direct.xrange(jobs)
            return [f"{entry} {job['r']}, {hands.get(entry, 'waits')}" for entry, job in entries]
        return [f"{entry} {job['r']}, waits" for entry, job in await self.direct.xrange(jobs)]

    def redis_clients_due(self) -> dict[str, int]:
        """What a healthy installation keeps: a subscription and two lanes (scripts, reads) for
        each process, and a blocking read for each worker."""
        processes = len(self.webs) + len(self.workers)
        return {"pubsub": processes, "blocked": len(self.workers), "other": 2 * processes}

    async def redis_clients(self) -> dict[str, list[str]]:
        """Open connections of all processes, by what they are for; each by its age and last use."""
        kinds: dict[str, list[str]] = {"pubsub": [], "blocked": [], "other": []}
        for direct in self.servers.directs:
            for client in await direct.client_list():
                if _is_theirs(client):
                    blocked = "b" in client["flags"]
                    kind = "pubsub" if client["ssub"] != "0" else "blocked" if blocked else "other"
                    told = f"{client['cmd']}, {client['age']} s old, idle for {client['idle']} s"
                    kinds[kind].append(told)
        return kinds

    async def channels(self) -> list[str]:
        """Of responses, that somebody listens to."""
        found: list[str] = []
        for direct in self.servers.directs:
            found += await direct.execute_command("PUBSUB", "SHARDCHANNELS", "*:ch:*")
        return found

    async def watch(self) -> None:
        """Until cancelled: how much memory is used, and who dies without having been told to."""
        while True:
            self._look_at_memory()
            self._look_for_deaths()
            await asyncio.sleep(1)

    def _look_at_memory(self) -> None:
        limited = {slot.pid for slot in (*self.workers, *self.webs)}
        total = 0
        for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                memory = process.memory_info()
                total += memory.rss
                if process.pid in limited:
                    self.peak_process_bytes = max(self.peak_process_bytes, memory.vms)
        self.peak_bytes = max(self.peak_bytes, total)

    def _look_for_deaths(self) -> None:
        for slot in self.slots:
            if (status := slot.fell()) is not None:
                self.complaints.append(("wrong exits", f"{slot.name} died with status {status}"))

    def look_into_logs(self) -> None:
        """A process that has met its limit may live on with half of its work undone."""
        for slot in self.slots:
            if times := len(MEMORY_ERROR.findall(slot.log.read_text(errors="replace"))):
                sentence = f"{slot.name} says MemoryError {times} times"
                self.complaints.append(("out of memory", sentence))


def _is_theirs(client: Mapping[str, str]) -> bool:
    """A web process's or a worker's: not ours, a Sentinel's, a replica's or a primary's."""
    ours = client["name"] == LOOKS or client["name"].startswith("sentinel-")
    return not (ours or {"S", "M"} & set(client["flags"]))


def _web(port: int, *, daphne: bool) -> list[str]:
    if daphne:
        return ["-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "chatapp.asgi:application"]
    argv = ["-m", "uvicorn", "chatapp.asgi:application", "--host", "127.0.0.1", "--port"]
    argv += [str(port), "--timeout-graceful-shutdown", "5", "--no-access-log"]
    return [*argv, "--http", "chatapp.middleware.heads:BoundedHttp"]
