"""What a person may have running and use up in a day: reserve, settle, release (PROTOCOL 11).

A reservation and its settling are keyed by the response id, so repeating either changes nothing. A
day's tokens are kept as one field per response beside their sum: settling sets the field if it is
missing and adds to the sum only then, and so does a refill from the records. So the two may come in
any order and any number of times, and each response counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT_AFTER: Final = timedelta(days=2)
"""How long a day's counts stay after its end: what was asked for in its last minute may settle late
(its wall clock, and a database that is away for a day)."""


class Reserved(StrEnum):
    GRANTED = "granted"
    HELD = "held"
    """It was reserved before: a repeat."""
    SETTLED = "settled"
    """It has ended and was counted: a repeat."""
    RUNNING = "running"
    """Refused: enough are running."""
    TOKENS = "tokens"
    """Refused: the day's tokens are used up, or set aside for those that run."""
    UNKNOWN = "unknown"
    """The counters are missing, or were made whole in another run of the server, which may have
    lost what was settled since: refill them, then ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    response_id: str
    day: str
    """The day that its tokens count for (`quota_day`): the one on which it was asked for."""
    until_ms: int
    """When it lapses if nobody settles or releases it."""
    hold: int = 0
    """Output tokens set aside while it runs; 0 where no bound is known."""
    max_running: int = 0
    """0 = no limit."""
    max_tokens: int = 0
    """Output tokens per day; 0 = no limit. One more is granted while a token is left, so a day ends
    over its limit by the last answer at most."""


class Grant(NamedTuple):
    outcome: Reserved
    used: int = 0
    """Tokens settled for that day, where the outcome is GRANTED, RUNNING or TOKENS."""
    running: tuple[str, ...] = ()
    """Response ids that hold reservations, of a refusal; at most 200."""
    run: str = ""
    """The server's run, where the outcome is UNKNOWN: records that are read from now on bring all
    that was settled in earlier ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refill:
    """What the records say of one person and day."""

    run: str
    """Of the grant for which the records were read (PROTOCOL 11.6)."""
    day: str
    ended: Sequence[tuple[str, int]] = ()
    """Response id and output tokens of what was asked for on that day and is final."""
    running: Sequence[tuple[str, int, int]] = ()
    """Response id, until_ms and tokens to hold of what is not final, of any day."""


class Quotas(Protocol):
    """Every call raises StoreUnavailable and is safe to repeat. `user` is an id, not a name."""

    async def reserve(self, user: str, wanted: Reservation) -> Grant:
        """Take a place, if both limits leave one; places that have lapsed are free."""

    async def settle(self, user: str, response_id: str, *, day: str, tokens: int) -> bool:
        """Count what an ended response used and free its place. False if it was counted before."""

    async def release(self, user: str, response_ids: Sequence[str]) -> None:
        """Free the places of what never ran; nothing is counted."""

    async def refill(self, user: str, found: Refill) -> None:
        """Make counters whole again from the records, whatever is there already."""


def quota_day(moment: datetime) -> str:
    """The UTC day that an aware `moment` belongs to, as `2026-01-31`."""
    return moment.astimezone(UTC).date().isoformat()


def day_start(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def day_end(day: str) -> datetime:
    """When a new day's tokens begin."""
    return day_start(day) + timedelta(days=1)


def day_before(day: str) -> str:
    return quota_day(day_start(day) - timedelta(days=1))


def kept_until_ms(day: str) -> int:
    return round((day_end(day) + KEPT_AFTER).timestamp() * 1000)
