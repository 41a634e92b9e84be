"""Epochs, claims and leases (PROTOCOL 2)."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from relay.store import Job, Store
from relay.store.protocol import Appended, Claimed
from tests.relay.store.words import AT, CANCELLED, ENDED, NOTICE, USAGE, batch, leased, text

if TYPE_CHECKING:
    from tests.relay.store.conftest import OpenGround
    from tests.relay.store.ground import Ground


async def test_a_claim_writes_started_and_says_where_the_log_ends(ground: Ground) -> None:
    """PROTOCOL 2: in the same step, so there is no lease without its `started`."""
    job = await ground.take(await ground.create())
    claim = await ground.claim(job)
    epoch = leased(claim).epoch
    assert (claim.outcome, claim.seq, claim.attempt) == (Claimed.RUN, 2, 1)
    assert (claim.has_content, claim.stop_reason) == (False, None)
    assert (claim.abandoned, claim.expired) == (False, False)
    assert (await ground.lines(job.response_id))[1].startswith(b'{"type":"started","seq":2,')
    assert json.loads((await ground.lines(job.response_id))[1]) == {
        "type": "started",
        "seq": 2,
        "upstream_model": "small",
        "attempt": 1,
        "epoch": epoch,
        "at": AT,
    }


async def test_the_name_of_a_model_may_hold_anything(ground: Ground, store: Store) -> None:
    """PROTOCOL 2: scripts build `started` themselves."""
    name = 'qwen "2.5"\\ 100%s é\n'
    request = await ground.request("resp_0_" + "7" * 32)
    await store.create(request, upstream_model=name)
    await ground.claim(await ground.take(request.response_id))
    started = json.loads((await ground.lines(request.response_id))[1])
    assert started["upstream_model"] == name


async def test_an_epoch_is_the_time_of_its_claim(ground: Ground) -> None:
    """PROTOCOL 2: so claims are ordered even across history that the store has forgotten."""
    before = await ground.now_ms()
    lease = await ground.run()
    assert before <= lease.epoch <= await ground.now_ms()
    assert lease.lease_until_ms == lease.epoch + ground.config.lease_s * 1000


async def test_an_epoch_rises_even_within_one_millisecond(ground: Ground, store: Store) -> None:
    """PROTOCOL 2"""
    lease = await ground.run()
    for _ in range(2):
        assert await store.release(lease)
        (job,) = await store.take(0, "a", 1, 0)
        claim = await ground.claim(job)
        assert leased(claim).epoch > lease.epoch
        lease = leased(claim)


async def test_of_many_claims_at_once_one_wins(ground: Ground) -> None:
    """PROTOCOL 2"""
    job = await ground.take(await ground.create())
    claims = await asyncio.gather(
        *[
            store.claim(job, f"worker {n}", at=AT)
            for n, store in enumerate([ground.store, ground.second] * 5)
        ]
    )
    outcomes = [claim.outcome for claim in claims]
    assert sorted(outcomes) == [Claimed.BUSY] * 9 + [Claimed.RUN]
    assert await ground.types(job.response_id) == ["created", "started"]


async def test_a_response_is_busy_while_its_lease_runs_even_for_its_own_worker(
    ground: Ground,
) -> None:
    """PROTOCOL 2: a redelivered job must not start a second run beside the first."""
    lease = await ground.run("a")
    for worker in ("b", "a"):
        claim = await ground.claim(lease.job, worker)
        assert (claim.outcome, claim.lease) == (Claimed.BUSY, None)
    assert (await ground.append(lease, 3, text("still mine"))).outcome is Appended.OK


async def test_a_write_prolongs_the_lease(new_ground: OpenGround) -> None:
    """PROTOCOL 2"""
    ground = await new_ground(lease_s=1.5)
    lease = await ground.run()
    for write in ("append", "renew"):
        first_until = lease.lease_until_ms
        await ground.until_ms(first_until - 700)
        if write == "append":
            await ground.append(lease, 3, NOTICE)
        else:
            await ground.store.renew(lease)
        assert lease.lease_until_ms > first_until
        await ground.until_ms(first_until)
        assert (await ground.claim(lease.job)).outcome is Claimed.BUSY


async def test_a_writer_whose_lease_is_over_changes_nothing(ground: Ground, store: Store) -> None:
    """PROTOCOL 2: even when nobody has claimed meanwhile."""
    lease = await ground.run()
    await ground.lapse(lease)
    assert (await ground.append(lease, 3, text("late"))).outcome is Appended.FENCED
    assert (await ground.close(lease, 3)).outcome is Appended.FENCED
    assert (await store.renew(lease)).outcome is Appended.FENCED
    assert not await store.release(lease)
    assert await ground.types(lease.response_id) == ["created", "started"]


async def test_a_writer_of_an_older_epoch_changes_nothing(ground: Ground, store: Store) -> None:
    """PROTOCOL 2: whatever lease it believes in."""
    old = await ground.run()
    new = await ground.succeed(old)
    old.lease_until_ms = new.lease_until_ms
    assert (await ground.append(old, 4, text("late"))).outcome is Appended.FENCED
    assert (await ground.close(old, 4)).outcome is Appended.FENCED
    assert (await store.renew(old)).outcome is Appended.FENCED
    assert not await store.release(old)
    assert (await ground.append(new, 4, text("kept"))).outcome is Appended.OK
    assert await ground.texts(old.response_id) == ["kept"]


async def test_a_fenced_write_does_not_prolong_the_lease(ground: Ground, store: Store) -> None:
    """PROTOCOL 2"""
    old = await ground.run()
    new = await ground.succeed(old)
    before = old.lease_until_ms
    await ground.append(old, 4, text("late"))
    await store.renew(old)
    assert old.lease_until_ms == before
    assert new.lease_until_ms > before


async def test_a_response_without_content_is_run_again(ground: Ground) -> None:
    """PROTOCOL 2: `created`, `started` and `notice` are no content."""
    lease = await ground.run()
    await ground.append(lease, 3, NOTICE)
    await ground.lapse(lease)
    claim = await ground.claim(lease.job)
    assert (claim.outcome, claim.attempt, claim.seq) == (Claimed.RUN, 2, 4)
    assert leased(claim).epoch > lease.epoch
    assert await ground.types(lease.response_id) == ["created", "started", "notice", "started"]


async def test_a_response_with_content_is_only_taken_over(ground: Ground, store: Store) -> None:
    """PROTOCOL 2: words that were shown are never generated twice."""
    lease = await ground.run()
    await ground.append(lease, 3, text("shown"))
    await ground.lapse(lease)
    claim = await ground.claim(lease.job)
    assert (claim.outcome, claim.has_content) == (Claimed.TAKE_OVER, True)
    assert (claim.attempt, claim.seq) == (1, 3)
    assert (await ground.claim(lease.job)).outcome is Claimed.BUSY
    assert (await ground.close(leased(claim), 4)).outcome is Appended.OK
    page = await store.read(lease.response_id, after=0)
    assert page is not None
    assert page.epochs == [0, lease.epoch, lease.epoch, leased(claim).epoch]


async def test_a_job_runs_max_attempts_times_at_most(new_ground: OpenGround) -> None:
    """PROTOCOL 2: a poisonous request must not go round for ever."""
    ground = await new_ground(max_attempts=2)
    lease = await ground.run()
    await ground.lapse(lease)
    second = await ground.claim(lease.job)
    assert (second.outcome, second.attempt) == (Claimed.RUN, 2)
    await ground.lapse(leased(second))
    third = await ground.claim(lease.job)
    assert (third.outcome, third.attempt, third.has_content) == (Claimed.TAKE_OVER, 2, False)
    assert await ground.types(lease.response_id) == ["created", "started", "started"]


async def test_a_response_that_is_out_of_time_is_not_run(new_ground: OpenGround) -> None:
    """PROTOCOL 9: total_s counts from `created`."""
    ground = await new_ground(total_s=100)
    late = await ground.claim(await ground.take(await ground.create(age_s=101)))
    assert (late.outcome, late.expired, late.attempt) == (Claimed.TAKE_OVER, True, 0)
    early = await ground.claim(await ground.take(await ground.create(age_s=50)))
    assert (early.outcome, early.expired) == (Claimed.RUN, False)


async def test_a_stopped_response_is_not_run(ground: Ground, store: Store) -> None:
    """PROTOCOL 6: the claim answers the wish."""
    lease = await ground.run()
    await store.cancel(lease.response_id, "admin", ended=CANCELLED)
    await ground.lapse(lease)
    claim = await ground.claim(lease.job)
    assert (claim.outcome, claim.stop_reason) == (Claimed.TAKE_OVER, "admin")
    assert (claim.attempt, claim.has_content) == (1, False)


async def test_a_job_without_a_log_is_gone(ground: Ground, store: Store) -> None:
    """PROTOCOL 8"""
    job = await ground.take(await ground.create())
    await store.retire(job.response_id)
    claim = await ground.claim(job)
    assert (claim.outcome, claim.lease) == (Claimed.GONE, None)
    assert await store.ack(job)
    assert await store.reclaim(0, "b", 9, 0) == []


async def test_an_ended_log_is_closed_to_every_claim_at_once(ground: Ground, store: Store) -> None:
    """PROTOCOL 2, 8: folding and finalizing may still be due, and need no waiting."""
    lease = await ground.run()
    await ground.append(lease, 3, text("words"))
    await ground.close(lease, 4, USAGE)
    claim = await ground.claim(lease.job)
    assert (claim.outcome, claim.seq, claim.has_content) == (Claimed.CLOSED, 5, True)
    assert leased(claim).epoch == lease.epoch
    assert await store.ack(leased(claim).job)


async def test_renewals_go_on_after_the_end(ground: Ground, store: Store) -> None:
    """PROTOCOL 2: until the ack; and so for whoever found the log closed."""
    lease = await ground.run()
    await ground.close(lease, 3)
    found = leased(await ground.claim(lease.job))
    for writer in (lease, found):
        reply = await store.renew(writer)
        assert (reply.outcome, reply.seq) == (Appended.CLOSED, 3)


async def test_the_end_of_another_epoch_does_not_revive_a_renewal(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 2: a fenced worker is not told CLOSED, or it would finalize and ack."""
    old = await ground.run()
    new = await ground.succeed(old)
    await ground.close(new, 4)
    assert (await store.renew(old)).outcome is Appended.FENCED


