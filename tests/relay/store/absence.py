"""Words for tests about who is missed, and when.

A timer is either SOON, so that a test can wait for it, or FAR, so that no test ever sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from relay.request import Disconnect

if TYPE_CHECKING:
    from tests.relay.store.ground import Ground

SOON, FAR = 0.1, 1000.0
HEARTBEAT_S = 0.01
NOBODY = "resp_0_" + "0" * 32
LONG_IS_SOON = Disconnect(cancel_after_s=SOON, leave_after_s=FAR)
SHORT_IS_SOON = Disconnect(cancel_after_s=FAR, leave_after_s=SOON)
BOTH_SOON = Disconnect(cancel_after_s=SOON, leave_after_s=SOON)
BOTH_FAR = Disconnect(cancel_after_s=FAR, leave_after_s=FAR)
CANCEL = Disconnect(cancel_after_s=0, leave_after_s=0)
CONTINUE = Disconnect()


async def abandoned(ground: Ground, response_id: str) -> bool:
    (answer,) = await ground.store.abandoned([response_id])
    return answer


async def becomes_abandoned(ground: Ground, response_id: str) -> None:
    await ground.until(lambda: abandoned(ground, response_id), "the response to be abandoned")


async def stays_attended(ground: Ground, response_id: str) -> None:
    """All that is SOON has passed, and it is still attended."""
    await ground.pass_s(SOON + 3 * HEARTBEAT_S)
    assert not await abandoned(ground, response_id)
