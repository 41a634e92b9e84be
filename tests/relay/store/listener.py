"""Somebody who listens to a store and remembers everything."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from relay.store import Published, Store, Subscription
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from relay.store.protocol import Message


class Listener:
    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.messages: list[Message] = []
        self.task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for message in self.subscription.messages():
            self.messages.append(message)

    async def add(self, response_id: str) -> None:
        await self.subscription.add(response_id)

    def events(self, response_id: str) -> list[bytes]:
        """What was published of one response, in the order of arrival."""
        return [
            data
            for message in self.messages
            if isinstance(message, Published) and message.response_id == response_id
            for data in message.events
        ]

    async def hears(self, wanted: Message, *, times: int = 1) -> None:
        await wait_until(
            lambda: self.messages.count(wanted) >= times, f"to hear {wanted}, {times} times"
        )

    async def hears_lines(self, response_id: str, lines: Sequence[bytes]) -> None:
        await wait_until(
            lambda: self.events(response_id) == list(lines),
            f"to hear {len(lines)} events of {response_id}, heard {self.messages}",
        )


@asynccontextmanager
async def listening(store: Store, shards: Sequence[int] = (0,)) -> AsyncIterator[Listener]:
    listener = Listener(await store.subscribe(shards))
    try:
        yield listener
    finally:
        await listener.subscription.aclose()
        await asyncio.wait_for(listener.task, timeout=5)
