"""Jobs: who is handed what, when it comes back, and who asks (PROTOCOL 1, 2, 8)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from relay.store.protocol import Appended, Claimed
from tests.relay.store.words import leased, texts

if TYPE_CHECKING:
    from relay.store import Store
    from tests.relay.store.conftest import OpenGround
    from tests.relay.store.ground import Ground


async def test_creating_twice_makes_one_log_and_one_job(ground: Ground, store: Store) -> None:
    """PROTOCOL 1: safe to repeat after a lost reply."""
    rid = await ground.create()
    before = await ground.lines(rid)
    assert not await store.create(await ground.request(rid), upstream_model="other")
    assert await ground.lines(rid) == before
    assert [job.response_id for job in await store.take(0, "a", 9, 0)] == [rid]


async def test_many_creators_at_once_make_one_response(ground: Ground, store: Store) -> None:
    """PROTOCOL 1"""
    request = await ground.request("resp_0_" + "5" * 32)
    stores = [ground.store, ground.second] * 5
    made = await asyncio.gather(*[s.create(request, upstream_model="small") for s in stores])
    assert sorted(made) == [False] * 9 + [True]
    assert len(await store.take(0, "a", 9, 0)) == 1


async def test_a_log_begins_with_created(ground: Ground, store: Store) -> None:
    """PROTOCOL 1, 4: event 1 is there before anybody has claimed, written under epoch 0."""
    rid = await ground.create()
    page = await store.read(rid, after=0)
    assert page is not None
    assert (page.epochs, page.tail.seq, page.tail.epoch, page.tail.ended) == ([0], 1, 0, False)
    (created,) = await ground.log(rid)
    request = await ground.request(rid)
    assert created.seq == 1
    assert (created.response_id, created.model) == (rid, request.model)  # type: ignore[union-attr]


async def test_a_job_is_handed_to_one_worker_only(ground: Ground, store: Store) -> None:
    """PROTOCOL 2"""
    rids = [await ground.create() for _ in range(6)]
    hands = await asyncio.gather(
        store.take(0, "a", 2, 0), ground.second.take(0, "b", 2, 0), store.take(0, "c", 2, 0)
    )
    assert sorted(job.response_id for jobs in hands for job in jobs) == sorted(rids)


async def test_jobs_are_handed_out_in_the_order_they_came_and_no_more_than_asked(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 2: a worker reads only as many jobs as it has free slots."""
    rids = [await ground.create() for _ in range(5)]
    first = await store.take(0, "a", 3, 0)
    rest = await store.take(0, "a", 3, 0)
    assert [job.response_id for job in first] == rids[:3]
    assert [job.response_id for job in rest] == rids[3:]


async def test_a_worker_without_a_free_slot_is_handed_nothing(ground: Ground, store: Store) -> None:
    """PROTOCOL 2"""
    await ground.create()
    assert await store.take(0, "a", 0, 0) == []


