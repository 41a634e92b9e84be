"""How a response ends: decided by pure functions, written once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from relay import events as ev
from relay.errors import RETRYABLE, ErrorKind
from relay.events import Ended
from relay.states import FinishReason, Interruption, Shortfall, Status, StopReason

if TYPE_CHECKING:
    from relay.errors import UpstreamError
    from relay.store import Claim

EMPTY_SHA256: Final = sha256(b"").hexdigest()
NOTHING_USED: Final = ev.UsageCount(input_tokens=0, output_tokens=0, source="counted")
"""Nobody was asked, or whoever was asked failed before it had said anything."""


@dataclass(frozen=True, slots=True)
class End:
    """What is known of an end before it is numbered."""

    status: Status
    reason: str | None = None
    finish_reason: str | None = None
    error: ev.Error | None = None

    @classmethod
    def cancelled(cls, reason: str) -> End:
        return cls(Status.CANCELLED, StopReason(reason).value)

    @classmethod
    def interrupted(cls, reason: Interruption) -> End:
        return cls(Status.INTERRUPTED, reason.value)

    @classmethod
    def failed(cls, kind: ErrorKind, message: str, *, retryable: bool | None = None) -> End:
        error = ev.Error(
            code=kind.value,
            message=message,
            retryable=kind in RETRYABLE if retryable is None else retryable,
        )
        return cls(Status.FAILED, kind.value, error=error)

    @classmethod
    def of_upstream_error(cls, error: UpstreamError) -> End:
        return cls.failed(error.kind, error.message, retryable=error.retryable)

    @classmethod
    def finished(cls, finish_reason: str | None) -> End:
        """The upstream said that it is done, and why (design §3)."""
        if finish_reason == FinishReason.LENGTH:
            return cls(Status.INCOMPLETE, Shortfall.MAX_TOKENS.value, finish_reason)
        if finish_reason == FinishReason.CONTENT_FILTER:
            return cls(Status.INCOMPLETE, Shortfall.CONTENT_FILTER.value, finish_reason)
        return cls(Status.COMPLETED, None, finish_reason)


WALL_CLOCK: Final = End.failed(
    ErrorKind.WALL_CLOCK, "The answer took longer than this server allows; it was stopped."
)
LOG_LIMIT: Final = End(Status.INCOMPLETE, Shortfall.LOG_LIMIT.value)
WORKER_LOST: Final = End.interrupted(Interruption.WORKER_LOST)
SHUTDOWN: Final = End.interrupted(Interruption.SHUTDOWN)
CRASHED: Final = End.failed(
    ErrorKind.INTERNAL, "The server made a mistake while it wrote this answer."
)
TOO_MANY_ATTEMPTS: Final = End.failed(
    ErrorKind.INTERNAL, "The answer was started several times and its worker died each time."
)


def end_of_take_over(claim: Claim) -> End:
    """How a claimed response ends that will not be run (PROTOCOL 6).

    `cancelled` is only for a response whose upstream was never opened: whoever holds an open one
    may be paused, not dead, so a taker that finds `started` writes `interrupted`.
    """
    if claim.has_content:
        return WORKER_LOST
    if claim.attempt == 0:
        if claim.stop_reason:
            return End.cancelled(claim.stop_reason)
        if claim.abandoned:
            return End.cancelled(StopReason.ABANDONED)
    elif claim.stop_reason or claim.abandoned:
        return WORKER_LOST
    return WALL_CLOCK if claim.expired else TOO_MANY_ATTEMPTS


def usage_at_end(
    end: End, provider: ev.UsageCount | None, output_tokens: int, *, asked: bool = True
) -> ev.UsageCount:
    """What an answer used: the provider's word if it came, else our own count of its output.

    Of the prompt only the provider can tell, so it stays open, unless nobody was `asked`, and but
    for a failure before the first token, which is billed by nobody.
    """
    if provider is not None:
        return provider
    if not output_tokens and (not asked or end.status is Status.FAILED):
        return NOTHING_USED
    return ev.UsageCount(output_tokens=output_tokens, source="counted")


def ended(
    end: End,
    *,
    epoch: int = 0,
    text_sha256: str = EMPTY_SHA256,
    usage: ev.UsageCount | None = None,
    first_token_at: str | None = None,
    first_text_at: str | None = None,
    at: str | None = None,
) -> Ended:
    """The terminal event, not numbered yet."""
    return Ended(
        status=end.status.value,
        reason=end.reason,
        epoch=epoch,
        finish_reason=end.finish_reason,
        error=end.error,
        usage=usage,
        text_sha256=text_sha256,
        first_token_at=first_token_at,
        first_text_at=first_text_at,
        at=at,
    )


def now_rfc3339() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rfc3339(time_s: float) -> str:
    at = datetime.fromtimestamp(time_s, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
