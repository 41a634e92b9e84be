"""Loops of a process: one that fails is told and starts again, for nobody else restarts it."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

logger = logging.getLogger(__name__)

PAUSE_MAX_S: Final = 5.0
WELL_S: Final = 60.0
"""Whoever has run for so long is well again: its next failure is its first, in a process that lives
for months, and waits no five seconds."""


async def forever(
    loop: Callable[[], Coroutine[Any, Any, None]],
    name: str,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Run `loop` until it returns; after an exception, again, with a growing pause.

    A worker whose renewals died would lose its answers one after the other, and a hub that no
    longer listens would be three seconds late for ever.
    """
    failures = 0
    while True:
        begun_s = clock()
        try:
            await loop()
        except Exception:
            failures = 1 if clock() - begun_s >= WELL_S else failures + 1
            logger.exception("%s failed and starts again", name)
            longest_s = min(PAUSE_MAX_S, 0.05 * 2 ** min(failures, 10))
            await sleep(longest_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
        else:
            return
