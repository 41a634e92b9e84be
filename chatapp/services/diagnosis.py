"""What a row and the tail of its log, side by side, call for. Pure; the clock is handed in."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Protocol

from relay import Status

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

LOG_LATE: Final = timedelta(seconds=30)
"""A row this old without a log was left alone by whoever wrote it (design §4)."""
LOG_LOST: Final = timedelta(seconds=30)
"""An answer that had started and whose log stays away this long has nobody who could restore it:
three default leases."""
RECORD_LATE: Final = timedelta(seconds=10)
"""A log that ended this long ago and has no final row: its worker is not coming back for it."""
CLOCK_GRACE: Final = timedelta(seconds=5)
"""A live worker ends its own response when its time is over; the sweep comes after it."""


class Repair(Enum):
    REMAKE = auto()
    """Hand the request to the store again."""
    GIVE_UP = auto()
    """The log is lost and so is its writer: interrupted/worker_lost."""
    RECORD = auto()
    """Fold the ended log into the row."""
    STOP = auto()
    """A stop was wished: send it again."""
    EXPIRE = auto()
    """Its time is over."""
    ASK_VIEWERS = auto()
    """Queued, and to be stopped if everybody has left."""
    MARK_STARTED = auto()


class Tail(Protocol):
    """The end of a log, as the store tells it."""

    @property
    def seq(self) -> int: ...
    @property
    def ended(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Row:
    """What the sweep needs to know of a response that is not final."""

    pk: str
    status: str
    created_at: datetime
    stop_wished: bool
    has_patience: bool
    """It has a policy for the absence of viewers."""
    total_s: float
    owed: bool = False
    """Whoever wrote it could not make its log, and says so: there is nothing to wait for."""


@dataclass(slots=True)
class Sightings:
    """Since when this process has seen what: one look is not enough to call something lost."""

    logless: dict[str, datetime] = field(default_factory=dict)
    ended: dict[str, datetime] = field(default_factory=dict)

    def keep_only(self, response_ids: AbstractSet[str]) -> None:
        for seen in (self.logless, self.ended):
            for gone in seen.keys() - response_ids:
                del seen[gone]


def diagnose(
    row: Row, tail: Tail | None, now: datetime, seen: Sightings, *, first: bool
) -> list[Repair]:
    """What to do about one row, in order. `first`: this process has not swept before."""
    if tail is None:
        return _without_log(row, now, seen, first=first)
    seen.logless.pop(row.pk, None)
    if tail.ended:
        since = seen.ended.setdefault(row.pk, now)
        return [Repair.RECORD] if now - since >= RECORD_LATE else []
    repairs = []
    started = tail.seq > 1
    if started and row.status == Status.QUEUED:
        repairs.append(Repair.MARK_STARTED)
    if row.stop_wished:
        repairs.append(Repair.STOP)
    elif now >= row.created_at + timedelta(seconds=row.total_s) + CLOCK_GRACE:
        repairs.append(Repair.EXPIRE)
    elif row.has_patience and not started:
        repairs.append(Repair.ASK_VIEWERS)
    return repairs


def _without_log(row: Row, now: datetime, seen: Sightings, *, first: bool) -> list[Repair]:
    since = seen.logless.setdefault(row.pk, now)
    if row.status == Status.IN_PROGRESS:
        # It was seen running: asking again could show a person a second answer (law 11).
        return [Repair.GIVE_UP] if now - since >= LOG_LOST else []
    if now >= row.created_at + timedelta(seconds=row.total_s) + 2 * LOG_LATE:
        # Its log was to be made again and again and never came to be: it must end all the same.
        return [Repair.GIVE_UP]
    if not first and not row.owed and now - row.created_at < LOG_LATE:
        return []
    return [Repair.REMAKE, Repair.STOP] if row.stop_wished else [Repair.REMAKE]
