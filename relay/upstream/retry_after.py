"""How long a provider wants to be left in peace, from the headers of its refusal.

`retry-after-ms` and `Retry-After` say it outright. Budget headers say it in a dozen dialects: the
name of each tells a bucket's reset or what remains of it (`x-ratelimit-reset-tokens: 6m0s`,
`anthropic-ratelimit-requests-reset: 2026-03-01T12:00:00Z`, `x-ratelimit-reset: 1772366400000`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Final

MAX_RETRY_AFTER_S: Final = 86_400.0
_SPAN: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?")
_SPAN_UNITS_S: Final = (86_400.0, 3600.0, 60.0, 1.0, 0.001)
_EPOCH_S: Final = 1e9
"""A number this large is no wait but a moment: in seconds since 1970, or milliseconds."""
_EPOCH_MS: Final = 1e12


def retry_after_s(
    headers: Mapping[str, str], *, now: datetime, budgets: bool = False
) -> float | None:
    """Seconds from `now`, between 0 and a day; None if nothing readable is said.

    Of the budget headers, read only if `budgets`, those buckets count that are empty, or of which
    nobody says what is left; the one that is refilled last decides.
    """
    millis = _number(headers.get("retry-after-ms", ""))
    wait_s = millis / 1000 if millis is not None else _wait_s(headers.get("retry-after", ""), now)
    if wait_s is None and budgets:
        wait_s = max(_budget_waits_s(headers.items(), now), default=None)
    return None if wait_s is None else min(max(wait_s, 0.0), MAX_RETRY_AFTER_S)


def _budget_waits_s(headers: Iterable[tuple[str, str]], now: datetime) -> list[float]:
    resets: dict[str, float] = {}
    remaining: dict[str, float] = {}
    for raw_name, value in headers:
        name = raw_name.lower()
        if "ratelimit" not in name.replace("rate-limit", "ratelimit"):
            continue
        for word, found, read in (
            ("reset", resets, _wait_s(value, now)),
            ("remaining", remaining, _number(value)),
        ):
            if word in name and read is not None:
                found[name.replace(f"-{word}", "")] = read
    return [wait_s for bucket, wait_s in resets.items() if remaining.get(bucket, 0) <= 0]


def _wait_s(value: str, now: datetime) -> float | None:
    """A number of seconds, a moment of the epoch, a span such as `1m30.5s`, or a date."""
    value = value.strip()
    number = _number(value)
    if number is not None:
        if number >= _EPOCH_MS:
            return number / 1000 - now.timestamp()
        return number - now.timestamp() if number >= _EPOCH_S else number
    span = _SPAN.fullmatch(value)
    if span is not None and value:
        parts = [_number(part or "0") for part in span.groups()]
        return sum((n or 0.0) * unit_s for n, unit_s in zip(parts, _SPAN_UNITS_S, strict=True))
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            at = read(value)
        except (ValueError, TypeError):
            continue
        return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return None


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) else None
