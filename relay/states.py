"""The words for how a response stands and why it ended; the same in log, record, API and page."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Status(StrEnum):
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


TERMINAL: Final = frozenset(
    {
        Status.COMPLETED,
        Status.INCOMPLETE,
        Status.FAILED,
        Status.CANCELLED,
        Status.INTERRUPTED,
    }
)


class FinishReason(StrEnum):
    """Why the model itself stopped, in one vocabulary for all dialects."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    PAUSE = "pause"
    OTHER = "other"


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


class StopReason(StrEnum):
    """Reasons of `cancelled`: who wished it."""

    USER = "user"
    ADMIN = "admin"
    ABANDONED = "abandoned"
    QUOTA = "quota"
    SUPERSEDED = "superseded"


class Interruption(StrEnum):
    """Reasons of `interrupted`."""

    WORKER_LOST = "worker_lost"
    SHUTDOWN = "shutdown"


class Shortfall(StrEnum):
    """Reasons of `incomplete`."""

    MAX_TOKENS = "max_tokens"
    CONTENT_FILTER = "content_filter"
    LOG_LIMIT = "log_limit"
