"""Two web processes and two workers on one Redis: start on one, follow on the other, stop there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.relay.reader import Reader
from tests.site import Site, ask, until_status, until_text
from tests.waiting import wait_until

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.process

ROUNDS = 20


async def follow(client: httpx.AsyncClient, rid: str, reader: Reader) -> None:
    async with client.stream("GET", f"/api/responses/{rid}/events") as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert reply.headers["cache-control"] == "no-cache, no-transform"
        assert reply.headers["x-accel-buffering"] == "no"
        async for chunk in reply.aiter_raw():
            reader.feed(chunk)


@pytest.mark.parametrize("server", ["uvicorn", "daphne"])
async def test_start_here_follow_there_stop_there(tmp_path: Path, server: str) -> None:
    async with (
        Site(tmp_path, webs=2, workers=2, server=server) as site,
        site.client(0) as here,
        site.client(1) as there,
    ):

        async def one() -> None:
            rid = await ask(here, "say:2000 every:20")
            reader = Reader()
            following = asyncio.create_task(follow(there, rid, reader))
            await wait_until(lambda: len(reader.text) > 20, "text in the other process")
            reply = await there.post(f"/api/responses/{rid}/cancel")
            assert reply.status_code == 200, reply.text
            assert reply.json()["status"] == "cancelled"
            await asyncio.wait_for(following, 5)
            assert reader.ended is not None
            assert (reader.ended["status"], reader.ended["reason"]) == ("cancelled", "user")
            reader.check_whole(reader.text)
            body = await until_status(here, rid, "cancelled")
            assert body["text"] == reader.text
            again = await here.post(f"/api/responses/{rid}/cancel")
            assert (again.status_code, again.json()["status"]) == (200, "cancelled")

        await asyncio.gather(*(one() for _ in range(ROUNDS)))

        async def all_closed() -> bool:
            stats = await site.stats()
            return len(stats) == ROUNDS and all(r["state"] == "closed" for r in stats)

        await wait_until(all_closed, "the provider to have seen every connection closed")


async def test_redis_away_for_five_seconds_in_mid_answer(tmp_path: Path) -> None:
    """The answer goes on and is whole: paused, then killed and started again with its file."""
    env = {"RELAY_LEASE_S": "10", "RELAY_RENEW_S": "1"}
    async with Site(tmp_path, workers=1, persist=True, env=env) as site, site.client() as client:
        for away in ("paused", "killed"):
            rid = await ask(client, "say:400 every:20")
            await until_text(client, rid, 40)
            if away == "paused":
                site.valkey.pause()
                await asyncio.sleep(5)  # the length of the outage is what is tested
                site.valkey.resume()
            else:
                site.valkey.kill()
                await asyncio.sleep(5)  # as above
                site.valkey.start()
            body = await until_status(client, rid, "completed", timeout=40)
            assert len(body["text"].split()) == 400, away
    print("400 of 400 words after each outage of 5 s")


async def test_redis_away_at_the_start(tmp_path: Path) -> None:
    async with Site(tmp_path) as site, site.client() as client:
        site.valkey.kill()
        ready = await client.get("/readyz")
        assert ready.status_code == 503
        assert "redis" in ready.text.lower()
        reply = await client.post("/api/responses", json={"model": "scripted", "input": "hi"})
        assert reply.status_code == 503
        assert int(reply.headers["retry-after"]) > 0
        assert reply.headers["content-type"].startswith("application/problem+json")
        site.valkey.start()
        await site.until_ready(site.urls[0])
        rid = await ask(client, "say:3")
        await until_status(client, rid, "completed")
