"""Ack, retention and retirement (PROTOCOL 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay.store.protocol import Appended, Cancelled, Claimed
from tests.relay.store.words import CANCELLED, QUEUED_OVER, RUNNING_OVER, text, texts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from relay.store import Lease, Store
    from tests.relay.store.conftest import OpenGround
    from tests.relay.store.ground import Ground

SOON, FAR = 0.1, 1000.0


async def finished(ground: Ground) -> Lease:
    lease = await ground.run()
    await ground.append(lease, 3, *texts(2))
    await ground.close(lease, 5)
    return lease


async def is_gone(ground: Ground, response_id: str) -> bool:
    return await ground.store.tails([response_id]) == [None]


async def test_an_open_log_is_not_acked(ground: Ground, store: Store) -> None:
    """PROTOCOL 8: somebody must still close it, so its job comes back."""
    queued = await ground.take(await ground.create())
    running = await ground.run()
    for job in (queued, running.job):
        assert not await store.ack(job)
    assert await store.reclaim(0, "b", 9, 0) == [queued, running.job]


async def test_a_log_stays_for_retention_s_after_the_ack(new_ground: OpenGround) -> None:
    """PROTOCOL 8: for viewers that come back; later the record answers."""
    ground = await new_ground(retention_s=FAR)
    lease = await finished(ground)
    before = await ground.lines(lease.response_id)
    assert await ground.store.ack(lease.job)
    await ground.pass_s(SOON)
    assert await ground.lines(lease.response_id) == before
    assert await ground.store.attend(lease.response_id, "u1/a") == 1


async def test_after_retention_s_nothing_is_left(new_ground: OpenGround) -> None:
    """PROTOCOL 8: log, meta and viewers go together."""
    ground = await new_ground(retention_s=SOON)
    store = ground.store
    lease = await finished(ground)
    rid = lease.response_id
    await store.beat([(rid, "u1/a", 3)])
    assert await store.ack(lease.job)
    await ground.until(lambda: is_gone(ground, rid), "the retention to end")
    assert await store.read(rid, after=0) is None
    assert await store.delivered(rid) == 0
    assert await store.cancel(rid, "user", ended=CANCELLED) is Cancelled.MISSING
    assert not await store.expire(rid, queued=QUEUED_OVER, running=RUNNING_OVER)
    assert (await ground.claim(lease.job)).outcome is Claimed.GONE
    assert (await ground.append(lease, 6, text("late"))).outcome is Appended.LOST
    assert (await store.renew(lease)).outcome is Appended.LOST
    assert not await store.release(lease)
    if ground.client is not None:
        assert await ground.ttls_ms() == {}


async def test_a_log_that_is_not_acked_outlives_the_retention(new_ground: OpenGround) -> None:
    """PROTOCOL 8: the database may be down for longer."""
    ground = await new_ground(retention_s=SOON)
    lease = await finished(ground)
    await ground.pass_s(3 * SOON)
    assert len(await ground.lines(lease.response_id)) == 5


async def test_an_ack_may_be_repeated(ground: Ground, store: Store) -> None:
    """PROTOCOL 8: also after everything is gone."""
    lease = await finished(ground)
    assert await store.ack(lease.job)
    assert await store.ack(lease.job)
    await store.retire(lease.response_id)
    assert await store.ack(lease.job)


async def late_close(ground: Ground, lease: Lease) -> None:
    await ground.close(lease, 5)


async def late_append(ground: Ground, lease: Lease) -> None:
    await ground.append(lease, 3, *texts(2))


async def late_renewal(ground: Ground, lease: Lease) -> None:
    await ground.store.renew(lease)


async def late_claim(ground: Ground, lease: Lease) -> None:
    await ground.claim(lease.job)


async def late_attach(ground: Ground, lease: Lease) -> None:
    await ground.store.attend(lease.response_id, "u1/b")


async def late_heartbeat(ground: Ground, lease: Lease) -> None:
    await ground.store.beat([(lease.response_id, "u1/a", 5)])


async def late_leave(ground: Ground, lease: Lease) -> None:
    await ground.store.leave(lease.response_id, "u1/a")


LATE = [
    late_close,
    late_append,
    late_renewal,
    late_claim,
    late_attach,
    late_heartbeat,
    late_leave,
]


@pytest.mark.parametrize("late", LATE)
async def test_nothing_prolongs_the_retention(
    new_ground: OpenGround, late: Callable[[Ground, Lease], Awaitable[None]]
) -> None:
    """PROTOCOL 8: a renewal that was on its way while its job was acked, least of all."""
    ground = await new_ground(retention_s=2 * SOON)
    lease = await finished(ground)
    await ground.store.attend(lease.response_id, "u1/a")
    assert await ground.store.ack(lease.job)
    await late(ground, lease)
    await ground.until(lambda: is_gone(ground, lease.response_id), "the retention to end")
    if ground.client is not None:
        await ground.until(lambda: nothing_left(ground), "all keys to be gone")


async def nothing_left(ground: Ground) -> bool:
    return await ground.ttls_ms() == {}


async def test_a_retired_log_is_gone_at_once(ground: Ground, store: Store) -> None:
    """PROTOCOL 8: the record is final, and wins over any log."""
    lease = await ground.run()
    await ground.append(lease, 3, text("words"))
    await store.retire(lease.response_id)
    assert await store.read(lease.response_id, after=0) is None
    assert (await ground.append(lease, 4, text("more"))).outcome is Appended.FENCED
    assert (await ground.close(lease, 4)).outcome is Appended.FENCED
    assert (await store.renew(lease)).outcome is Appended.FENCED
    assert (await ground.claim(lease.job)).outcome is Claimed.GONE
    assert await store.ack(lease.job)
    await store.retire(lease.response_id)


async def test_a_lost_log_can_be_made_anew(ground: Ground, store: Store) -> None:
    """PROTOCOL 8: the sweep does so for rows that are not final; an old job is no harm to it."""
    lease = await ground.run()
    rid = lease.response_id
    await ground.append(lease, 3, text("lost"))
    await store.retire(rid)
    assert await store.create(await ground.request(rid), upstream_model="small")
    assert (await ground.append(lease, 4, text("late"))).outcome is Appended.LOST
    (job,) = await store.take(0, "b", 9, 0)
    claim = await ground.claim(job)
    assert (claim.outcome, claim.attempt, claim.seq) == (Claimed.RUN, 1, 2)
    assert await ground.types(rid) == ["created", "started"]
    assert not await store.ack(lease.job), "its log is open again"