async def test_the_first_job_ever_is_handed_to_whoever_waits_for_it(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 2: also when no worker has asked before."""
    rid = await ground.create()
    assert [job.response_id for job in await store.take(0, "a", 1, 5)] == [rid]


async def test_a_waiting_worker_is_woken_by_a_new_job(ground: Ground, store: Store) -> None:
    """PROTOCOL 2"""
    waiting = asyncio.create_task(store.take(0, "a", 1, 30))
    await ground.until(lambda: store.workers(0, 60), "the worker to ask")
    rid = await ground.create()
    (job,) = await asyncio.wait_for(waiting, timeout=5)
    assert (job.shard, job.response_id) == (0, rid)


async def test_waiting_in_vain_ends_with_nothing(ground: Ground, store: Store) -> None:
    """PROTOCOL 2"""
    assert await asyncio.wait_for(store.take(0, "a", 1, 0.05), timeout=5) == []


async def test_a_shard_hands_out_its_own_jobs_only(ground: Ground, store: Store) -> None:
    """PROTOCOL 1: the shard is part of the response id."""
    rid = await ground.create(shard=1)
    assert await store.take(0, "a", 1, 0) == []
    (job,) = await store.take(1, "a", 1, 0)
    assert (job.shard, job.response_id) == (1, rid)


async def test_a_job_comes_to_another_worker_once_its_own_fell_silent(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 2, 9"""
    job = await ground.take(await ground.create())
    assert await store.reclaim(0, "b", 9, 60) == []
    await ground.pass_s(0.1)
    assert await store.reclaim(0, "b", 9, 0.1) == [job]
    assert await ground.store.reclaim(0, "c", 9, 60) == [], "now it is in b's hands"


async def test_only_jobs_that_were_handed_out_are_reclaimed(ground: Ground, store: Store) -> None:
    """PROTOCOL 2"""
    taken = await ground.take(await ground.create())
    await ground.create()
    assert await store.reclaim(0, "b", 9, 0) == [taken]


async def test_no_more_jobs_are_reclaimed_than_asked(ground: Ground, store: Store) -> None:
    """PROTOCOL 2"""
    for _ in range(3):
        await ground.create()
    taken = await store.take(0, "a", 9, 0)
    assert await store.reclaim(0, "b", 2, 0) == taken[:2]


async def test_a_silent_job_is_found_behind_any_number_of_live_ones(new_ground: OpenGround) -> None:
    """PROTOCOL 9: nobody is stuck because others, older ones, are well."""
    ground = await new_ground(lease_s=60)
    live = [await ground.run() for _ in range(40)]
    dead = await ground.take(await ground.create(), "gone")
    await ground.pass_s(1)
    for lease in live:
        await ground.store.renew(lease)
    found = await ground.store.reclaim(0, "b", 1, 1)
    assert found == [dead]


async def test_renewing_keeps_a_job_in_its_workers_hands(new_ground: OpenGround) -> None:
    """PROTOCOL 2"""
    ground = await new_ground(lease_s=60)
    lease = await ground.run()
    await ground.pass_s(1)
    assert (await ground.store.renew(lease)).outcome is Appended.OK
    assert await ground.store.reclaim(0, "b", 9, 1) == []


async def test_a_refused_renewal_does_not_take_the_job_back(ground: Ground, store: Store) -> None:
    """PROTOCOL 2: a renewal that does not look at the epoch steals its job back."""
    old = await ground.run()
    await ground.succeed(old)
    await ground.pass_s(0.3)
    assert (await store.renew(old)).outcome is Appended.FENCED
    assert await store.reclaim(0, "c", 9, 0.3) == [old.job]


async def test_a_busy_job_comes_back_when_the_other_lease_lapses_not_later(
    new_ground: OpenGround,
) -> None:
    """PROTOCOL 9: within lease + 5 s, which leaves no time for a second lease."""
    ground = await new_ground(lease_s=1.2)
    lease = await ground.run("a")
    await ground.pass_s(0.6)
    assert await ground.store.reclaim(0, "b", 9, 0.5) == [lease.job]
    assert (await ground.claim(lease.job)).outcome is Claimed.BUSY
    back = await ground.until(
        lambda: ground.store.reclaim(0, "b", 9, 1.2), "the job to come back after its lease"
    )
    assert back == [lease.job]
    assert (await ground.claim(lease.job)).outcome is Claimed.RUN
    assert await ground.now_ms() < lease.lease_until_ms + 500


async def test_a_cancelled_wait_loses_no_job(ground: Ground, store: Store) -> None:
    """PROTOCOL 9: a worker that stops asking, whenever that is, leaves its job to others."""
    waiting = asyncio.create_task(store.take(0, "a", 1, 0.2))
    await ground.until(lambda: store.workers(0, 60), "the worker to ask")
    waiting.cancel()
    await asyncio.wait([waiting])
    rid = await ground.create()

    async def found() -> bool:
        jobs = await ground.second.take(0, "b", 9, 0) + await ground.second.reclaim(0, "b", 9, 0)
        return rid in [job.response_id for job in jobs]

    await ground.until(found, "the job to reach another worker")


async def test_an_acked_job_never_comes_again(ground: Ground, store: Store) -> None:
    """PROTOCOL 8"""
    lease = await ground.run()
    await ground.close(lease, 3)
    assert await store.ack(lease.job)
    assert await store.reclaim(0, "b", 9, 0) == []
    assert await store.take(0, "b", 9, 0) == []


async def test_a_released_job_is_new_to_another_worker_at_once(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 9: a drain hands work over without anybody waiting for a lease."""
    lease = await ground.run("a")
    assert await store.release(lease)
    (job,) = await store.take(0, "b", 9, 0)
    assert (job.response_id, job.entry_id != lease.job.entry_id) == (lease.response_id, True)
    claim = await ground.claim(job, "b")
    assert (claim.outcome, claim.attempt) == (Claimed.RUN, 2)
    assert leased(claim).epoch > lease.epoch
    assert await store.reclaim(0, "c", 9, 0) == [job], "the old entry is gone"


async def test_what_has_content_is_not_released(ground: Ground, store: Store) -> None:
    """PROTOCOL 9: a second run would show other words after the first ones."""
    lease = await ground.run()
    await ground.append(lease, 3, *texts(1))
    assert not await store.release(lease)
    assert (await ground.claim(lease.job)).outcome is Claimed.BUSY


async def test_workers_are_those_who_asked_lately(ground: Ground, store: Store) -> None:
    """Health and the queue position need it: somebody takes jobs."""
    assert await store.workers(0, 60) == 0
    await store.take(0, "a", 1, 0)
    await store.take(0, "a", 1, 0)
    await store.take(0, "b", 1, 0)
    assert await store.workers(0, 60) == 2
    await ground.pass_s(0.2)
    assert await store.workers(0, 0.1) == 0
    assert await store.workers(1, 60) == 0


async def test_a_store_tells_what_waits_and_what_is_held(ground: Ground, store: Store) -> None:
    """PROTOCOL 1, 8: what is acked is in neither."""
    assert (await store.vitals((0, 1), 60)).waiting == {0: 0, 1: 0}
    for _ in range(3):
        await ground.create()
    told = await store.vitals((0, 1), 60)
    assert (told.waiting, told.held, told.workers) == ({0: 3, 1: 0}, {0: 0, 1: 0}, {0: 0, 1: 0})
    job, _ = await store.take(0, "a", 2, 0)
    told = await store.vitals((0,), 60)
    assert (told.waiting, told.held, told.workers) == ({0: 1}, {0: 2}, {0: 1})
    assert told.memory_share == 0
    await store.retire(job.response_id)
    await store.ack(job)
    told = await store.vitals((0,), 60)
    assert (told.waiting, told.held) == ({0: 1}, {0: 1})
