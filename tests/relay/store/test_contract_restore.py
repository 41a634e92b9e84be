"""A server that has lost what it was told: empty, or without its last writes (PROTOCOL 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay.request import Disconnect
from relay.store import Published
from relay.store.protocol import Appended, Cancelled, Claimed
from tests.relay.store.listener import listening
from tests.relay.store.words import (
    CANCELLED,
    ENDED,
    NOTICE,
    QUEUED_OVER,
    RUNNING_OVER,
    batch,
    leased,
    text,
    texts,
)

if TYPE_CHECKING:
    from relay.store import Lease, Store
    from tests.relay.store.conftest import OpenGround
    from tests.relay.store.ground import Ground

LEASE_S = 1.0
WATCHED = Disconnect(cancel_after_s=300, leave_after_s=0)


async def talking(ground: Ground) -> Lease:
    lease = await ground.run()
    await ground.append(lease, 3, *texts(3))
    return lease


# -- restore --------------------------------------------------------------------------------------
async def test_who_writes_to_an_emptied_server_is_told_and_writes_nothing(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 10.1"""
    lease = await talking(ground)
    await ground.lose_everything()
    assert (await ground.append(lease, 6, text("more"))).outcome is Appended.LOST
    assert (await ground.close(lease, 6)).outcome is Appended.LOST
    assert (await store.renew(lease)).outcome is Appended.LOST
    assert await store.read(lease.response_id, after=0) is None


async def test_a_restored_log_is_the_same_and_goes_on(ground: Ground, store: Store) -> None:
    """PROTOCOL 10.1: numbers and epochs, too, so cursors stay valid."""
    lease = await talking(ground)
    rid = lease.response_id
    before = await store.read(rid, after=0)
    kept = await ground.kept(lease)
    await ground.lose_everything()
    for _ in range(2):  # safe to repeat
        reply = await store.restore(kept)
        assert (reply.outcome, reply.seq) == (Appended.OK, 5)
    assert await store.read(rid, after=0) == before
    assert await store.counted(rid) == 7
    assert (await ground.append(lease, 6, text("more"))).outcome is Appended.OK
    assert (await ground.close(lease, 7)).outcome is Appended.OK
    page = await store.read(rid, after=5, epoch=lease.epoch)
    assert page is not None
    assert page.valid
    assert await ground.types(rid) == ["created", "started", *["text.delta"] * 4, "ended"]


