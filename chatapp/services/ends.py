"""The ends that the application itself may write: of responses that no worker holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import relay
from chatapp import runtime
from relay import (
    NOTHING_USED,
    WALL_CLOCK,
    WORKER_LOST,
    Created,
    End,
    Snapshot,
    UsageCount,
    encode_event,
    ended,
    text_sha256,
    usage_at_end,
)

if TYPE_CHECKING:
    from datetime import datetime

    from chatapp.models import Response


def rfc3339(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def cancelled(reason: str) -> bytes:
    """For a queued response: no upstream was opened. The store numbers it, as the others here."""
    return _encoded(End.cancelled(reason))


def wall_clock() -> bytes:
    return _encoded(WALL_CLOCK)


def worker_lost(text: str, told: UsageCount | None, output_tokens: int) -> bytes:
    """With what the log says so far: its text, what a provider told of its use, our own count."""
    return _encoded(WORKER_LOST, text, usage_at_end(WORKER_LOST, told, output_tokens))


def asked(response: Response) -> Created:
    """Event 1, as far as the row knows it."""
    return Created(
        response_id=response.pk, model=response.model, created_at=rfc3339(response.created_at)
    )


def lost_log(response: Response) -> Snapshot:
    """What is left of an answer whose log nobody has: `created` and `ended` are all of it."""
    usage = usage_at_end(WORKER_LOST, None, 0)
    return relay.fold([asked(response), ended(WORKER_LOST, usage=usage, at=rfc3339(runtime.now()))])


def never_begun(response: Response, reason: str) -> Snapshot:
    """Of one that was removed while it waited for its turn in its chat."""
    end = ended(End.cancelled(reason), usage=NOTHING_USED, at=rfc3339(runtime.now()))
    return relay.fold([asked(response), end])


def _encoded(end: End, text: str = "", usage: UsageCount = NOTHING_USED) -> bytes:
    event = ended(end, text_sha256=text_sha256(text), usage=usage, at=rfc3339(runtime.now()))
    return encode_event(event, 0)
