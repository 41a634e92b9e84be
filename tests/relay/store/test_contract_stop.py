"""Stops, and ends that are written on the spot (PROTOCOL 6, 9)."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from relay.store.protocol import Appended, Cancelled, Claimed, Gone, Stopped, Tail
from tests.relay.store.listener import listening
from tests.relay.store.words import (
    CANCELLED,
    QUEUED_OVER,
    RUNNING_OVER,
    leased,
    text,
)

if TYPE_CHECKING:
    from relay.store import Store
    from tests.relay.store.ground import Ground

NOBODY = "resp_0_" + "0" * 32


async def cancel(store: Store, response_id: str, reason: str = "user") -> Cancelled:
    return await store.cancel(response_id, reason, ended=CANCELLED)


async def test_a_queued_response_is_ended_on_the_spot(ground: Ground, store: Store) -> None:
    """PROTOCOL 6: and the store numbers the end it was given."""
    before = await ground.now_ms()
    rid = await ground.create()
    assert await cancel(store, rid) is Cancelled.CLOSED
    page = await store.read(rid, after=1)
    assert page is not None
    (epoch,) = page.epochs
    assert before <= epoch <= await ground.now_ms(), "a claim's epoch: old writers are fenced"
    assert page.tail == Tail(epoch, 2, ended=True)
    assert page.events[0].startswith(b'{"type":"ended","seq":2,')
    assert json.loads(page.events[0]) == json.loads(CANCELLED) | {"seq": 2, "epoch": epoch}


async def test_the_job_of_a_response_that_was_ended_while_queued_is_only_acked(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 6"""
    rid = await ground.create()
    await cancel(store, rid)
    claim = await ground.claim(await ground.take(rid))
    assert (claim.outcome, claim.seq, claim.attempt) == (Claimed.CLOSED, 2, 0)
    assert await store.ack(leased(claim).job)
    assert await ground.types(rid) == ["created", "ended"]


