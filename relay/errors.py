"""What can go wrong, by who can act on it.

RelayError
├── StoreUnavailable     Redis cannot be reached: try again later
│   └── StoreRefused     it answers, but takes nothing new: nothing was written
├── RecordUnavailable    the application's database cannot be reached: try again later
├── Fenced               another writer owns this response now: abort, write nothing more
├── LogGone              the log is not (or no longer) in the store: ask the record
├── ViewersFull          max_viewers_per_response is reached: one more viewer is refused
├── ProtocolViolation    a caller of ours broke a rule that PROTOCOL.md states: a bug, never retried
└── UpstreamError        the provider or engine failed; carries the kind that viewers are told
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class ErrorKind(StrEnum):
    """Reasons of `failed`: the first group is the upstream's, the second ours."""

    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    INSUFFICIENT_QUOTA = "insufficient_quota"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    TRUNCATED = "truncated"
    EMPTY_RESPONSE = "empty_response"
    PROTOCOL = "protocol"
    CONTEXT_LENGTH = "context_length"
    INVALID_REQUEST = "invalid_request"
    CONTENT_FILTER = "content_filter"
    NOT_FOUND = "not_found"

    STALLED = "stalled"
    WALL_CLOCK = "wall_clock"
    INTERNAL = "internal"


RETRYABLE: Final = frozenset(
    {
        ErrorKind.RATE_LIMIT,
        ErrorKind.OVERLOADED,
        ErrorKind.SERVER_ERROR,
        ErrorKind.TIMEOUT,
        ErrorKind.CONNECTION,
        ErrorKind.TRUNCATED,
        ErrorKind.EMPTY_RESPONSE,
        ErrorKind.STALLED,
    }
)


class RelayError(Exception):
    """Base of everything that relay raises on purpose."""


class StoreUnavailable(RelayError):
    """The store did not answer, or had no memory left. Nothing is known to be written."""


class StoreRefused(StoreUnavailable):
    """The store answers and takes nothing new: out of memory, a failed save, a replica now.

    Nothing was written. What ends answers may still be taken (PROTOCOL 3.6).
    """


class RecordUnavailable(RelayError):
    """The application could not read or write its record of a response."""


class Fenced(RelayError):
    """This writer's epoch or lease is over (PROTOCOL 2). It must write nothing more."""


class LogGone(RelayError):
    """The response has no log in the store: expired after its end, retired, or not made yet."""


class ProtocolViolation(RelayError):
    """A call that PROTOCOL.md forbids, such as an append that skips a number."""


class UpstreamError(RelayError):
    """The upstream failed before or during its answer.

    `kind` is one of the error kinds of design §3; `message` is safe to show (secrets removed);
    `retry_after_s` is what the upstream asked for, in seconds, or None.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        retryable: bool | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retryable = kind in RETRYABLE if retryable is None else retryable
        self.retry_after_s = retry_after_s


class ViewersFull(RelayError):
    """As many viewers as `max_viewers_per_response` allows follow this response already."""
