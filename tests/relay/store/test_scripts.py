"""How a script is called by somebody who may lose patience."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest

from relay.errors import StoreUnavailable
from relay.store import scripts
from relay.store.lane import Lane

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

    from relay.store.lane import Command


class _Late(Lane):
    """Its one command is still on its way when nobody waits for it any more."""

    def __init__(self) -> None:
        super().__init__(self._nowhere)
        self.sent: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def _nowhere(self) -> AbstractConnection:
        raise AssertionError("this lane connects to nothing")

    def send(self, command: Command) -> asyncio.Future[Any]:
        return self.sent


async def test_a_failure_that_nobody_waits_for_any_more_is_no_complaint() -> None:
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    lane = _Late()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await scripts.shielded(lane, scripts.ROOM, [], [])
    assert not lane.sent.done(), "it was given up"
    lane.sent.set_exception(StoreUnavailable("the server is gone"))
    for _ in range(5):
        await asyncio.sleep(0)
    gc.collect()
    assert complaints == []


async def test_who_waits_hears_of_the_failure() -> None:
    lane = _Late()
    lane.sent.set_exception(StoreUnavailable("the server is gone"))
    with pytest.raises(StoreUnavailable):
        await scripts.shielded(lane, scripts.ROOM, [], [])
