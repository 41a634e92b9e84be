"""What the scripts answer, read into the store's own words."""

from __future__ import annotations

from typing import Any, Final

from redis.exceptions import MasterDownError, OutOfMemoryError, ReadOnlyError, ResponseError

from relay.errors import StoreRefused, StoreUnavailable
from relay.store.protocol import Appended, Claim, Claimed, Job, Lease, Page, Reply, Tail
from relay.store.vitals import Pulse

_REFUSALS: Final = (OutOfMemoryError, ReadOnlyError, MasterDownError)
_REFUSING: Final = ("MISCONF", "NOREPLICAS")
"""A save or an append-only file failed; too few replicas. redis-py has no classes for these."""


def read_reply(lease: Lease, reply: list[Any]) -> Reply:
    """Of append, close, renew and restore. What was confirmed prolongs the lease."""
    outcome = Appended(reply[0].decode())
    if outcome is Appended.FENCED or outcome is Appended.LOST:
        return Reply(outcome)
    lease.lease_until_ms = reply[2] or lease.lease_until_ms
    return Reply(outcome, reply[1], reply[3].decode() or None)


def read_refusal(error: ResponseError) -> Reply | Exception:
    """Of an append."""
    if isinstance(error, OutOfMemoryError):
        return Reply(Appended.FULL)
    return failure_of("append", error)


def failure_of(call: str, error: ResponseError) -> StoreUnavailable:
    """A refusal of whatever writes is told from a refusal of this one command."""
    refused = isinstance(error, _REFUSALS) or str(error).startswith(_REFUSING)
    return (StoreRefused if refused else StoreUnavailable)(f"{call}: {error}")


def read_claim(job: Job, worker: str, reply: list[Any]) -> Claim:
    outcome = Claimed(reply[0].decode())
    if outcome in (Claimed.GONE, Claimed.BUSY):
        return Claim(outcome=outcome)
    log = reply[10] if outcome is Claimed.RUN else []
    return Claim(
        outcome=outcome,
        lease=Lease(job, worker, epoch=reply[1], lease_until_ms=reply[2]),
        seq=reply[3],
        attempt=reply[4],
        has_content=bool(reply[5]),
        stop_reason=reply[6].decode() or None,
        abandoned=bool(reply[7]),
        expired=bool(reply[8]),
        output_tokens=reply[9],
        events=log[1::2],
        epochs=[int(epoch) for epoch in log[::2]],
    )


def read_claims(reply: bytes) -> list[tuple[int, str]]:
    """Lines of '<epoch> <worker>'."""
    pairs = [line.split(" ", 1) for line in reply.decode().splitlines()]
    return [(int(epoch), worker) for epoch, worker in pairs]


def read_pulse(reply: list[Any] | None) -> Pulse | None:
    if not reply:
        return None
    return Pulse(int(reply[0]), reply[1], read_claims(reply[2]))


def read_page(after: int, reply: list[Any]) -> Page:
    valid, tail_epoch, tail_seq, ended, runs, joined = reply
    epochs: list[int] = []
    for i in range(0, len(runs), 2):
        epochs += [int(runs[i])] * int(runs[i + 1])
    return Page(
        first_seq=after + 1,
        events=joined.split(b"\n") if joined else [],
        epochs=epochs,
        tail=Tail(tail_epoch, tail_seq, bool(ended)),
        valid=bool(valid),
    )
