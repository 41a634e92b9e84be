"""PROTOCOL 2, 6, 9 with real processes that are killed, paused and drained."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.relay.reader import Reader
from tests.site import LEASE_S, Site, ask, snapshot, until_status, until_text
from tests.waiting import wait_until

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.process


@asynccontextmanager
async def viewing(client: httpx.AsyncClient, rid: str) -> AsyncIterator[tuple[Reader, Any]]:
    """One connection that reads all the way; its task ends when the server closes the stream."""
    reader = Reader()

    async def read() -> None:
        headers = {"Accept": "text/event-stream"}
        async with client.stream("GET", f"/api/responses/{rid}/events", headers=headers) as reply:
            assert reply.status_code == 200
            async for chunk in reply.aiter_raw():
                reader.feed(chunk)

    task = asyncio.create_task(read())
    try:
        yield reader, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_worker_killed_in_mid_answer_leaves_an_interrupted_answer(tmp_path: Path) -> None:
    async with Site(tmp_path, workers=1) as site, site.client() as client:
        rid = await ask(client, "say:2000 every:20")
        async with viewing(client, rid) as (reader, connection):
            await wait_until(lambda: len(reader.text) > 40, "some text")
            second = site.start_worker()
            await wait_until(lambda: "Supervisor" in second.log, "a second worker", timeout=30)
            loop = asyncio.get_running_loop()
            died_s = loop.time()
            site.workers[0].kill()
            await asyncio.wait_for(connection, LEASE_S + 5)
            print(f"ended {loop.time() - died_s:.2f} s after kill -9 (lease {LEASE_S:g} s)")
        assert reader.ended is not None, "the viewer's one connection was told the end"
        assert (reader.ended["status"], reader.ended["reason"]) == ("interrupted", "worker_lost")
        reader.check_whole(reader.text)
        body = await until_status(client, rid, "interrupted")
        assert body["text"] == reader.text
        assert len(await site.stats()) == 1, "tokens already shown are never generated twice"
        again = await ask(client, "say:3")
        assert (await until_status(client, again, "completed"))["text"]


async def test_a_worker_woken_after_its_lease_appends_nothing(tmp_path: Path) -> None:
    async with Site(tmp_path, workers=1) as site, site.client() as client:
        rid = await ask(client, "say:2000 every:20")
        await until_text(client, rid, 40)
        site.start_worker()
        site.workers[0].send(signal.SIGSTOP)
        body = await until_status(client, rid, "interrupted", timeout=LEASE_S + 15)
        frozen = body["seq"], body["text"]
        site.workers[0].send(signal.SIGCONT)

        async def closed() -> bool:
            return all(request["state"] == "closed" for request in await site.stats())

        await wait_until(closed, "the woken worker to abort its upstream", timeout=10)
        body = await snapshot(client, rid)
        assert (body["seq"], body["text"]) == frozen
        assert site.workers[0].alive
        # It is still a worker: with the other one gone it serves the next answer.
        site.workers[1].kill()
        again = await ask(client, "say:3")
        assert (await until_status(client, again, "completed"))["text"]


async def test_a_job_without_content_runs_again_on_the_other_worker(tmp_path: Path) -> None:
    async with Site(tmp_path, workers=1) as site, site.client() as client:
        rid = await ask(client, "slow-first:1500")

        async def asked() -> bool:
            return len(await site.stats()) == 1

        await wait_until(asked, "the first worker to have asked the provider")
        site.start_worker()
        site.workers[0].kill()
        body = await until_status(client, rid, "completed", timeout=LEASE_S + 15)
        assert body["text"] == "Late, but here."
        assert len(await site.stats()) == 2


async def test_sigterm_drains(tmp_path: Path) -> None:
    """What has content ends as interrupted/shutdown, what has none is done by another worker."""
    env = {"RELAY_DRAIN_S": "0.5"}
    async with Site(tmp_path, workers=1, env=env) as site, site.client() as client:
        talking = await ask(client, "say:2000 every:20")
        silent = await ask(client, "slow-first:3000")
        await until_text(client, talking, 20)
        site.workers[0].send(signal.SIGTERM)
        assert site.workers[0].wait() == 0
        body = await snapshot(client, talking)
        assert (body["status"], body["reason"]) == ("interrupted", "shutdown")
        site.start_worker()
        body = await until_status(client, silent, "completed")
        assert body["text"] == "Late, but here."


async def test_a_web_process_killed_loses_nothing(tmp_path: Path) -> None:
    async with (
        Site(tmp_path, webs=2, workers=1) as site,
        site.client(0) as first,
        site.client(1) as second,
    ):
        rid = await ask(first, "say:150 every:10")
        async with viewing(first, rid) as (reader, connection):
            await wait_until(lambda: len(reader.text) > 40, "some text")
            site.webs[0].kill()
            await asyncio.wait([connection])
        assert reader.ended is None
        headers = {"Last-Event-ID": str(reader.cursor)}
        reader.decoder = type(reader.decoder)()
        async with second.stream("GET", f"/api/responses/{rid}/events", headers=headers) as reply:
            async for chunk in reply.aiter_raw():
                reader.feed(chunk)
        body = await until_status(second, rid, "completed")
        reader.check_whole(body["text"])
        assert reader.snapshots == 0


async def test_a_web_process_told_to_stop_lets_its_viewers_go(tmp_path: Path) -> None:
    """They get a comment and a clean end at once; the answer it ran says that it was shut down."""
    env = {"RELAY_DRAIN_S": "0.5"}
    async with Site(tmp_path, webs=2, env=env) as site, site.client(0) as first:
        rid = await ask(first, "say:2000 every:20")
        async with viewing(first, rid) as (reader, connection):
            await wait_until(lambda: len(reader.text) > 40, "some text")
            for web in site.webs:
                web.send(signal.SIGTERM)
            await asyncio.wait_for(connection, 3)
        assert reader.ended is None
        # uvicorn ends by the signal it was sent, once everything is shut down.
        assert [web.wait() for web in site.webs] == [-signal.SIGTERM] * 2
        assert not any("Traceback" in web.log for web in site.webs)
        site.start_web()
        await wait_until(lambda: site.webs[2].alive, "another web process")
        site.webs = site.webs[2:]
        await site.until_ready(site.urls[2])
        async with site.client(2) as third:
            body = await snapshot(third, rid)
            assert (body["status"], body["reason"]) == ("interrupted", "shutdown")
            assert body["text"].startswith(reader.text)
