"""What the store keeps of one response and one person, as one immutable value.

Losing the tail of the store's history is then going back some values. Times are steps of the
model's clock; only their order and the sizes below matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

LEASE: Final = 40
RENEW: Final = 12
HEARTBEAT: Final = 10
HEARTBEAT_LATE: Final = 5
"""A heartbeat arrives at most so much after it was sent, perhaps after a leave."""
GRACE: Final = LEASE + 1
"""After a fail-over: by then the leases that the store may have forgotten are over."""
PRESENCE_GRACE: Final = 2 * HEARTBEAT
LOG_LATE: Final = 60
"""A row without a log for longer than this is the sweep's. Longer than a lease: writers first."""
RESERVED_FOR: Final = 150
BEFORE: Final = 100
"""Tokens that the person had used before this response; so it is in the records."""
LONG_AGO: Final = -10_000


class State(StrEnum):
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    ENDED = "ended"


class Entry(NamedTuple):
    """One event of the log, with the epoch of its writer."""

    epoch: int
    kind: str
    """created, started, text or ended"""
    data: str = ""
    """of text the token, `<run>.<n>`; of ended the status"""


class Job(NamedTuple):
    number: int
    owner: str
    """worker that it was handed to; empty: nobody yet"""
    touched: int


class Patience(NamedTuple):
    cancel_after: int
    leave_after: int


class Kept(NamedTuple):
    state: State | None = None
    """None: there is no log"""
    epoch: int = 0
    lease_until: int = 0
    stop: bool = False
    content: bool = False
    log: tuple[Entry, ...] = ()
    jobs: tuple[Job, ...] = ()
    viewers: Mapping[str, int] = {}
    """member → time until which it counts"""
    reserved: Mapping[str, int] = {}
    """who reserved → time when it lapses"""
    used: Mapping[str, int] = {}
    """what was counted, by response"""
    total: int = 0
    whole_in: int = -1
    """the server's run in which the counters were complete; in any other a refill is due"""

    @property
    def ended(self) -> str | None:
        """The status of the end, None while there is none."""
        return self.log[-1].data if self.log and self.log[-1].kind == "ended" else None


EMPTY: Final = Kept()


def text_of(log: tuple[Entry, ...]) -> tuple[str, ...]:
    return tuple(entry.data for entry in log if entry.kind == "text")
