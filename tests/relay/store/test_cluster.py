"""A store on a cluster: keys that live apart, slots that move, primaries that are replaced."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import redis.asyncio
from redis.crc import key_slot

from relay.config import RelayConfig
from relay.errors import StoreUnavailable
from relay.events import TextDelta, decode_event
from relay.store import RedisStore, Refill, Reply, Reservation, Reserved, Store, keys, quota_day
from relay.store.protocol import Appended, Claimed, Lost
from tests.relay.store.ground import open_ground
from tests.relay.store.listener import listening
from tests.relay.store.words import CANCELLED, batch, leased, text
from tests.valkey_cluster import PrivateCluster
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from relay.store import Lease
    from tests.relay.store.ground import Ground

SHARDS = range(4)
"""The fewest that give each of three nodes one."""
CONFIG = RelayConfig(lease_s=30.0, shards=len(SHARDS))


@pytest.fixture
def six() -> Iterator[PrivateCluster]:
    """Each primary has a replica."""
    with PrivateCluster(replicas=True) as six:
        yield six


@pytest.fixture
async def ground(cluster: PrivateCluster) -> AsyncIterator[Ground]:
    cluster.flush()
    async with open_on(cluster) as ground:
        yield ground


def open_on(cluster: PrivateCluster) -> Any:
    node_url = cluster.owner(keys.jobs(0)).url
    return open_ground("cluster", cluster.url, CONFIG, node_url=node_url)


async def run(ground: Ground, shard: int) -> Lease:
    rid = await ground.create(shard=shard)
    (job,) = await ground.store.take(shard, "a", 9, 0.01)
    assert job.response_id == rid
    claim = await ground.claim(job, "a")
    assert claim.outcome is Claimed.RUN
    return leased(claim)


async def said(store: Store, lease: Lease, seq: int, word: str) -> None:
    """Append as a writer does: again, until somebody confirms."""

    async def once() -> bool:
        (answer,) = await store.append([batch(lease, seq, text(word))])
        if isinstance(answer, StoreUnavailable):
            return False
        assert isinstance(answer, Reply), answer
        assert answer.outcome is Appended.OK
        return True

    await wait_until(once, f"{word!r} to be in the log", timeout=20)


async def text_of(store: Store, rid: str) -> str:
    page = await store.read(rid, after=0)
    assert page is not None
    events = [decode_event(line) for line in page.events]
    return "".join(event.delta for event in events if isinstance(event, TextDelta))


async def test_responses_of_all_nodes_are_written_and_read_together(
    ground: Ground, cluster: PrivateCluster
) -> None:
    assert len({cluster.owner(keys.jobs(shard)).port for shard in SHARDS}) == 3
    store = ground.store
    leases = [await run(ground, shard) for shard in SHARDS]
    rids = [lease.response_id for lease in leases]
    async with listening(store, SHARDS) as listener:
        for rid in rids:
            await listener.add(rid)
        answers = await store.append([batch(lease, 3, text("word")) for lease in leases])
        assert [answer.outcome for answer in answers if isinstance(answer, Reply)] == [
            Appended.OK
        ] * len(rids)
        for rid in rids:
            await listener.hears_lines(rid, (await ground.lines(rid))[2:])
        for rid in rids:
            await ground.second.cancel(rid, "user", ended=CANCELLED)
        await wait_until(
            lambda: sum(type(m).__name__ == "Stopped" for m in listener.messages) == len(rids),
            "a stop of each shard",
        )
    assert [tail.seq for tail in await store.tails(rids) if tail] == [3] * len(rids)
    assert await store.abandoned(rids) == [False] * len(rids)
    assert [await store.workers(shard, 60) for shard in SHARDS] == [1] * len(rids)


async def test_people_and_reports_have_nodes_of_their_own(ground: Ground) -> None:
    quotas, day = ground.store.quotas, quota_day(datetime.now(UTC))
    slots = {key_slot(keys.running(str(user)).encode()) // 5462 for user in range(9)}
    assert slots == {0, 1, 2}
    for user in map(str, range(9)):
        wanted = Reservation(
            response_id="resp_0_" + "0" * 31 + user,
            day=day,
            until_ms=await ground.now_ms() + 60_000,
            hold=5,
            max_running=1,
            max_tokens=0,
        )
        grant = await quotas.reserve(user, wanted)
        assert grant.outcome is Reserved.UNKNOWN
        await quotas.refill(user, Refill(day=day, run=grant.run, ended=[], running=[]))
        assert (await quotas.reserve(user, wanted)).outcome is Reserved.GRANTED
        assert await quotas.settle(user, wanted.response_id, day=day, tokens=3)
    await ground.store.report_upstreams("a", b"{}", 9)
    assert await ground.second.upstreams() == {"a": b"{}"}


async def test_a_slot_that_moves_takes_writer_viewers_and_jobs_along(
    ground: Ground, cluster: PrivateCluster
) -> None:
    """MOVED, and a node that drops the channels and blocked readers of a slot it has lost."""
    # Two processes: the one that listens asks nothing that could tell it of the move.
    store, quiet, key = ground.second, ground.store, keys.jobs(0)
    lease = await run(ground, 0)
    rid = lease.response_id
    old = cluster.owner(key)
    target = next(node for node in cluster.primaries if node is not old)
    async with listening(quiet) as listener:
        await listener.add(rid)
        await said(store, lease, 3, "before ")
        await listener.hears_lines(rid, (await ground.lines(rid))[2:])
        taking = asyncio.create_task(quiet.take(0, "a", 9, 30))
        await asyncio.to_thread(cluster.move, key, target)
        await said(store, lease, 4, "after")
        assert await text_of(store, rid) == "before after"
        await listener.hears(Lost())
        await said(store, lease, 5, "!")
        await wait_until(lambda: len(listener.events(rid)) >= 2, "to hear what comes after")
        with pytest.raises(StoreUnavailable):  # by MOVED, at once, not after its 30 s
            await asyncio.wait_for(taking, 10)
        assert (await store.cancel(rid, "user", ended=CANCELLED)).value == "flagged"
    await asyncio.to_thread(cluster.move, key, old)
    await said(store, lease, 6, "!")


async def test_a_slot_that_is_half_moved_is_waited_for(
    ground: Ground, cluster: PrivateCluster
) -> None:
    """ASK for what is over there, TRYAGAIN for keys that are on both sides."""
    store, key = ground.store, keys.jobs(0)
    lease = await run(ground, 0)
    old = cluster.owner(key)
    target = next(node for node in cluster.primaries if node is not old)
    slot = str(key_slot(key.encode()))
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", old.ask("CLUSTER", "MYID"))
    old.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.ask("CLUSTER", "MYID"))
    to = ("127.0.0.1", str(target.port), "", "0", "5000", "KEYS")
    old.ask("MIGRATE", *to, keys.log(lease.response_id))
    appending = asyncio.create_task(said(store, lease, 3, "half "))
    await wait_until(
        lambda: "errorstat_TRYAGAIN" in old.ask("INFO", "errorstats"), "a TRYAGAIN", timeout=5
    )
    cluster.move_keys(slot, old, target)
    await appending
    await said(store, lease, 4, "asked ")
    assert "errorstat_ASK" in old.ask("INFO", "errorstats")
    for node in (target, old):
        node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.ask("CLUSTER", "MYID"))
    await said(store, lease, 5, "moved")
    assert await text_of(store, lease.response_id) == "half asked moved"
    await asyncio.to_thread(cluster.move, key, old)


@pytest.mark.parametrize("how", ["killed", "paused"])
async def test_a_primary_that_is_lost_holds_back_its_own_slots_only(
    six: PrivateCluster, how: str
) -> None:
    lost = six.owner(keys.jobs(0))
    others = [shard for shard in SHARDS if six.owner(keys.jobs(shard)) is not lost]
    url = six.owner(keys.jobs(others[0])).url
    async with (
        redis.asyncio.Redis.from_url(url, decode_responses=True) as survivor,
        open_on(six) as ground,
    ):
        ground.client, store = survivor, ground.store
        leases = {shard: await run(ground, shard) for shard in SHARDS}
        lost.ask("WAIT", "1", "5000")
        lost.kill() if how == "killed" else lost.pause()
        waiting = asyncio.create_task(said(store, leases[0], 3, "late"))
        for shard in others:
            # At once, though the other node has not answered yet.
            (answer,) = await asyncio.wait_for(
                store.append([batch(leases[shard], 3, text("in time"))]), 2
            )
            assert isinstance(answer, Reply), answer
        await waiting
        assert await text_of(store, leases[0].response_id) == "late"
        await run_again(ground, 0)
        lost.start() if how == "killed" else lost.resume()
        await wait_until(lambda: lost.ask("ROLE")[0] == "slave", "the old one to be told", 20)
        await said(store, leases[0], 4, "!")


async def run_again(ground: Ground, shard: int) -> None:
    """A new question after a fail-over: a worker asks until it is handed out."""

    async def noticed() -> bool:
        try:
            await ground.store.take(shard, "a", 9, 0.05)
        except StoreUnavailable:
            return False
        return True

    await wait_until(noticed, "the new primary to hand out jobs", timeout=20)
    rid = await ground.create(shard=shard)
    (job,) = await ground.store.take(shard, "a", 9, 1)
    assert job.response_id == rid
    assert (await ground.claim(job, "a")).outcome is Claimed.RUN


async def test_a_cluster_that_is_away_is_said_to_everybody_who_waits() -> None:
    store = RedisStore("redis+cluster://127.0.0.1:1,127.0.0.1:2/", CONFIG)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await store.ping()
        with pytest.raises(StoreUnavailable):
            await store.take(0, "a", 1, 0.01)
    await store.aclose()
    with pytest.raises(StoreUnavailable):
        await store.ping()


async def test_one_node_that_answers_is_enough(cluster: PrivateCluster) -> None:
    one = cluster.primaries[1].port
    store = RedisStore(f"redis+cluster://127.0.0.1:1,127.0.0.1:{one}/", CONFIG)
    rids = [f"resp_{shard}_" + "0" * 32 for shard in SHARDS]
    assert await store.tails(rids) == [None] * len(rids)
    await store.aclose()
