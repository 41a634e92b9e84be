"""Whether there is room for one more response, asked before it is written (PROTOCOL 3.6).

Two questions: does the server take writes at all, and is enough of its memory left for the answers
that run. At `maxmemory` itself every one of them would be cut off in the middle, so new ones are
refused before.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Final

from relay.errors import StoreRefused, StoreUnavailable
from relay.store import scripts

if TYPE_CHECKING:
    from relay.store.lane import Carrier

LOOK_S: Final = 2.0
"""How old the last look at the memory may be: INFO is 30 to 40 µs of the server's."""
FRESH_S: Final = 0.02
"""A server that took a write of ours a moment ago need not be probed: under load that is every
question's first round trip."""
PATIENCE_S: Final = 1.0


class Room:
    """Belongs to one store.

    Args:
        max_share: of `maxmemory`; 0 = no limit.
    """

    def __init__(self, lane: Carrier, max_share: float) -> None:
        self._lane = lane
        self._max_share = max_share
        self._share = 0.0
        self._looked_s = self._taken_s = -math.inf

    def __repr__(self) -> str:
        return f"<Room {self._share:.0%} of {self._max_share:.0%} taken>"

    async def check(self) -> None:
        """By the memory alone. Raises StoreRefused, StoreUnavailable."""
        if self._max_share and await self.share() > self._max_share:
            raise StoreRefused(f"{self._share:.0%} of the store's maxmemory are in use")

    async def share(self) -> float:
        """Of `maxmemory`, seen at most `LOOK_S` ago. Raises StoreUnavailable."""
        now_s = time.monotonic()
        if now_s - self._looked_s > LOOK_S:
            self._looked_s = now_s  # who asks meanwhile goes by the look before
            self._share = await self._look()
        return self._share

    async def probe(self) -> None:
        """Also whether it takes writes. Raises StoreRefused, StoreUnavailable, within a second."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.check()
                if time.monotonic() - self._taken_s > FRESH_S:
                    await scripts.shielded(self._lane, scripts.ROOM, [], [])
        except TimeoutError as error:
            raise StoreUnavailable("the store does not answer") from error

    def taken(self) -> None:
        """The server has just taken what makes it larger."""
        self._taken_s = time.monotonic()

    async def _look(self) -> float:
        """Of the fullest server, since a person may be answered by any."""
        asked = self._lane.everywhere(("INFO", "memory"))
        # Of several nodes one may hang: the others are not held up by it for every question.
        done, late = await asyncio.wait(asked, timeout=PATIENCE_S / 2)
        if not done:
            done, _ = await asyncio.wait(late, return_when=asyncio.FIRST_COMPLETED)
        failed = [failure for one in done if (failure := one.exception()) is not None]
        away = [failure for failure in failed if isinstance(failure, StoreUnavailable)]
        if away and len(failed) == len(done):
            raise away[0]
        # None: an ACL without INFO. Then only maxmemory itself refuses.
        answered = [one.result() for one in done if one.exception() is None]
        return max(map(share_of, answered), default=0.0)


def share_of(info: bytes) -> float:
    """Of `maxmemory`, from INFO's section `memory`; 0 where the server would not refuse at it."""
    lines = dict(line.partition(b":")[::2] for line in info.split(b"\r\n"))
    most = int(lines.get(b"maxmemory", 0))
    # One that evicts is always full. It is warned of elsewhere: its logs may vanish.
    if not most or lines.get(b"maxmemory_policy") != b"noeviction":
        return 0.0
    # What it does not count itself when it refuses: buffers for replicas and its file.
    uncounted = int(lines.get(b"mem_not_counted_for_evict", 0))
    return (int(lines[b"used_memory"]) - uncounted) / most
