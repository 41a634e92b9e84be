"""Times in buckets that grow by a quarter: percentiles that can be added up, within an eighth.

Pure. A percentile of many hours cannot be had from the percentiles of each; from counts by bucket
it can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

GROWTH: Final = 1.25
FIRST_BOUND: Final = 1.0
BOUNDS: Final = tuple(round(FIRST_BOUND * GROWTH**n, 3) for n in range(61))
"""Upper bounds in ms: 1 ms to eleven minutes; what is longer is in one last bucket."""


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """The value below which `share` (0 to 1) of all lie, in ms. None: there are none.

    Inside a bucket values are taken to be spread evenly.
    """
    total = sum(counts.values())
    if not total:
        return None
    left = share * total
    for bucket in sorted(counts):
        count = counts[bucket]
        if count and left <= count:
            low = BOUNDS[bucket - 1] if bucket else 0.0
            high = BOUNDS[bucket] if bucket < len(BOUNDS) else BOUNDS[-1] * GROWTH
            return low + (high - low) * left / count
        left -= count
    return BOUNDS[-1] * GROWTH
