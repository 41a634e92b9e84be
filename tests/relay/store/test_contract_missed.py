"""Who is missed by a server that has lost something (PROTOCOL 10.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relay.request import Disconnect
from relay.store.protocol import Appended, Claimed

if TYPE_CHECKING:
    from relay.store import Lease, Store
    from tests.relay.store.conftest import OpenGround
    from tests.relay.store.ground import Ground

LEASE_S = 1.0
WATCHED = Disconnect(cancel_after_s=300, leave_after_s=0)
HEARTBEAT_S = 0.5


async def left_by_everybody(new_ground: OpenGround) -> tuple[Ground, Lease]:
    """Long ago, and then the server was replaced by one that knows it."""
    ground = await new_ground(lease_s=LEASE_S, heartbeat_s=HEARTBEAT_S)
    lease = await ground.run(policy=WATCHED)
    await ground.store.attend(lease.response_id, "u/a")
    await ground.store.leave(lease.response_id, "u/a")
    await ground.pass_s(0.002)
    assert (await ground.store.renew(lease)).abandoned
    await ground.promote(await ground.replica())
    return ground, lease


async def test_a_new_server_misses_nobody_for_two_heartbeats(new_ground: OpenGround) -> None:
    """PROTOCOL 10.7: whoever came last may be what was lost, and makes itself known first."""
    ground, lease = await left_by_everybody(new_ground)
    rid, started_ms = lease.response_id, await ground.now_ms()
    assert not (await ground.store.renew(lease)).abandoned
    assert await ground.store.abandoned([rid]) == [False]

    async def alone() -> bool:
        reply = await ground.store.renew(lease)
        assert reply.outcome is Appended.OK
        return reply.abandoned

    await ground.until(alone, "nobody to be there")
    assert await ground.now_ms() - started_ms >= 2000 * HEARTBEAT_S - 50
    assert await ground.store.abandoned([rid]) == [True]


async def test_who_makes_itself_known_to_the_new_server_keeps_the_answer(
    new_ground: OpenGround,
) -> None:
    """PROTOCOL 7.2, 10.7"""
    ground, lease = await left_by_everybody(new_ground)
    assert not (await ground.store.renew(lease)).abandoned
    await ground.store.beat([(lease.response_id, "u/b", 1)])
    await ground.pass_s(2 * HEARTBEAT_S + 0.05)
    assert await ground.store.abandoned([lease.response_id]) == [False]


async def test_a_claim_misses_nobody_either(new_ground: OpenGround) -> None:
    """PROTOCOL 10.7"""
    ground = await new_ground(lease_s=0.05, heartbeat_s=LEASE_S)
    job = await ground.take(await ground.create(WATCHED))
    await ground.store.attend(job.response_id, "u/a")
    await ground.store.leave(job.response_id, "u/a")
    await ground.pass_s(0.002)
    assert await ground.store.abandoned([job.response_id]) == [True]
    await ground.promote(await ground.replica())
    assert (await ground.claim(job)).outcome is Claimed.BUSY
    await ground.pass_s(0.06)
    assert (await ground.claim(job)).outcome is Claimed.RUN


async def test_what_was_asked_of_the_new_server_is_judged_at_once(new_ground: OpenGround) -> None:
    """PROTOCOL 10.7: nobody can be unknown to it."""
    ground = await new_ground(heartbeat_s=300)
    await ground.promote(await ground.replica())
    await ground.store.notice(0)
    await ground.pass_s(0.002)
    rid = await ground.create(WATCHED)
    await ground.store.attend(rid, "u/a")
    await ground.store.leave(rid, "u/a")
    await ground.pass_s(0.002)
    assert await ground.store.abandoned([rid]) == [True]


async def test_viewers_are_known_again_before_the_log_is(ground: Ground, store: Store) -> None:
    """PROTOCOL 7.5, 10.1: their heartbeats come when they come."""
    lease = await ground.run(policy=WATCHED)
    kept = await ground.kept(lease)
    await ground.lose_everything()
    await store.beat([(lease.response_id, "u/here", 4)])
    await store.restore(kept)
    assert await store.attend(lease.response_id, "u/new") == 2
