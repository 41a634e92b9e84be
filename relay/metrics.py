"""Counters and clocks that a process keeps of itself; cheap enough for the hot path."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Plain integers since the process started."""

    events_appended: int = 0
    appends: int = 0
    """Append scripts sent; events_appended / appends is how much coalescing gave."""
    flushes: int = 0
    """Pipelines sent; appends / flushes is how many responses shared a round trip."""
    gap_fills: int = 0
    """Reads of the log because a wake-up was lost or late."""
    viewers_lagged: int = 0
    """Times a viewer fell behind its buffer and went back to paged reads."""
    fenced: int = 0
    take_overs: int = 0


COUNTERS = Counters()
