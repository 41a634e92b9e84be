"""What only Redis has: entry ids, times to live, a limit of memory, scripts that get lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from relay.config import RelayConfig
from relay.errors import StoreUnavailable
from relay.store import jobs, keys
from relay.store.protocol import Appended, Cancelled, Claimed
from tests.relay.store.ground import Ground, open_ground
from tests.relay.store.words import CANCELLED, NOTICE, leased, text, texts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis.asyncio

DAY_MS = 86_400_000


@pytest.fixture
async def ground(redis_url: str) -> AsyncIterator[Ground]:
    async with open_ground("redis", redis_url, RelayConfig()) as ground:
        yield ground


@pytest.fixture
def client(ground: Ground) -> redis.asyncio.Redis:
    assert ground.client is not None
    return ground.client


async def test_what_time_it_is_the_server_says_and_not_this_machine(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 9.4"""
    true_s = time.time()
    monkeypatch.setattr("time.time", lambda: true_s + 3600)
    assert ground.store.now_s() == true_s + 3600, "nobody has told it better"
    for _ in range(2):
        await ground.second.know_time()
    assert ground.second.now_s() == pytest.approx(true_s, abs=30)
    await ground.store.ping()
    assert ground.store.now_s() == pytest.approx(true_s, abs=30)
    clock = ground.store._clock  # type: ignore[attr-defined]
    clock.heard(0.0, asked_s=time.monotonic())
    await ground.store.renew(await ground.run())
    assert ground.store.now_s() == pytest.approx(true_s, abs=30)
    clock.heard(0.0, asked_s=time.monotonic() - 5)
    assert ground.store.now_s() == pytest.approx(true_s, abs=30), "old news is no news"


async def test_entry_ids_are_the_numbers_and_each_carries_its_epoch(
    ground: Ground, client: redis.asyncio.Redis
) -> None:
    """PROTOCOL 1: `<seq>-0`, fields `e` and `d`."""
    first = await ground.run()
    await ground.append(first, 3, NOTICE)
    second = await ground.succeed(first)
    await ground.close(second, 5, *texts(2))
    rid = first.response_id
    entries: Any = await client.xrange(keys.log(rid))
    assert [entry_id for entry_id, _ in entries] == [f"{seq}-0" for seq in range(1, 8)]
    epochs = [0, first.epoch, first.epoch, *[second.epoch] * 4]
    assert [fields["e"] for _, fields in entries] == [str(epoch) for epoch in epochs]
    assert [fields["d"].encode() for _, fields in entries] == await ground.lines(rid)


async def test_every_key_of_a_response_shares_the_slot_of_its_shard(ground: Ground) -> None:
    """PROTOCOL 1: scripts touch a job and its response together."""
    rid = await ground.create(shard=7)
    assert set(await ground.ttls_ms()) == {keys.log(rid), keys.meta(rid), keys.viewers(rid)}
    assert all("{7}" in name for name in [*await ground.ttls_ms(), keys.jobs(7)])


async def test_unacked_keys_live_for_total_s_and_a_day(ground: Ground) -> None:
    """PROTOCOL 8: renewed with the lease."""
    config = ground.config
    longest_ms = config.total_s * 1000 + DAY_MS
    lease = await ground.run()
    assert ground.client is not None
    for key in await ground.ttls_ms():
        await ground.client.pexpire(key, 60_000)
    await ground.store.renew(lease)
    await ground.close(lease, 3)
    ttls_ms = await ground.ttls_ms()
    assert len(ttls_ms) == 3
    assert all(longest_ms - 60_000 < ttl_ms <= longest_ms for ttl_ms in ttls_ms.values())


async def test_acked_keys_live_for_retention_s_all_three_of_them(ground: Ground) -> None:
    """PROTOCOL 8"""
    lease = await ground.run()
    await ground.close(lease, 3)
    await ground.store.ack(lease.job)
    longest_ms = ground.config.retention_s * 1000
    ttls_ms = await ground.ttls_ms()
    assert len(ttls_ms) == 3
    assert all(longest_ms - 60_000 < ttl_ms <= longest_ms for ttl_ms in ttls_ms.values())


async def test_the_stream_of_jobs_does_not_grow_for_ever(
    ground: Ground, client: redis.asyncio.Redis
) -> None:
    """PROTOCOL 8: an acked job is deleted, not only acked; so is a released one."""
    lease = await ground.run()
    await ground.store.release(lease)
    (job,) = await ground.store.take(0, "b", 1, 0)
    await ground.store.cancel(job.response_id, "user", ended=CANCELLED)
    await ground.store.ack(job)
    assert await client.xlen(keys.jobs(0)) == 0


