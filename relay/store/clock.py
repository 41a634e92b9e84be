"""The store's time as a process last heard of it: one clock for all processes (PROTOCOL 9.4)."""

from __future__ import annotations

import time
from typing import Final

TRUSTED_S: Final = 1.0
"""An answer that took longer lay somewhere, perhaps beside a process that slept: it is old."""


class StoreClock:
    """Goes on by this machine's monotonic clock, so that a wall clock that is set changes nothing.

    Until it has heard of the store's time it tells this machine's own.
    """

    def __init__(self) -> None:
        self._ahead_s: float | None = None
        """Of `time.monotonic`."""

    @property
    def known(self) -> bool:
        return self._ahead_s is not None

    def heard(self, now_s: float, *, asked_s: float) -> None:
        """The store said what time it is, in Unix seconds.

        Args:
            asked_s: when it was asked, by `time.monotonic`.
        """
        heard_s = time.monotonic()
        if self._ahead_s is None or heard_s - asked_s < TRUSTED_S:
            self._ahead_s = now_s - heard_s

    def now_s(self) -> float:
        """Unix seconds; late by what the store's word took to come here."""
        return time.time() if self._ahead_s is None else time.monotonic() + self._ahead_s