async def test_a_writer_that_gave_its_job_back_writes_nothing_more(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 2, 6: a queued response has no writer, or `cancelled` on the spot were a lie."""
    lease = await ground.run()
    assert await store.release(lease)
    assert (await ground.append(lease, 3, text("late"))).outcome is Appended.FENCED
    assert (await store.close(batch(lease, 3, ENDED))).outcome is Appended.FENCED
    assert (await store.renew(lease)).outcome is Appended.FENCED
    assert not await store.release(lease)
    (job,) = await store.take(0, "b", 9, 0)
    assert (await ground.claim(job)).outcome is Claimed.RUN


async def test_what_is_stopped_or_ended_is_not_released(ground: Ground, store: Store) -> None:
    """PROTOCOL 6, 9: the holder has its end to write."""
    stopped = await ground.run()
    await store.cancel(stopped.response_id, "user", ended=CANCELLED)
    assert not await store.release(stopped)
    ended = await ground.run()
    await ground.close(ended, 3)
    assert not await store.release(ended)
    assert await store.take(0, "b", 9, 0) == []


async def test_a_claim_of_what_never_was_is_gone(ground: Ground) -> None:
    """PROTOCOL 2"""
    claim = await ground.claim(Job(0, "1-0", "resp_0_" + "0" * 32))
    assert claim.outcome is Claimed.GONE