async def test_a_restored_response_is_held_and_taken_over_as_before(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 10.1: lease and job come back with it."""
    lease = await talking(ground)
    kept = await ground.kept(lease)
    await ground.lose_everything()
    await store.restore(kept)
    again = await ground.take(lease.response_id, "b")
    assert again == lease.job, "handed out once more, for the old one was lost"
    assert (await ground.claim(again)).outcome is Claimed.BUSY
    await ground.lapse(lease)
    claim = await ground.claim(again)
    assert (claim.outcome, claim.attempt, claim.has_content) == (Claimed.TAKE_OVER, 1, True)
    assert claim.output_tokens == 7


async def test_the_job_of_a_restored_response_is_renewed_and_acked(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 10.1"""
    lease = await talking(ground)
    kept = await ground.kept(lease)
    await ground.lose_everything()
    await store.restore(kept)
    await store.take(0, "b", 9, 0)
    assert (await store.renew(lease)).outcome is Appended.OK
    assert await store.reclaim(0, "c", 9, 5) == [], "the writer has it in its hands"
    await ground.close(lease, 6)
    assert await store.ack(lease.job)
    assert await store.reclaim(0, "c", 9, 0) == []


async def test_a_lost_tail_is_sent_again(ground: Ground, store: Store) -> None:
    """PROTOCOL 3.2: same claim, so nothing is restored: the log is only behind."""
    lease = await talking(ground)
    replica = await ground.replica()
    await ground.append(lease, 6, *texts(2))
    before = await store.read(lease.response_id, after=0)
    await ground.promote(replica)
    reply = await ground.append(lease, 8, text("next"))
    assert (reply.outcome, reply.seq) == (Appended.GAP, 5)
    assert (await store.renew(lease)).seq == 5
    assert (await ground.append(lease, 6, *texts(2))).outcome is Appended.OK
    assert await store.read(lease.response_id, after=0) == before


async def test_a_run_after_a_lost_worker_restores_the_runs_before_it_too(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 10.1: the claim hands them over; each entry keeps the epoch of its writer."""
    first = await ground.run()
    await ground.append(first, 3, NOTICE)
    replica = await ground.replica()
    await ground.lapse(first)
    claim = await ground.claim(first.job)
    second = leased(claim)
    page = await store.read(first.response_id, after=0)
    assert page is not None
    assert (list(claim.events), list(claim.epochs)) == (page.events, page.epochs)
    kept = await ground.kept(second, attempt=2)
    await ground.promote(replica)
    assert (await ground.append(second, 5, text("x"))).outcome is Appended.LOST
    assert (await store.restore(kept)).seq == 4
    assert await store.read(first.response_id, after=0) == page
    assert (await ground.append(second, 5, text("x"))).outcome is Appended.OK
    assert (await ground.append(first, 5, text("y"))).outcome is Appended.FENCED


@pytest.mark.parametrize("first", ["earlier", "later"])
async def test_of_two_writers_the_later_claim_wins(
    ground: Ground, store: Store, first: str
) -> None:
    """PROTOCOL 10.1: whoever restores first."""
    earlier = await ground.run()
    later = await ground.succeed(earlier)
    theirs = [await ground.kept(earlier), await ground.kept(later)]
    await ground.lose_everything()
    earlier.lease_until_ms = later.lease_until_ms  # it believes in its lease
    if first == "earlier":
        assert (await store.restore(theirs[0])).outcome is Appended.OK
        assert (await store.renew(later)).outcome is Appended.LOST
    assert (await store.restore(theirs[1])).outcome is Appended.OK
    assert (await store.restore(theirs[0])).outcome is Appended.FENCED
    assert (await ground.append(earlier, 4, text("x"))).outcome is Appended.FENCED
    assert (await ground.append(later, 4, text("y"))).outcome is Appended.OK
    assert await ground.texts(earlier.response_id) == ["y"]


async def test_a_writer_whose_lease_is_over_restores_nothing(ground: Ground, store: Store) -> None:
    """PROTOCOL 10.1: an outage longer than `lease_s` ends running answers."""
    lease = await talking(ground)
    kept = await ground.kept(lease)
    await ground.lapse(lease)
    await ground.lose_everything()
    assert (await ground.append(lease, 6, text("late"))).outcome is Appended.FENCED
    assert (await store.restore(kept)).outcome is Appended.FENCED
    assert await store.read(lease.response_id, after=0) is None


async def test_what_was_not_lost_is_left_as_it_is(ground: Ground, store: Store) -> None:
    """PROTOCOL 10.1: a restore whose first answer was lost changes nothing."""
    lease = await talking(ground)
    kept = await ground.kept(lease)
    await ground.append(lease, 6, text("more"))
    reply = await store.restore(kept)
    assert (reply.outcome, reply.seq) == (Appended.OK, 6)
    await ground.close(lease, 7)
    reply = await store.restore(kept)
    assert (reply.outcome, reply.seq) == (Appended.CLOSED, 7)
    assert len(await ground.lines(lease.response_id)) == 7


async def test_an_end_is_restored_as_an_end(ground: Ground, store: Store) -> None:
    """PROTOCOL 10.1"""
    lease = await talking(ground)
    await ground.close(lease, 6)
    kept = await ground.kept(lease)
    await ground.lose_everything()
    assert (await store.restore(kept)).seq == 6
    (tail,) = await store.tails([lease.response_id])
    assert tail is not None
    assert (tail.seq, tail.ended) == (6, True)
    assert (await store.close(batch(lease, 6, ENDED))).outcome is Appended.CLOSED
    assert (await ground.claim(lease.job)).outcome is Claimed.CLOSED


async def test_a_stop_survives(ground: Ground, store: Store) -> None:
    """PROTOCOL 6, 10.1: the writer's own knowledge of it, and a flag that came meanwhile."""
    lease = await talking(ground)
    kept = await ground.kept(lease, stop_reason="user")
    await ground.lose_everything()
    assert (await store.restore(kept)).stop_reason == "user"
    assert (await store.renew(lease)).stop_reason == "user"
    await ground.lose_everything()
    # The sweep made it anew, for it was asked long ago, and stopped it.
    old = await ground.request(lease.response_id, age_s=1000)
    await store.create(old, upstream_model="small")
    assert await store.cancel(old.response_id, "admin", ended=CANCELLED) is Cancelled.FLAGGED
    assert (await store.restore(kept)).stop_reason == "admin"


async def test_who_watches_makes_itself_known_again(ground: Ground, store: Store) -> None:
    """PROTOCOL 7, 10.1: presence cannot be restored, and nobody is abandoned for that."""
    lease = await ground.run(policy=WATCHED)
    rid = lease.response_id
    await store.attend(rid, "u/here")
    await store.attend(rid, "u/left")
    kept = await ground.kept(lease)
    await ground.lose_everything()
    await store.restore(kept)
    assert await store.abandoned([rid]) == [False]
    assert not (await store.renew(lease)).abandoned
    await store.attend(rid, "u/left")
    await store.leave(rid, "u/left")
    await store.beat([(rid, "u/here", 5), (rid, "u/left", 5), (rid, "", 5)])
    assert await store.attend(rid, "u/new") == 2, "the one that is here, and the new one"
    assert await store.delivered(rid) == 5


async def test_followers_are_told_to_look(ground: Ground, store: Store) -> None:
    """PROTOCOL 5.2"""
    lease = await talking(ground)
    kept = await ground.kept(lease)
    await ground.lose_everything()
    async with listening(store) as listener:
        await listener.add(lease.response_id)
        await store.restore(kept)
        await listener.hears(Published(lease.response_id, lease.epoch, 6, []))


async def test_what_was_retired_is_not_restored(ground: Ground, store: Store) -> None:
    """PROTOCOL 8: the record wins."""
    lease = await talking(ground)
    kept = await ground.kept(lease)
    await store.retire(lease.response_id)
    assert (await store.restore(kept)).outcome is Appended.FENCED
    assert (await store.renew(lease)).outcome is Appended.FENCED
    assert await store.read(lease.response_id, after=0) is None


async def test_the_limits_of_a_response_come_back(new_ground: OpenGround) -> None:
    """PROTOCOL 3.5, 9.2"""
    ground = await new_ground(max_log_bytes=1000, total_s=100, lease_s=LEASE_S)
    lease = await talking(ground)
    late = await ground.request(lease.response_id, age_s=101)
    kept = await ground.kept(lease, content_bytes=990, request=late)
    await ground.lose_everything()
    await ground.store.restore(kept)
    assert (await ground.append(lease, 6, text("x" * 20))).outcome is Appended.FULL
    await ground.store.notice(0)
    await ground.pass_s(LEASE_S + 0.05)
    assert (await ground.claim(lease.job)).expired


# -- grace ----------------------------------------------------------------------------------------


async def failed_over(ground: Ground) -> None:
    await ground.promote(await ground.replica())


async def test_a_new_server_hands_nothing_out_for_a_lease(new_ground: OpenGround) -> None:
    """PROTOCOL 10.2: what it calls queued may be running."""
    ground = await new_ground(lease_s=LEASE_S)
    job = await ground.take(await ground.create())
    await failed_over(ground)
    started_ms = await ground.now_ms()
    assert (await ground.claim(job)).outcome is Claimed.BUSY
    assert await ground.types(job.response_id) == ["created"]

    async def back() -> bool:
        return job in await ground.store.reclaim(0, "b", 9, LEASE_S)

    await ground.until(back, "the job to come back")
    assert await ground.now_ms() - started_ms >= LEASE_S * 1000 - 50
    await ground.pass_s(0.05)
    assert (await ground.claim(job)).outcome is Claimed.RUN


async def test_a_lapsed_answer_is_not_ended_by_a_new_server(new_ground: OpenGround) -> None:
    """PROTOCOL 10.2: its last renewals may be what was lost. Afterwards it is taken over."""
    ground = await new_ground(lease_s=LEASE_S)
    lease = await ground.run()
    await ground.lapse(lease)
    await failed_over(ground)
    rid = lease.response_id
    assert (await ground.claim(lease.job)).outcome is Claimed.BUSY
    assert not await ground.store.expire(rid, queued=QUEUED_OVER, running=RUNNING_OVER)
    await ground.pass_s(LEASE_S + 0.05)
    assert await ground.store.expire(rid, queued=QUEUED_OVER, running=RUNNING_OVER)


async def test_a_stop_in_the_grace_sets_its_flag_only(new_ground: OpenGround) -> None:
    """PROTOCOL 6.4, 10.2: `cancelled` is for who knows that no upstream is open."""
    ground = await new_ground(lease_s=LEASE_S)
    job = await ground.take(await ground.create())
    await failed_over(ground)
    stopped = await ground.store.cancel(job.response_id, "user", ended=CANCELLED)
    assert stopped is Cancelled.FLAGGED
    assert await ground.types(job.response_id) == ["created"]
    await ground.pass_s(LEASE_S + 0.05)
    claim = await ground.claim(job)
    assert (claim.outcome, claim.stop_reason, claim.attempt) == (Claimed.TAKE_OVER, "user", 0)


async def test_a_live_writer_restores_within_the_grace(new_ground: OpenGround) -> None:
    """PROTOCOL 10.2: the reason for it."""
    ground = await new_ground(lease_s=LEASE_S)
    job = await ground.take(await ground.create())
    replica = await ground.replica()
    lease = leased(await ground.claim(job, "a"))
    await ground.append(lease, 3, text("shown"))
    kept = await ground.kept(lease)
    await ground.promote(replica)
    assert (await ground.claim(job, "b")).outcome is Claimed.BUSY
    assert (await ground.store.renew(lease)).outcome is Appended.LOST
    assert (await ground.store.restore(kept)).outcome is Appended.OK
    assert await ground.texts(job.response_id) == ["shown"]


async def test_what_was_asked_of_the_new_server_does_not_wait(new_ground: OpenGround) -> None:
    """PROTOCOL 10.2: it has no other history."""
    ground = await new_ground(lease_s=LEASE_S)
    await failed_over(ground)
    await ground.store.notice(0)
    await ground.pass_s(0.002)
    job = await ground.take(await ground.create())
    assert (await ground.claim(job)).outcome is Claimed.RUN


async def test_an_end_is_recorded_also_in_the_grace(new_ground: OpenGround) -> None:
    """PROTOCOL 8.2: folding and finalizing change no log."""
    ground = await new_ground(lease_s=LEASE_S)
    lease = await talking(ground)
    await ground.close(lease, 6)
    await failed_over(ground)
    assert (await ground.claim(lease.job)).outcome is Claimed.CLOSED
