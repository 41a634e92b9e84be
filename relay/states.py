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


def end_status(word: str) -> Status:
    """The status of an end. One that a later version has made up is `incomplete` to this one: the
    answer has ended, and nobody here can say that it is whole (PROTOCOL 5.6)."""
    return Status(word) if word in TERMINAL else Status.INCOMPLETE


class FinishReason(StrEnum):
    """Why the model itself stopped, in one vocabulary for all dialects."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    PAUSE = "pause"
    OTHER = "other"


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
