"""A store whose published messages may get lost on the way to one process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relay.store import Message, Store, Subscription


class LossySubscription:
    def __init__(self, inner: Subscription, drops: Callable[[Message], bool]) -> None:
        self._inner = inner
        self._drops = drops
        self.add = inner.add
        self.remove = inner.remove
        self.aclose = inner.aclose

    async def messages(self) -> AsyncIterator[Message]:
        async for message in self._inner.messages():
            if not self._drops(message):
                yield message


class LossyStore:
    """Everything of `inner`, but `drops(message)` decides what its subscriptions never see."""

    def __init__(self, inner: Store, drops: Callable[[Message], bool]) -> None:
        self._inner = inner
        self._drops = drops

    async def subscribe(self, shards: Sequence[int]) -> Subscription:
        return LossySubscription(await self._inner.subscribe(shards), self._drops)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
