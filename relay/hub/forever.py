"""Loops of a process: one that fails is told and starts again, for nobody else restarts it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final

logger = logging.getLogger(__name__)

PAUSE_MAX_S: Final = 5.0


async def forever(loop: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    """Run `loop` until it returns; after an exception, again, with a growing pause.

    A worker whose renewals died would lose its answers one after the other, and a hub that no
    longer listens would be three seconds late for ever.
    """
    failures = 0
    while True:
        try:
            await loop()
        except Exception:
            failures += 1
            logger.exception("%s failed and starts again", name)
            longest_s = min(PAUSE_MAX_S, 0.05 * 2 ** min(failures, 10))
            await asyncio.sleep(longest_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
        else:
            return
