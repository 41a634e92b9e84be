"""A subscription per shard, told as one: a shard is one slot, and slots have nodes of their own.

Connections are counted by shards, not by nodes: two shards of one node share nothing, and neither
has to know where the other one is moved.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Final

from relay.store import keys
from relay.store.protocol import Stopped
from relay.store.subscription import RedisSubscription

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from redis.asyncio.connection import AbstractConnection

    from relay.store.protocol import Message

AHEAD: Final = 64
"""Messages that wait for the hub; then a shard's connection is read no further."""


class ClusterSubscription:
    """Implements `Subscription`."""

    def __init__(
        self, connect: Callable[[str], Awaitable[AbstractConnection]], shards: Sequence[int]
    ) -> None:
        self._connect = connect
        self._asked = frozenset(shards)
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue(AHEAD)
        self._listening: list[asyncio.Task[None]] | None = None
        self._shards: dict[int, RedisSubscription] = {}
        for shard in shards:
            self._of(shard)

    def _of(self, shard: int) -> RedisSubscription:
        found = self._shards.get(shard)
        if found is None:  # of a response from before RELAY_SHARDS was made smaller
            connect = partial(self._connect, keys.stops(shard))
            found = self._shards[shard] = RedisSubscription(connect, [shard])
            if self._listening is not None:
                self._listening.append(self._listen(found))
        return found

    async def add(self, response_id: str) -> None:
        await self._of(keys.shard_of(response_id)).add(response_id)

    async def remove(self, response_ids: Sequence[str]) -> None:
        by_shard: dict[int, list[str]] = {}
        for response_id in response_ids:
            by_shard.setdefault(keys.shard_of(response_id), []).append(response_id)
        for shard, mine in by_shard.items():
            await self._of(shard).remove(mine)

    def _listen(self, subscription: RedisSubscription) -> asyncio.Task[None]:
        async def listen() -> None:
            async for message in subscription.messages():
                if (
                    not isinstance(message, Stopped)
                    or keys.shard_of(message.response_id) in self._asked
                ):
                    await self._messages.put(message)

        return asyncio.get_running_loop().create_task(
            listen(), name="relay cluster subscription", context=Context()
        )

    async def messages(self) -> AsyncIterator[Message]:
        self._listening = [self._listen(one) for one in self._shards.values()]
        try:
            while (message := await self._messages.get()) is not None:
                yield message
        finally:
            listening, self._listening = self._listening, None
            for task in listening:
                task.cancel()
            await asyncio.gather(*listening, return_exceptions=True)

    async def aclose(self) -> None:
        """Ends `messages`, too."""
        for subscription in self._shards.values():
            await subscription.aclose()
        if self._messages.full():
            self._messages.get_nowait()
        self._messages.put_nowait(None)
