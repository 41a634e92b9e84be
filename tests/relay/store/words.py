"""Short words for what the contract tests say again and again."""

from __future__ import annotations

from relay import events as ev
from relay.store import Batch, Claim, Lease

AT = "2026-01-02T03:04:05Z"
NOTICE = ev.Notice(code="retrying", message="again")
USAGE = ev.Usage(input_tokens=3, output_tokens=5)


def text(delta: str) -> ev.TextDelta:
    return ev.TextDelta(delta=delta)


def texts(count: int) -> list[ev.TextDelta]:
    return [text(f"word {n} ") for n in range(count)]


def an_end(status: str = "completed", reason: str | None = None) -> ev.Ended:
    return ev.Ended(
        status=status,
        reason=reason,
        epoch=0,
        finish_reason="stop" if reason is None else None,
        error=None,
        usage=None,
        text_sha256="0" * 64,
    )


ENDED = an_end()
# As `cancel` and `expire` take them: the store puts number and epoch in.
CANCELLED = ev.encode_event(an_end("cancelled", "user"), 0)
QUEUED_OVER = ev.encode_event(an_end("failed", "wall_clock"), 0)
RUNNING_OVER = ev.encode_event(an_end("interrupted", "worker_lost"), 0)


def batch(lease: Lease, first_seq: int, *events: ev.Event) -> Batch:
    lines = [ev.encode_event(event, first_seq + n) for n, event in enumerate(events)]
    has_content = any(isinstance(event, ev.CONTENT) for event in events)
    return Batch(lease, first_seq, lines, has_content)


def leased(claim: Claim) -> Lease:
    assert claim.lease is not None, claim
    return claim.lease
