"""From when frames were sent and when they came: is something holding them, and what lets go?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import log2
from statistics import mean, median, pstdev
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatapp.doctor.observed import Arrival

TOGETHER: Final = 0.35
"""Of the gap: frames that come closer than this came in one piece."""
LATE: Final = 0.8
"""Of the gap: a frame is held if it is later than this, compared with the fastest."""
HELD: Final = 1 / 3
"""Of all frames: a machine that is busy for a moment makes some of them late, a buffer most."""
LARGE_BYTES: Final = 4096
"""A page: the smallest buffer that proxies have."""
LEAST: Final = 8
"""Frames; of fewer nothing is said."""


@dataclass(frozen=True, slots=True)
class Holding:
    """How frames are held back."""

    kind: Literal["whole", "bytes", "time", "tail", "bursts"]
    """`whole`: until the end. `bytes`: until so many. `time`: for so long. `tail`: the end of what
    is larger than the buffer, until more comes. `bursts`: unclear."""
    longest_s: float
    """The longest that a frame was held."""
    size_bytes: int = 0
    every_s: float = 0.0


def holding(arrivals: Sequence[Arrival], gap_s: float) -> Holding | None:
    """None: they come as they are sent."""
    if len(arrivals) < LEAST:
        return None
    offsets = [one.received_s - one.sent_at for one in arrivals]
    delays = [offset - min(offsets) for offset in offsets]
    late = [delay > LATE * gap_s for delay in delays]
    bursts = _bursts(arrivals, TOGETHER * gap_s)
    longest_s = max(delays)
    if size_bytes := _tail(arrivals, late, len(bursts)):
        return Holding("tail", longest_s, size_bytes=size_bytes)
    if sum(late) < HELD * len(arrivals):
        return None
    if len(bursts) == 1:
        return Holding("whole", longest_s)
    # The last one came because the stream ended. Where a frame fills the buffer by itself, nothing
    # waited, and its size says nothing.
    waited = [burst for burst in bursts[:-1] if len(burst) > 1]
    if len(waited) < 2:
        if len(waited) == 1 and len(waited[0]) > len(arrivals) / 2:
            return Holding("bytes", longest_s, size_bytes=_power_of_two([_size(waited[0])]))
        return Holding("bursts", longest_s) if waited else None
    sizes = [_size(burst) for burst in waited]
    ends = [0.0, *(burst[-1].received_s for burst in waited)]
    pauses = [later - earlier for earlier, later in pairwise(ends)]
    if _spread(sizes) < _spread(pauses):
        return Holding("bytes", longest_s, size_bytes=_power_of_two(sizes))
    return Holding("time", longest_s, every_s=median(pauses))


def _tail(arrivals: Sequence[Arrival], late: Sequence[bool], bursts: int) -> int:
    """The size from which on a frame comes one frame late, as nginx has it: it passes on what has
    come, but the last buffer only once it is full. 0 where that is not so.

    A machine that is busy for a moment does that to none: then many frames come together.
    """
    if bursts < len(arrivals) * 0.8:
        return 0
    large = [
        (one.size_bytes, was_late)
        for one, was_late in zip(arrivals[:-1], late, strict=False)
        if one.size_bytes > LARGE_BYTES
    ]
    if not large or sum(was_late for _, was_late in large) < 0.7 * len(large):
        return 0
    return _power_of_two([min(size for size, _ in large)])


def _bursts(arrivals: Sequence[Arrival], within_s: float) -> list[list[Arrival]]:
    bursts = [[arrivals[0]]]
    for earlier, later in pairwise(arrivals):
        if later.received_s - earlier.received_s > within_s:
            bursts.append([])
        bursts[-1].append(later)
    return bursts


def _size(burst: Sequence[Arrival]) -> int:
    return sum(one.size_bytes for one in burst)


def _spread(values: Sequence[float]) -> float:
    """Standard deviation as a share of the mean."""
    return pstdev(values) / mean(values)


def _power_of_two(sizes: Sequence[int]) -> int:
    """Buffers are such, and what a burst brings is one of them, more or less a frame."""
    return int(2 ** round(log2(median(sizes))))
