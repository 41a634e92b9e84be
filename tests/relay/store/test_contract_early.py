"""Who watches before there is a log, or while a lost one is made again (PROTOCOL 7.5, 7.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.relay.store.absence import (
    BOTH_SOON,
    HEARTBEAT_S,
    NOBODY,
    SHORT_IS_SOON,
    becomes_abandoned,
    stays_attended,
)

if TYPE_CHECKING:
    from relay.request import Disconnect
    from tests.relay.store.conftest import OpenGround
    from tests.relay.store.ground import Ground


@pytest.fixture
async def ground(new_ground: OpenGround) -> Ground:
    return await new_ground(heartbeat_s=HEARTBEAT_S)


async def created(ground: Ground, policy: Disconnect, *, again: bool = False) -> str:
    request = await ground.request(NOBODY, policy)
    assert await ground.store.create(request, upstream_model="small", again=again)
    return NOBODY


async def somebody_else_comes_and_goes(ground: Ground) -> None:
    await ground.store.attend(NOBODY, "u1/other")
    await ground.store.leave(NOBODY, "u1/other")


@pytest.mark.parametrize("told", ["attach", "heartbeat"])
async def test_who_comes_before_the_log_counts_when_it_is_there(
    new_ground: OpenGround, told: str
) -> None:
    """PROTOCOL 7.5"""
    ground = await new_ground(heartbeat_s=5)
    if told == "attach":
        assert await ground.store.attend(NOBODY, "u1/early") == 1
    else:
        await ground.store.beat([(NOBODY, "u1/early", 0)])
    await created(ground, SHORT_IS_SOON)
    await somebody_else_comes_and_goes(ground)
    await stays_attended(ground, NOBODY)
    await ground.store.leave(NOBODY, "u1/early")
    await becomes_abandoned(ground, NOBODY)


async def test_who_left_before_the_log_is_not_waited_for(new_ground: OpenGround) -> None:
    """PROTOCOL 7.5: nor brought back by a heartbeat that was on its way."""
    ground = await new_ground(heartbeat_s=5)
    await ground.store.attend(NOBODY, "u1/early")
    await ground.store.leave(NOBODY, "u1/early")
    await ground.store.beat([(NOBODY, "u1/early", 0)])
    await created(ground, SHORT_IS_SOON)
    await somebody_else_comes_and_goes(ground)
    await becomes_abandoned(ground, NOBODY)


async def test_who_came_before_a_log_that_does_not_come_is_forgotten(ground: Ground) -> None:
    """PROTOCOL 7.5: after two heartbeats."""
    await ground.store.attend(NOBODY, "u1/early")
    await ground.pass_s(2 * HEARTBEAT_S + 0.005)
    await created(ground, SHORT_IS_SOON)
    await somebody_else_comes_and_goes(ground)
    await becomes_abandoned(ground, NOBODY)


async def test_a_heartbeat_ends_the_wait_for_the_creator_as_an_attach_does(
    ground: Ground,
) -> None:
    """PROTOCOL 7.2: who came before the log may be the one."""
    await ground.store.attend(NOBODY, "u1/early")
    await created(ground, SHORT_IS_SOON)
    await ground.store.beat([(NOBODY, "u1/early", 1)])
    await ground.store.leave(NOBODY, "u1/early")
    await becomes_abandoned(ground, NOBODY)


@pytest.mark.parametrize("policy", [SHORT_IS_SOON, BOTH_SOON])
async def test_a_log_that_is_made_again_waits_for_nobody_in_particular(
    ground: Ground, policy: Disconnect
) -> None:
    """PROTOCOL 7.6: for the long timer, whoever comes and goes meanwhile."""
    await created(ground, policy, again=True)
    assert await ground.store.attend(NOBODY, "u1/a") == 1
    await ground.store.leave(NOBODY, "u1/a")
    if policy is SHORT_IS_SOON:
        await stays_attended(ground, NOBODY)
    else:
        await becomes_abandoned(ground, NOBODY)