async def test_a_running_response_is_flagged_and_its_writer_told(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 6: only whoever holds the upstream writes `cancelled`."""
    lease = await ground.run()
    await ground.append(lease, 3, text("words"))
    async with listening(store) as listener:
        await listener.add(lease.response_id)
        assert await cancel(store, lease.response_id) is Cancelled.FLAGGED
        await listener.hears(Stopped(lease.response_id, "user"))
    assert await store.tails([lease.response_id]) == [Tail(lease.epoch, 3, ended=False)]
    assert (await store.renew(lease)).stop_reason == "user"
    assert (await ground.append(lease, 4, text("more"))).outcome is Appended.OK


async def test_a_stop_is_heard_without_following_the_response(ground: Ground, store: Store) -> None:
    """PROTOCOL 6: a worker need not receive its own events; other shards' stops are not its own."""
    lease = await ground.run()
    async with listening(store, [0]) as own, listening(store, [1]) as foreign:
        await own.add(NOBODY)  # confirmed: both listen by now
        await foreign.add(lease.response_id)
        await cancel(store, lease.response_id)
        await own.hears(Stopped(lease.response_id, "user"))
        await store.retire(lease.response_id)
        await foreign.hears(Gone(lease.response_id))
    assert Stopped(lease.response_id, "user") not in foreign.messages


async def test_a_stop_may_be_sent_again_and_its_first_reason_stays(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 6: the sweep repeats it while the row is not final."""
    lease = await ground.run()
    async with listening(store) as listener:
        await listener.add(lease.response_id)
        for reason in ("user", "admin", "quota"):
            assert await cancel(store, lease.response_id, reason) is Cancelled.FLAGGED
        stop = Stopped(lease.response_id, "user")
        await listener.hears(stop, times=3)
    assert (await store.renew(lease)).stop_reason == "user"


async def test_stopping_what_has_ended_changes_nothing(ground: Ground, store: Store) -> None:
    """PROTOCOL 6: ended before the flag is unchanged."""
    lease = await ground.run()
    await ground.close(lease, 3, text("all of it"))
    before = await ground.lines(lease.response_id)
    assert await cancel(store, lease.response_id) is Cancelled.ENDED
    assert await ground.lines(lease.response_id) == before


async def test_of_many_stops_of_a_queued_response_one_ends_it(ground: Ground, store: Store) -> None:
    """PROTOCOL 6: the one that closed it also finalizes."""
    rid = await ground.create()
    answers = await asyncio.gather(*[cancel(s, rid) for s in [store, ground.second] * 5])
    assert sorted(answers) == [Cancelled.CLOSED] + [Cancelled.ENDED] * 9
    assert await ground.types(rid) == ["created", "ended"]


async def test_what_has_no_log_cannot_be_stopped(store: Store) -> None:
    """PROTOCOL 6: the row remembers the wish."""
    assert await cancel(store, NOBODY) is Cancelled.MISSING
    assert await store.read(NOBODY, after=0) is None


async def test_a_released_response_is_queued_again(ground: Ground, store: Store) -> None:
    """PROTOCOL 6, 9: its upstream is closed, so `cancelled` is the truth."""
    lease = await ground.run()
    await store.release(lease)
    assert await cancel(store, lease.response_id) is Cancelled.CLOSED
    assert await ground.types(lease.response_id) == ["created", "started", "ended"]
    (job,) = await store.take(0, "b", 9, 0)
    assert (await ground.claim(job)).outcome is Claimed.CLOSED


async def test_a_response_that_was_taken_over_is_flagged_not_ended(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 6: whoever took it over writes the end."""
    lease = await ground.run()
    await ground.append(lease, 3, text("words"))
    await ground.succeed(lease)
    assert await cancel(store, lease.response_id) is Cancelled.FLAGGED
    assert "ended" not in await ground.types(lease.response_id)


async def test_a_stop_and_a_claim_at_once_agree(ground: Ground, store: Store) -> None:
    """PROTOCOL 6: either it was queued and nobody runs it, or it runs and is told."""
    for _ in range(20):
        job = await ground.take(await ground.create())
        answer, claim = await asyncio.gather(
            cancel(ground.second, job.response_id), ground.claim(job)
        )
        assert (answer, claim.outcome) in [
            (Cancelled.CLOSED, Claimed.CLOSED),
            (Cancelled.FLAGGED, Claimed.RUN),
        ]


async def expire(store: Store, response_id: str) -> bool:
    return await store.expire(response_id, queued=QUEUED_OVER, running=RUNNING_OVER)


async def ends_of(ground: Ground, response_id: str) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in await ground.lines(response_id)]
    return [(e["status"], e["reason"]) for e in lines if e["type"] == "ended"]


async def test_a_queued_response_whose_time_is_over_is_ended(ground: Ground, store: Store) -> None:
    """PROTOCOL 9: workers or not."""
    rid = await ground.create()
    assert await expire(store, rid)
    assert await ends_of(ground, rid) == [("failed", "wall_clock")]
    (tail,) = await store.tails([rid])
    page = await store.read(rid, after=1)
    assert tail is not None
    assert page is not None
    assert json.loads(page.events[0])["epoch"] == tail.epoch == page.epochs[0]
    assert (tail.seq, tail.ended) == (2, True)


async def test_a_live_writer_ends_its_response_itself(ground: Ground, store: Store) -> None:
    """PROTOCOL 9: its upstream is open."""
    lease = await ground.run()
    assert not await expire(store, lease.response_id)
    assert await ends_of(ground, lease.response_id) == []
    assert (await ground.append(lease, 3, text("on"))).outcome is Appended.OK


async def test_what_a_dead_writer_left_open_is_ended_and_stays_ended(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 9: should the writer only have been paused, it is fenced."""
    lease = await ground.run()
    await ground.append(lease, 3, text("words"))
    await ground.lapse(lease)
    lines = await ground.lines(lease.response_id)
    assert await expire(store, lease.response_id)
    assert await ends_of(ground, lease.response_id) == [("interrupted", "worker_lost")]
    assert (await ground.lines(lease.response_id))[:-1] == lines
    assert (await ground.append(lease, 4, text("late"))).outcome is Appended.FENCED
    assert (await ground.close(lease, 4)).outcome is Appended.FENCED
    assert not await expire(store, lease.response_id)
    assert len(await ground.lines(lease.response_id)) == 4


async def test_what_was_started_and_released_does_not_end_as_if_never_started(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 9: the template is chosen by `started` in the log."""
    lease = await ground.run()
    await store.release(lease)
    assert await expire(store, lease.response_id)
    assert await ends_of(ground, lease.response_id) == [("interrupted", "worker_lost")]


async def test_what_was_claimed_but_never_started_ends_as_queued(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 9: its claimant was to close it and died."""
    job = await ground.take(await ground.create(age_s=100_000))
    await ground.lapse(leased(await ground.claim(job)))
    assert await expire(store, job.response_id)
    assert await ends_of(ground, job.response_id) == [("failed", "wall_clock")]


async def test_of_many_sweeps_one_ends_a_response(ground: Ground, store: Store) -> None:
    """PROTOCOL 9"""
    rid = await ground.create()
    answers = await asyncio.gather(*[expire(s, rid) for s in [store, ground.second] * 5])
    assert sorted(answers) == [False] * 9 + [True]


async def test_what_has_ended_or_has_no_log_does_not_expire(ground: Ground, store: Store) -> None:
    """PROTOCOL 9"""
    lease = await ground.run()
    await ground.close(lease, 3)
    before = await ground.lines(lease.response_id)
    assert not await expire(store, lease.response_id)
    assert await ground.lines(lease.response_id) == before
    assert not await expire(store, NOBODY)
