"""PROTOCOL 13.3: a node of a cluster that hangs is an outage for its slots alone."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import TYPE_CHECKING

import pytest

from relay.config import RelayConfig
from relay.follow import follow
from relay.hub import Hub
from relay.store import RedisStore, fold_log, keys, shard_of
from relay.supervisor import Supervisor
from tests.relay.actors import MODEL, MemoryRecords, PuppetUpstream
from tests.relay.reader import Reader
from tests.relay.scribe import Scribe
from tests.valkey_cluster import PrivateCluster
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.relay.actors import PuppetCall

SHARDS = range(4)
CONFIG = RelayConfig(check_s=0.2, lease_s=4.0, renew_s=0.5, take_over_s=0.2, shards=len(SHARDS))
"""Leases shorter than the two round trips (6 s) after which a node that hangs is given up."""
HANGS_S = 3 * CONFIG.lease_s


class Installation:
    """A supervisor and a hub on one cluster; a response in each shard."""

    def __init__(self, store: RedisStore, hub: Hub, records: MemoryRecords) -> None:
        self.store, self.hub, self.records = store, hub, records
        self.upstream = PuppetUpstream()
        self.calls: dict[str, PuppetCall] = {}

    async def ask(self, shard: int) -> str:
        scribe = Scribe(self.store)
        scribe.rid = f"resp_{shard}_{uuid.uuid4().hex}"
        self.records.requests[scribe.rid] = scribe.request()
        await scribe.create()

        def call() -> PuppetCall | None:
            asked = (c for c in self.upstream.calls if c.request.response_id == scribe.rid)
            return next(asked, None)

        self.calls[scribe.rid] = await wait_until(call, "a worker to take it", timeout=20)
        return scribe.rid

    async def until_text(self, rid: str, text: str) -> None:
        async def shown() -> bool:
            folded = await fold_log(self.store, rid)
            return folded is not None and folded[0].text == text

        await wait_until(shown, f"{text[-20:]!r} in the log of {rid}", timeout=CONFIG.lease_s)

    async def end_of(self, rid: str) -> tuple[str, str]:
        recorded = partial(self.records.outcomes.get, rid)
        snapshot = (await wait_until(recorded, "its end", timeout=40)).snapshot
        return snapshot.status, snapshot.text


@pytest.mark.timeout(180)
async def test_answers_of_other_nodes_go_on_as_if_nothing_had_happened() -> None:
    async with AsyncExitStack() as stack:
        cluster = stack.enter_context(PrivateCluster())
        for node in cluster.nodes:
            node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
        store = await stack.enter_async_context(aclosing(RedisStore(cluster.url, CONFIG)))
        hub = await stack.enter_async_context(aclosing(Hub(store, CONFIG, SHARDS)))
        records = MemoryRecords()
        there = Installation(store, hub, records)
        supervisor = Supervisor(
            *(store, hub, records, lambda: {"scripted": MODEL}, CONFIG),
            upstream=there.upstream,
            shards=SHARDS,
        )
        await stack.enter_async_context(aclosing(supervisor))
        supervisor.start()
        rids = [await there.ask(shard) for shard in SHARDS]
        hung = cluster.owner(keys.jobs(0))
        spared = [r for r in rids if cluster.owner(keys.jobs(shard_of(r))) is not hung]
        assert len(spared) >= 2
        reader = Reader()
        reading = asyncio.create_task(reader.read(await follow(hub, spared[0])))

        text = "begun "
        for rid in rids:
            there.calls[rid].say(text)
            await there.until_text(rid, text)

        hung.pause()
        until_s = asyncio.get_running_loop().time() + HANGS_S
        while asyncio.get_running_loop().time() < until_s:
            word = f"{len(text)} "
            text += word
            for call in there.calls.values():
                call.say(word)
            for rid in spared:
                await there.until_text(rid, text)
            await wait_until(partial(_has, reader, text), "the viewer to have it", timeout=20)
        for rid in spared:
            there.calls[rid].end()
            assert await there.end_of(rid) == ("completed", text)
        await asyncio.wait_for(reading, 20)
        reader.check_whole(text)

        hung.resume()
        for rid in set(rids) - set(spared):
            assert await there.end_of(rid) == ("interrupted", "begun ")


def _has(reader: Reader, text: str) -> bool:
    return reader.text == text
