"""Faults of a running site: each moves its series and fires its alert, and no other.

The rules are the ones that ship, with a second for each of their minutes (tests/alerts/rules.py).
"""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import redis.asyncio as redis

from tests.alerts.prometheus import Prometheus, prometheus
from tests.ports import free_port
from tests.site import Proc, Site, ask, until_status, until_text
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    import httpx

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

LEASE_S = 8.0
"""Longer than the pause of Redis: a lease that lapsed would be another alert, and a right one."""
PAUSE_S = 5.5
ENV = {
    "RELAY_LEASE_S": str(LEASE_S),
    "RELAY_RENEW_S": "1",
    "RELAY_HEARTBEAT_S": "0.5",
    "RELAY_READ_S": "3",
    "RELAY_MAX_LOG_BYTES": str(64 * 1024 * 1024),
}
FIRES_S = 60.0
"""Longest wait for an alert; windows and `for` are seconds."""
CALM_S = 4.0
"""What comes along with an alert is there by then."""


class Ground:
    def __init__(self, site: Site, seen: Prometheus, client: httpx.AsyncClient) -> None:
        self.site = site
        self.seen = seen
        self.client = client
        self._tasks = AsyncExitStack()

    async def watched(self, text: str, **more: Any) -> str:
        """An answer with a viewer that reads all of it."""
        rid = await ask(self.client, text, **more)
        await self._tasks.enter_async_context(self._reading(rid))
        return rid

    @asynccontextmanager
    async def _reading(self, rid: str) -> AsyncIterator[None]:
        async def read() -> None:
            async with self.client.stream("GET", f"/api/responses/{rid}/events") as reply:
                async for _ in reply.aiter_raw():
                    pass

        task = asyncio.create_task(read())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def leave(self) -> None:
        """All viewers lose their connection."""
        await self._tasks.aclose()


async def port_of(process: Proc) -> int:
    """Where it shows its metrics: the next one where another test has taken that port."""
    shown = re.compile(r"metrics are shown on port (\d+)")
    await wait_until(lambda: shown.search(process.log), "a process to show its metrics", timeout=30)
    found = shown.search(process.log)
    assert found
    return int(found[1])


@asynccontextmanager
async def ground(folder: Path, workers: int) -> AsyncIterator[Ground]:
    """A site on which nothing is wrong: people have asked, and no alert has fired."""
    env = ENV | {"METRICS_PORT": str(free_port())}
    async with Site(folder, workers=workers, env=env) as site, site.client() as client:
        ports = [await port_of(process) for process in (*site.webs, *site.workers)]
        async with prometheus(folder, ports) as seen:
            made = Ground(site, seen, client)
            try:
                for _ in range(3):
                    rid = await made.watched("say:60 every:10")
                    await until_status(client, rid, "completed")
                assert not seen.fired
                yield made
            finally:
                await made.leave()


async def kill_a_worker(ground: Ground) -> None:
    """It is started again at once, as a service manager would."""
    rids = [await ground.watched("say:3000 every:10") for _ in range(6)]
    for rid in rids:
        await until_text(ground.client, rid)
    for worker in list(ground.site.workers):
        worker.kill()
        ground.site.workers.remove(worker)
        ground.site.start_worker()


async def stall_the_upstream(ground: Ground) -> None:
    rids = [await ground.watched("stall:after:10") for _ in range(4)]
    for rid in rids:
        ended = await until_status(ground.client, rid, "failed", timeout=30)
        assert ended["reason"] == "stalled"


async def slow_viewers(ground: Ground) -> None:
    """Phones that have stopped reading, and an answer that no kernel's buffers hold."""
    rid = await ask(ground.client, f"say:3000 every:5 as:{'x' * 8000}")
    address = urlsplit(ground.site.urls[0])
    request = (
        f"GET /api/responses/{rid}/events HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Authorization: Bearer {ground.site.key}\r\n\r\n"
    )
    for _ in range(8):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect((address.hostname, address.port))
        sock.sendall(request.encode())
        ground._tasks.callback(sock.close)


async def drop_messages(ground: Ground) -> None:
    """Somebody cuts the subscriptions again and again."""
    for _ in range(4):
        await ground.watched("say:3000 every:5")

    async def cut() -> None:
        while True:
            await _order(ground, "CLIENT", "KILL", "TYPE", "pubsub")
            await asyncio.sleep(0.15)

    task = asyncio.create_task(cut())
    ground._tasks.callback(task.cancel)


async def pause_redis(ground: Ground) -> None:
    for _ in range(3):
        rid = await ground.watched("say:3000 every:10")
        await until_text(ground.client, rid)
    await _order(ground, "CLIENT", "PAUSE", round(PAUSE_S * 1000), "ALL")


async def _order(ground: Ground, *command: str | int) -> None:
    async with redis.Redis.from_url(ground.site.valkey.url) as client:
        execute: Any = client.execute_command  # untyped
        await execute(*command)


async def everybody_leaves(ground: Ground) -> None:
    policy = {"cancel_after_s": 3, "leave_after_s": 1}
    rids = [await ground.watched("say:4000 every:5", on_disconnect=policy) for _ in range(8)]
    for rid in rids:
        await until_text(ground.client, rid)
    await ground.leave()
    for rid in rids:
        ended = await until_status(ground.client, rid, "cancelled", timeout=30)
        assert ended["reason"] == "abandoned"


@pytest.mark.parametrize(
    ("fault", "alert", "moved"),
    [
        (kill_a_worker, "UnbrokenLeasesLapsed", "sum(unbroken_leases_lapsed_total)"),
        (
            stall_the_upstream,
            "UnbrokenUpstreamErrors",
            'sum(unbroken_upstream_errors_total{kind="stalled"})',
        ),
        (slow_viewers, "UnbrokenViewersLag", "max(unbroken_viewer_lag_seconds)"),
        (drop_messages, "UnbrokenMessagesLost", "sum(unbroken_gap_fills_total)"),
        (pause_redis, "UnbrokenStoreAway", 'sum(unbroken_append_seconds_bucket{le="+Inf"})'),
        (
            everybody_leaves,
            "UnbrokenZombieTokens",
            'sum(unbroken_responses_ended_total{reason="abandoned"})',
        ),
    ],
    ids=[
        *("kill a worker", "stall the upstream", "slow viewers", "drop messages"),
        *("pause redis", "everybody leaves"),
    ],
)
async def test_a_fault_fires_its_alert_and_no_other(
    tmp_path: Path, fault: Callable[[Ground], Awaitable[None]], alert: str, moved: str
) -> None:
    async with ground(tmp_path, workers=2) as site:
        before = await site.seen.value(moved)
        await fault(site)
        await wait_until(lambda: site.seen.fired, f"{alert} to fire", timeout=FIRES_S)
        await asyncio.sleep(CALM_S)  # for another to fire as well
        assert set(site.seen.fired) == {alert}
        assert await site.seen.value(moved) > before


async def test_without_workers_questions_wait_and_somebody_is_told(tmp_path: Path) -> None:
    async with ground(tmp_path, workers=1) as site:
        (worker,) = site.site.workers
        worker.send(signal.SIGTERM)
        await asyncio.to_thread(worker.wait)
        site.site.workers.remove(worker)
        rid = await ask(site.client, "say:3")
        await wait_until(lambda: site.seen.fired, "UnbrokenNoWorkers to fire", timeout=FIRES_S)
        assert set(site.seen.fired) == {"UnbrokenNoWorkers"}
        site.site.start_worker()
        assert (await until_status(site.client, rid, "completed", timeout=30))["text"]
