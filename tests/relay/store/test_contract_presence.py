"""Presence and abandonment (PROTOCOL 7).

A timer is either SOON, so that a test can wait for it, or FAR, so that no test ever sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay.request import Disconnect
from relay.store.protocol import Claimed
from tests.relay.store.absence import (
    BOTH_FAR,
    BOTH_SOON,
    CANCEL,
    CONTINUE,
    FAR,
    HEARTBEAT_S,
    LONG_IS_SOON,
    NOBODY,
    SHORT_IS_SOON,
    SOON,
    abandoned,
    becomes_abandoned,
    stays_attended,
)
from tests.relay.store.words import leased, text

if TYPE_CHECKING:
    from relay.store import Store
    from tests.relay.store.conftest import OpenGround
    from tests.relay.store.ground import Ground


@pytest.fixture
async def ground(new_ground: OpenGround) -> Ground:
    return await new_ground(heartbeat_s=HEARTBEAT_S)


@pytest.mark.parametrize(
    ("policy", "ends"),
    [(LONG_IS_SOON, True), (SHORT_IS_SOON, False), (CANCEL, True), (CONTINUE, False)],
)
async def test_a_creator_who_never_comes_counts_as_a_viewer_that_was_lost(
    ground: Ground, policy: Disconnect, ends: bool
) -> None:
    """PROTOCOL 7: the long timer runs from the start."""
    rid = await ground.create(policy)
    if ends:
        await becomes_abandoned(ground, rid)
    else:
        await stays_attended(ground, rid)


async def test_a_creator_counts_for_two_heartbeats_under_any_policy(new_ground: OpenGround) -> None:
    """PROTOCOL 7: time for its page to load, even under the policy `cancel`."""
    ground = await new_ground(heartbeat_s=FAR)
    rid = await ground.create(CANCEL)
    await stays_attended_for(ground, rid, SOON)


async def stays_attended_for(ground: Ground, response_id: str, seconds: float) -> None:
    await ground.pass_s(seconds)
    assert not await abandoned(ground, response_id)


@pytest.mark.parametrize(
    ("policy", "ends"),
    [(LONG_IS_SOON, True), (SHORT_IS_SOON, False), (CANCEL, True), (CONTINUE, False)],
)
async def test_a_viewer_that_was_lost_starts_the_long_timer(
    ground: Ground, store: Store, policy: Disconnect, ends: bool
) -> None:
    """PROTOCOL 7: a disconnect writes nothing."""
    rid = await ground.create(policy)
    await store.attend(rid, "u1/a")
    if ends:
        await becomes_abandoned(ground, rid)
    else:
        await stays_attended(ground, rid)


@pytest.mark.parametrize(
    ("policy", "ends"),
    [(LONG_IS_SOON, False), (SHORT_IS_SOON, True), (CANCEL, True), (CONTINUE, False)],
)
async def test_a_viewer_that_left_starts_the_short_timer(
    ground: Ground, store: Store, policy: Disconnect, ends: bool
) -> None:
    """PROTOCOL 7: and the creator is waited for no longer, once anybody has come."""
    rid = await ground.create(policy)
    await store.attend(rid, "u1/a")
    await store.leave(rid, "u1/a")
    if ends:
        await becomes_abandoned(ground, rid)
    else:
        await stays_attended(ground, rid)


async def test_the_short_timer_takes_its_time(new_ground: OpenGround) -> None:
    """PROTOCOL 7: a reload is a leave and an attach, with a moment between."""
    ground = await new_ground(heartbeat_s=HEARTBEAT_S)
    rid = await ground.create(BOTH_FAR)
    await ground.store.attend(rid, "u1/a")
    await ground.store.leave(rid, "u1/a")
    await stays_attended(ground, rid)


async def test_the_short_timer_starts_when_the_last_viewer_leaves(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 7: a leave removes only that viewer."""
    rid = await ground.create(SHORT_IS_SOON)
    await store.attend(rid, "u1/a")
    await store.attend(rid, "u1/b")
    await store.leave(rid, "u1/a")
    await stays_attended(ground, rid)
    await store.leave(rid, "u1/b")
    await becomes_abandoned(ground, rid)