async def test_an_epoch_rises_though_the_clock_of_the_server_was_set_back(
    ground: Ground, client: redis.asyncio.Redis
) -> None:
    """PROTOCOL 2: max(old + 1, now)."""
    ahead = await ground.now_ms() + 3_600_000
    job = await ground.take(await ground.create())
    await client.hset(keys.meta(job.response_id), "epoch", str(ahead))
    assert leased(await ground.claim(job)).epoch == ahead + 1
    queued = await ground.create()
    await client.hset(keys.meta(queued), "epoch", str(ahead))
    assert await ground.store.cancel(queued, "user", ended=CANCELLED) is Cancelled.CLOSED
    (tail,) = await ground.store.tails([queued])
    assert tail is not None
    assert tail.epoch == ahead + 1


@pytest.mark.parametrize("missing", ["log", "meta"])
async def test_a_response_that_lost_a_key_is_gone(
    ground: Ground, client: redis.asyncio.Redis, missing: str
) -> None:
    """PROTOCOL 8: a reader that finds one of the keys missing treats all as gone."""
    job = await ground.take(await ground.create())
    rid = job.response_id
    await client.delete(keys.log(rid) if missing == "log" else keys.meta(rid))
    assert await ground.store.read(rid, after=0) is None
    assert await ground.store.cancel(rid, "user", ended=CANCELLED) is Cancelled.MISSING
    assert (await ground.claim(job)).outcome is Claimed.GONE
    assert await ground.store.create(await ground.request(rid), upstream_model="small")
    assert await ground.types(rid) == ["created"]


async def test_without_memory_answers_can_only_end(
    ground: Ground, client: redis.asyncio.Redis
) -> None:
    """PROTOCOL 3: what makes logs longer is refused, what ends them is not."""
    running, waiting = await ground.run(), await ground.take(await ground.create())
    queued = await ground.create()
    fresh = await ground.request("resp_0_" + "0" * 32)
    await client.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreUnavailable):
            await ground.store.create(fresh, upstream_model="small")
        reply = await ground.append(running, 3, text("more"))
        assert reply.outcome is Appended.FULL
        assert (await ground.claim(waiting)).outcome is Claimed.RUN
        assert (await ground.store.renew(running)).outcome is Appended.OK
        assert (await ground.close(running, 3)).outcome is Appended.OK
        assert await ground.store.ack(running.job)
        closed = await ground.store.cancel(queued, "user", ended=CANCELLED)
        assert closed is Cancelled.CLOSED
    finally:
        await client.config_set("maxmemory", 0)
    assert await ground.types(running.response_id) == ["created", "started", "ended"]


async def test_without_memory_a_lost_log_is_still_restored(
    ground: Ground, client: redis.asyncio.Redis
) -> None:
    """PROTOCOL 3.6, 10.1: it was there before, and without it nobody could end it."""
    lease = await ground.run()
    kept = await ground.kept(lease)
    await client.flushall()
    await client.config_set("maxmemory", 1)
    try:
        assert (await ground.append(lease, 3, text("more"))).outcome is Appended.FULL
        assert (await ground.close(lease, 3)).outcome is Appended.LOST
        assert (await ground.store.restore(kept)).outcome is Appended.OK
        assert (await ground.close(lease, 3)).outcome is Appended.OK
    finally:
        await client.config_set("maxmemory", 0)
    assert await ground.types(lease.response_id) == ["created", "started", "ended"]


async def test_scripts_that_the_server_forgot_are_loaded_again(
    ground: Ground, client: redis.asyncio.Redis
) -> None:
    """PROTOCOL 10: a restart empties the script cache."""
    lease = await ground.run()
    await client.script_flush()
    assert (await ground.append(lease, 3, *texts(2))).outcome is Appended.OK
    await client.script_flush()
    assert (await ground.store.renew(lease)).outcome is Appended.OK
    await client.script_flush()
    assert (await ground.close(lease, 5)).outcome is Appended.OK
    assert await ground.types(lease.response_id) == [
        *("created", "started", "text.delta", "text.delta", "ended")
    ]


async def test_a_dropped_connection_is_made_anew(
    ground: Ground, client: redis.asyncio.Redis
) -> None:
    """A restarted proxy or server must not cost an answer: the next call goes through."""
    lease = await ground.run()
    await client.client_kill_filter(_type="normal", skipme=True)
    assert (await ground.append(lease, 3, text("on"))).outcome is Appended.OK
    assert await ground.texts(lease.response_id) == ["on"]


async def test_workers_of_the_past_are_forgotten_unless_they_owe_a_job(
    ground: Ground, client: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ground.store.take(0, "idle", 1, 0.01)
    await ground.create()
    assert await ground.store.take(0, "owing", 1, 0.01)
    monkeypatch.setattr(jobs, "FORGET_S", -1)
    await ground.store.take(0, "new", 1, 0.01)
    names = [row["name"] for row in await client.xinfo_consumers(keys.jobs(0), keys.GROUP)]
    assert sorted(names) == ["new", "owing"]
