"""Publish and subscribe within one process, and the faults a test may order.

Like the pub/sub it stands for it may lose messages; the numbers in them make viewers reliable.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from relay.errors import StoreRefused, StoreUnavailable
from relay.store.protocol import Gone, Lost, Message, Published, Stopped

MAX_WAITING: Final = 10_000
"""Messages a subscriber may leave unread. Beyond it all of them are dropped and it is told `Lost`,
as a server disconnects a subscriber that stalls."""


LARGER: Final = frozenset({"room", "reserve", "create", "append"})
"""Calls that a full store refuses (PROTOCOL 3.6)."""


class Faults:
    """What goes wrong next. Every order is used up by what it hits."""

    def __init__(self) -> None:
        self.unreachable = False
        """While True every call raises StoreUnavailable."""
        self.full = False
        """While True what makes the store larger is refused, as at a server's `maxmemory`."""
        self._lost_requests: Counter[str] = Counter()
        self._lost_replies: Counter[str] = Counter()
        self._published: Counter[type[Message]] = Counter()
        self._dropped: set[tuple[type[Message], int]] = set()

    def fail(self, call: str, *, times: int = 1, happened: bool = False) -> None:
        """The next `times` calls of this name raise StoreUnavailable.

        With `happened` only the reply is lost: the call has had its effect.
        """
        (self._lost_replies if happened else self._lost_requests)[call] += times

    def drop(self, kind: type[Message] = Published, *, nth: int = 1) -> None:
        """The nth message of this kind from now on reaches nobody."""
        self._dropped.add((kind, self._published[kind] + nth))

    @contextmanager
    def during(self, call: str) -> Iterator[None]:
        if self.unreachable or self._use_up(self._lost_requests, call):
            raise StoreUnavailable(f"{call}: the store did not answer")
        if self.full and call in LARGER:
            raise StoreRefused(f"{call}: the store is full")
        yield
        if self._use_up(self._lost_replies, call):
            raise StoreUnavailable(f"{call}: the reply was lost")

    def loses(self, message: Message) -> bool:
        kind = type(message)
        self._published[kind] += 1
        number = (kind, self._published[kind])
        lost = number in self._dropped
        self._dropped.discard(number)
        return lost

    @staticmethod
    def _use_up(planned: Counter[str], call: str) -> bool:
        if not planned[call]:
            return False
        planned[call] -= 1
        return True


class MemorySubscription:
    """Implements `Subscription`. Messages wait here until somebody iterates."""

    def __init__(self, shards: Iterable[int]) -> None:
        self._shards = frozenset(shards)
        self._ids: set[str] = set()
        self._waiting: deque[Message] = deque()
        self._news = asyncio.Event()
        self._closed = False

    def __repr__(self) -> str:
        return f"<MemorySubscription of {len(self._ids)}, {len(self._waiting)} waiting>"

    async def add(self, response_id: str) -> None:
        await asyncio.sleep(0)
        self._ids.add(response_id)

    async def remove(self, response_ids: Sequence[str]) -> None:
        self._ids.difference_update(response_ids)
        await asyncio.sleep(0)

    async def messages(self) -> AsyncIterator[Message]:
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if self._closed:
                return
            self._news.clear()
            await self._news.wait()

    async def aclose(self) -> None:
        self._closed = True
        self._waiting.clear()
        self._news.set()

    @property
    def closed(self) -> bool:
        return self._closed

    def receive(self, message: Message, shard: int) -> None:
        match message:
            case Stopped():
                wanted = shard in self._shards
            case Published(response_id=response_id) | Gone(response_id=response_id):
                wanted = response_id in self._ids
            case Lost():
                wanted = True
                self._waiting.clear()
        if not wanted:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.clear()
            message = Lost()
        self._waiting.append(message)
        self._news.set()

    def lose(self) -> None:
        """Break: what waits here is lost, and the reader is told that something was."""
        self._waiting.clear()
        self._waiting.append(Lost())
        self._news.set()
