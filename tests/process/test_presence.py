"""What the absence of viewers means, end to end: real sockets, heartbeats, timers (PROTOCOL 7)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.relay.reader import Reader
from tests.site import Site, ask, snapshot, until_status
from tests.waiting import wait_until

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.process

ENV = {"RELAY_HEARTBEAT_S": "0.5"}
LONG = "say:2000 every:20"
"""Forty seconds, if nobody ends it."""
CANCELLED_WITHIN_S = 15.0
"""Two heartbeats, a renewal, and a busy machine: a small part of the forty seconds."""


@asynccontextmanager
async def watching(client: httpx.AsyncClient, rid: str, viewer: str) -> AsyncIterator[Reader]:
    """A viewer with some text on its screen; its socket is cut at the end."""
    reader = Reader()

    async def read() -> None:
        path = f"/api/responses/{rid}/events?viewer={viewer}"
        async with client.stream("GET", path) as reply:
            assert reply.status_code == 200
            async for chunk in reply.aiter_raw():
                reader.feed(chunk)

    task = asyncio.create_task(read())
    try:
        await wait_until(lambda: len(reader.text) > 20, f"{viewer} to see text")
        yield reader
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def abandoned(client: httpx.AsyncClient, rid: str) -> dict[str, Any]:
    body = await until_status(client, rid, "cancelled", timeout=CANCELLED_WITHIN_S)
    assert body["reason"] == "abandoned"
    return body


def row(site: Site, rid: str) -> tuple[int, int, int | None, int]:
    """delivered_seq, fold_seq, zombie_tokens, counted_output_tokens"""
    query = (
        "SELECT delivered_seq, fold_seq, zombie_tokens, counted_output_tokens "
        "FROM chatapp_response WHERE id = ?"
    )
    with closing(sqlite3.connect(site.folder / "db.sqlite3")) as db:
        found: tuple[int, int, int | None, int] = db.execute(query, [rid]).fetchone()
        return found


async def until_judged(site: Site, rid: str) -> tuple[int, int, int, int]:
    async def judged() -> Any:
        found = row(site, rid)
        return found if found[2] is not None else None

    found: tuple[int, int, int, int] = await wait_until(judged, "a judgement", timeout=20)
    return found


async def test_continue_goes_on_for_nobody_and_counts_it(tmp_path: Path) -> None:
    async with Site(tmp_path, workers=1, env=ENV) as site, site.client() as client:
        rid = await ask(client, "say:100 every:20", on_disconnect="continue")
        async with watching(client, rid, "one") as reader:
            seen = len(reader.text)
        body = await until_status(client, rid, "completed")
        assert len(body["text"]) > seen
        delivered, last, zombies, tokens = await until_judged(site, rid)
        assert 0 < delivered < last
        assert 0 < zombies < tokens
        print(f"delivered {delivered} of {last} events; {zombies} of {tokens} tokens for nobody")


async def test_whoever_reads_to_the_end_leaves_no_zombies(tmp_path: Path) -> None:
    async with Site(tmp_path, workers=1, env=ENV) as site, site.client() as client:
        rid = await ask(client, "say:50 every:20")
        async with watching(client, rid, "one") as reader:
            await wait_until(lambda: reader.ended is not None, "the end", timeout=20)
        delivered, last, zombies, _ = await until_judged(site, rid)
        assert (delivered, zombies) == (last, 0)


async def test_cancel_ends_it_when_the_socket_is_gone(tmp_path: Path) -> None:
    async with Site(tmp_path, workers=1, env=ENV) as site, site.client() as client:
        rid = await ask(client, LONG, on_disconnect="cancel")
        async with watching(client, rid, "one"):
            pass
        await abandoned(client, rid)

        async def closed() -> bool:
            (request,) = await site.stats()
            return bool(request["state"] == "closed")

        await wait_until(closed, "the provider's connection to be closed")


async def test_a_second_viewer_and_one_that_comes_back_keep_it_alive(tmp_path: Path) -> None:
    policy = {"cancel_after_s": 0.5, "leave_after_s": 0.5}
    async with Site(tmp_path, workers=1, env=ENV) as site, site.client() as client:
        rid = await ask(client, LONG, on_disconnect=policy)
        async with watching(client, rid, "second") as second:
            async with watching(client, rid, "one"):
                pass
            reply = await client.post(f"/api/responses/{rid}/leave", json={"viewer": "one"})
            assert reply.status_code == 204
            # Longer than every timer: what was written in this time was written for the second.
            seen = len(second.text)
            await wait_until(lambda: len(second.text) > seen + 1000, "3 s of text", timeout=20)
        async with watching(client, rid, "second"):  # lost, and back before its time is over
            assert (await snapshot(client, rid))["status"] == "in_progress"
        await abandoned(client, rid)


async def test_a_leave_starts_the_short_timer(tmp_path: Path) -> None:
    policy = {"cancel_after_s": 600, "leave_after_s": 0.2}
    async with Site(tmp_path, workers=1, env=ENV) as site, site.client() as client:
        rid = await ask(client, LONG, on_disconnect=policy)
        async with watching(client, rid, "one"):
            pass
        reply = await client.post(f"/api/responses/{rid}/leave", json={"viewer": "one"})
        assert reply.status_code == 204
        await abandoned(client, rid)
