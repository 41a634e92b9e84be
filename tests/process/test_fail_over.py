"""PROTOCOL 13 with real processes: the primary is lost in mid-answer, and nobody is restarted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from relay import shard_of
from relay.store import keys
from tests.process.test_deaths import viewing
from tests.site import Site, ask, until_status, until_text
from tests.valkey_cluster import PrivateCluster
from tests.valkey_sentinel import PrivateSentinels
from tests.waiting import wait_until

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.process

WORDS = 400
SHARDS = 3
LEASE_S = "8"  # above what a fail-over takes on a busy machine


async def stop_over_there(here: httpx.AsyncClient, there: httpx.AsyncClient) -> None:
    """A new question to one process, stopped at the other."""
    rid = await ask(here, "say:2000 every:20")
    await until_text(there, rid, 40)
    reply = await there.post(f"/api/responses/{rid}/cancel")
    assert reply.status_code in (200, 202), reply.text
    body = await until_status(here, rid, "cancelled")
    assert body["reason"] == "user"


@pytest.mark.parametrize("how", ["killed", "paused"])
async def test_a_primary_that_sentinels_replace_costs_no_word(tmp_path: Path, how: str) -> None:
    with PrivateSentinels() as trio:
        env = {"REDIS_URL": trio.url, "RELAY_LEASE_S": LEASE_S}
        async with (
            Site(tmp_path, webs=2, workers=1, env=env) as site,
            site.client(0) as here,
            site.client(1) as there,
        ):
            rid = await ask(here, f"say:{WORDS} every:20")
            async with viewing(there, rid) as (reader, connection):
                await wait_until(lambda: reader.cursor > 50, "some text")
                old = trio.primary()
                old.kill() if how == "killed" else old.pause()
                await asyncio.wait_for(connection, 60)
            body = await until_status(here, rid, "completed")
            reader.check_whole(body["text"])
            assert len(body["text"].split()) == WORDS
            assert len(await site.stats()) == 1, "nothing was generated twice"
            assert trio.primary() is not old
            if how == "paused":
                old.resume()
            await stop_over_there(here, there)


async def test_a_primary_of_a_cluster_that_is_killed_costs_no_word(tmp_path: Path) -> None:
    with PrivateCluster(replicas=True) as cluster:
        env = {"REDIS_URL": cluster.url, "RELAY_LEASE_S": LEASE_S, "RELAY_SHARDS": str(SHARDS)}
        async with (
            Site(tmp_path, webs=2, workers=2, env=env) as site,
            site.client(0) as here,
            site.client(1) as there,
        ):
            await stop_over_there(here, there)
            rids = [await ask(here, f"say:{WORDS} every:20") for _ in range(2 * SHARDS)]
            shards = {shard_of(rid) for rid in rids}
            async with viewing(there, rids[0]) as (reader, connection):
                await wait_until(lambda: reader.cursor > 50, "some text")
                cluster.owner(keys.jobs(shard_of(rids[0]))).kill()
                await asyncio.wait_for(connection, 60)
            for rid in rids:
                body = await until_status(here, rid, "completed", timeout=60)
                assert len(body["text"].split()) == WORDS
                if rid == rids[0]:
                    reader.check_whole(body["text"])
            assert len(await site.stats()) == 1 + len(rids), "nothing was generated twice"
            for _ in shards:
                await stop_over_there(there, here)
