"""Which server the memory store plays, and the grace after it was another one (PROTOCOL 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PRECISION_MS: Final = 1000
"""A server tells its age in whole seconds: no younger than it is."""


@dataclass(slots=True)
class _Seen:
    name: int
    since_ms: int
    noticed_ms: int


class MemoryServer:
    """Has a name that changes when it restarts or another one takes its place.

    What a shard has noticed is data: it is lost with the data, and kept by a replica.
    """

    def __init__(self, now_ms: int) -> None:
        self._name = 0
        self._started_ms = now_ms - PRECISION_MS
        self._seen: dict[int, _Seen] = {}

    @property
    def run(self) -> str:
        """Names this server from its start to its end."""
        return f"run {self._name}"

    def succeed(self, now_ms: int, *, empty: bool) -> None:
        """Another one from now on; an empty one knows of no server before it."""
        self._name += 1
        self._started_ms = now_ms - PRECISION_MS
        if empty:
            self._seen.clear()

    def notice(self, shard: int, now_ms: int) -> _Seen:
        seen = self._seen.get(shard)
        if seen is None or seen.name != self._name:
            since_ms = now_ms if seen is not None else self._started_ms
            seen = self._seen[shard] = _Seen(self._name, since_ms, now_ms)
        return seen

    def grace_left_ms(self, shard: int, created_ms: float, now_ms: int, grace_s: float) -> float:
        seen = self.notice(shard, now_ms)
        if created_ms > seen.since_ms:
            return 0
        return max(0, seen.noticed_ms + grace_s * 1000 - now_ms)