async def test_who_was_lost_long_ago_does_not_shorten_the_leave_of_another(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 7: the latest moment counts."""
    rid = await ground.create(LONG_IS_SOON)
    await store.attend(rid, "u1/lost")
    await store.attend(rid, "u1/left")
    await store.leave(rid, "u1/left")
    await stays_attended(ground, rid)


async def test_an_attach_resets_both_timers(ground: Ground, store: Store) -> None:
    """PROTOCOL 7"""
    rid = await ground.create(SHORT_IS_SOON)
    await store.attend(rid, "u1/a")
    await store.leave(rid, "u1/a")
    await store.attend(rid, "u1/a")
    await stays_attended(ground, rid)
    await store.leave(rid, "u1/a")
    await becomes_abandoned(ground, rid)


async def test_an_abandoned_response_is_attended_again_by_an_attach(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 7: nothing is remembered; whoever judges, judges the present."""
    rid = await ground.create(SHORT_IS_SOON)
    await store.attend(rid, "u1/a")
    await store.leave(rid, "u1/a")
    await becomes_abandoned(ground, rid)
    await store.attend(rid, "u2/b")
    assert not await abandoned(ground, rid)


async def test_heartbeats_keep_a_viewer_present(ground: Ground, store: Store) -> None:
    """PROTOCOL 7"""
    policy = Disconnect(cancel_after_s=0.4, leave_after_s=SOON)
    rid = await ground.create(policy)
    await store.attend(rid, "u1/a")
    start_ms = await ground.now_ms()

    async def beaten_for_long() -> bool:
        await store.beat([(rid, "u1/a", 1)])
        assert not await abandoned(ground, rid)
        return await ground.now_ms() > start_ms + 700

    await ground.until(beaten_for_long, "more time to pass than the long timer allows")
    await becomes_abandoned(ground, rid)


async def test_a_late_heartbeat_does_not_revive_who_left(ground: Ground, store: Store) -> None:
    """PROTOCOL 7.2: nor does the last word of a socket that is gone, which names nobody."""
    rid = await ground.create(SHORT_IS_SOON)
    await store.attend(rid, "u1/a")
    await store.leave(rid, "u1/a")
    await store.beat([(rid, "u1/a", 1), (rid, "", 1)])
    await becomes_abandoned(ground, rid)


async def test_who_comes_back_after_a_leave_is_kept_present_by_heartbeats(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 7.2: a page that is restored from a browser's cache has its old viewer id."""
    rid = await ground.create(LONG_IS_SOON)
    for call in (store.attend, store.leave, store.attend):
        await call(rid, "u1/a")
    await ground.pass_s(SOON / 2)
    await store.beat([(rid, "u1/a", 1)])
    await ground.pass_s(SOON / 2 + 2 * HEARTBEAT_S)
    await store.attend(rid, "u1/b")
    await store.leave(rid, "u1/b")
    await store.beat([(rid, "u1/a", 1)])
    assert await store.attend(rid, "u1/c") == 2


async def test_a_heartbeat_brings_back_a_presence_that_the_store_lost(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 7.2: the log was not lost, so no writer restores anything."""
    rid = await ground.create(SHORT_IS_SOON)
    await store.attend(rid, "u1/other")
    before = await ground.replica()
    await store.attend(rid, "u1/here")
    await ground.promote(before)
    await store.notice(0)  # its grace (10.7) is over when it is asked
    await store.beat([(rid, "u1/here", 1)])
    await store.leave(rid, "u1/other")
    await stays_attended(ground, rid)
    await store.leave(rid, "u1/here")
    await becomes_abandoned(ground, rid)


async def test_a_login_leaves_with_all_its_viewers_and_nobody_elses(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 7: viewers of one login are `<login>/<viewer>`."""
    rid = await ground.create(SHORT_IS_SOON)
    for viewer in ("u1/a", "u1/b", "u10/a", "u2/a"):
        await store.attend(rid, viewer)
    await store.leave(rid, "u1/")
    assert await store.attend(rid, "u2/a") == 2
    await store.leave(rid, "u2/")
    await stays_attended(ground, rid)
    await store.leave(rid, "u10/")
    await becomes_abandoned(ground, rid)


async def test_attending_tells_how_many_viewers_are_present(ground: Ground, store: Store) -> None:
    """PROTOCOL 7: neither the creator nor whoever left is one, nor is anybody two."""
    rid = await ground.create(BOTH_FAR)
    assert await store.attend(rid, "u1/a") == 1
    assert await store.attend(rid, "u1/b") == 2
    assert await store.attend(rid, "u1/b") == 2
    await store.leave(rid, "u1/a")
    assert await store.attend(rid, "u1/c") == 2


@pytest.mark.parametrize("policy", [LONG_IS_SOON, CANCEL, CONTINUE])
async def test_a_viewer_that_was_lost_counts_no_longer(
    ground: Ground, store: Store, policy: Disconnect
) -> None:
    """PROTOCOL 7: or a phone in a tunnel would use up max_viewers_per_response."""
    rid = await ground.create(policy)
    await store.attend(rid, "u1/a")
    await ground.pass_s(SOON + 3 * HEARTBEAT_S)
    assert await store.attend(rid, "u1/b") == 1


async def test_each_response_is_judged_for_itself(ground: Ground, store: Store) -> None:
    """PROTOCOL 7: answers come in the order of the questions."""
    rids = [await ground.create(policy) for policy in (LONG_IS_SOON, CONTINUE, LONG_IS_SOON)]
    await becomes_abandoned(ground, rids[0])
    await becomes_abandoned(ground, rids[2])
    await store.attend(rids[2], "u1/a")
    assert await store.abandoned([*rids, NOBODY]) == [True, False, False, False]
    assert await store.abandoned([]) == []


async def test_renewals_report_that_nobody_is_there(ground: Ground, store: Store) -> None:
    """PROTOCOL 7: no process owns a timer; only the renewal judges."""
    lease = await ground.run(policy=SHORT_IS_SOON)
    await store.attend(lease.response_id, "u1/a")
    assert not (await store.renew(lease)).abandoned
    await store.leave(lease.response_id, "u1/a")
    await becomes_abandoned(ground, lease.response_id)
    assert (await store.renew(lease)).abandoned
    assert not (await ground.append(lease, 3, text("words"))).abandoned


async def test_an_abandoned_response_is_not_run(ground: Ground) -> None:
    """PROTOCOL 7: judged by the claim before running."""
    job = await ground.take(await ground.create(LONG_IS_SOON))
    await becomes_abandoned(ground, job.response_id)
    claim = await ground.claim(job)
    assert (claim.outcome, claim.abandoned, claim.attempt) == (Claimed.TAKE_OVER, True, 0)
    assert leased(claim).epoch > 0
    assert await ground.types(job.response_id) == ["created"]


async def test_delivered_is_the_highest_number_handed_to_a_socket(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 8: of any viewer, here or gone."""
    rid, other = await ground.create(BOTH_SOON), await ground.create()
    assert await store.delivered(rid) == 0
    await store.attend(rid, "u1/a")
    await store.beat([(rid, "u1/a", 7), (other, "u1/a", 100), (rid, "u1/b", 3)])
    assert await store.delivered(rid) == 7
    await store.beat([(rid, "u1/a", 5)])
    assert await store.delivered(rid) == 7
    await store.leave(rid, "u1/a")
    await store.beat([(rid, "u1/a", 10)])
    assert await store.delivered(rid) == 10
    assert await store.delivered(other) == 100


async def test_presence_makes_no_log(ground: Ground, store: Store) -> None:
    """PROTOCOL 7: viewers of what is gone leave nothing behind that stays."""
    assert await store.attend(NOBODY, "u1/a") == 1
    await store.beat([(NOBODY, "u1/a", 5)])
    await store.beat([])
    await store.leave(NOBODY, "u1/a")
    await store.leave(NOBODY, "u1/")
    assert await store.delivered(NOBODY) == 0
    assert not await abandoned(ground, NOBODY)
    assert await store.tails([NOBODY]) == [None]
    request = await ground.request(NOBODY, BOTH_SOON)
    assert await store.create(request, upstream_model="small")
    await becomes_abandoned(ground, NOBODY)


async def test_a_policy_without_a_short_timer_treats_a_leave_like_a_loss(ground: Ground) -> None:
    """PROTOCOL 7.3"""
    rid = await ground.create(Disconnect(cancel_after_s=2, leave_after_s=None))
    await ground.store.attend(rid, "me/1")
    await ground.store.leave(rid, "me/1")
    assert await ground.store.abandoned([rid]) == [False]
    await ground.pass_s(2.1)
    assert await ground.store.abandoned([rid]) == [True]
