"""Presence on Redis: who watches a response, and how far they were handed it (PROTOCOL 7, 8)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from relay.store import keys, scripts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relay.store.lane import Carrier


class RedisPresence:
    """Those calls of `Store` that are about viewers, on the two lanes of one.

    Args:
        grace_ms: two heartbeats, for which a viewer counts that is not heard of.
    """

    def __init__(self, writes: Carrier, reads: Carrier, grace_ms: int) -> None:
        self._writes = writes
        self._reads = reads
        self._grace_ms = grace_ms

    async def attend(self, response_id: str, viewer: str) -> int:
        names = [keys.viewers(response_id), keys.meta(response_id)]
        # On the lane of reads: a viewer attends and reads its first page in one round trip.
        return int(await scripts.call(self._reads, scripts.ATTEND, names, [viewer, self._grace_ms]))

    async def beat(self, beats: Sequence[tuple[str, str, int]]) -> None:
        calls = [
            scripts.call(
                self._writes,
                scripts.BEAT,
                [keys.viewers(rid), keys.meta(rid)],
                [viewer, self._grace_ms, seq],
            )
            for rid, viewer, seq in beats
        ]
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer

    async def leave(self, response_id: str, viewer: str) -> None:
        names = [keys.viewers(response_id), keys.meta(response_id)]
        await scripts.call(self._writes, scripts.LEAVE, names, [viewer, self._grace_ms])

    async def abandoned(self, response_ids: Sequence[str]) -> list[bool]:
        calls = [
            scripts.call(
                self._reads,
                scripts.ABANDONED,
                [keys.viewers(rid), keys.meta(rid), keys.run(keys.shard_of(rid))],
                [self._grace_ms],
            )
            for rid in response_ids
        ]
        return [bool(answer) for answer in await asyncio.gather(*calls)]

    async def delivered(self, response_id: str) -> int:
        reply = await self._reads.send(("HGET", keys.meta(response_id), "delivered"))
        return int(reply or 0)
