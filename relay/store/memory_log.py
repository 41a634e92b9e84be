"""One response as the memory store keeps it: the rules of the Lua scripts, in Python.

Synchronous, and told the time instead of asking for it: between two awaits every method is as
atomic as a script. Who is told of what was added is the store's business (relay/store/memory.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from relay.errors import ProtocolViolation
from relay.events import Created, Ended, Event, Started, decode_event, encode_event
from relay.store.memory_presence import CREATOR, RESTORED, Presence
from relay.store.protocol import (
    Appended,
    Batch,
    Claim,
    Claimed,
    Job,
    Kept,
    Lease,
    Page,
    Reply,
    Tail,
)
from relay.store.vitals import Pulse

if TYPE_CHECKING:
    from collections.abc import Callable

    from relay.config import RelayConfig
    from relay.request import GenerationRequest

    GraceLeft = Callable[["MemoryLog", float], float]
    """How many ms are left of a grace of so many seconds after a fail-over (PROTOCOL 10)."""

MAX_CLAIMS: Final = 8
"""As in claim.lua."""
UNFINISHED_S: Final = 24 * 3600.0
"""An unacknowledged log is kept this long beyond total_s: the database may be down (PROTOCOL 8)."""


class Entry(NamedTuple):
    epoch: int
    data: bytes


@dataclass(slots=True, kw_only=True)
class MemoryLog:
    """Log, meta and viewers of one response."""

    config: RelayConfig
    request: GenerationRequest
    upstream_model: str
    presence: Presence
    created_ms: float
    deadline_ms: float
    """total_s after `created`."""
    expires_ms: float
    entries: list[Entry] = field(default_factory=list)
    epoch: int = 0
    lease_until_ms: int = 0
    queued: bool = True
    """Nobody has claimed it, or whoever did has given it back: no upstream is open."""
    ended: bool = False
    attempts: int = 0
    has_content: bool = False
    content_bytes: int = 0
    output_tokens: int = 0
    """As its last writer counted them."""
    stop_reason: str | None = None
    acknowledged: bool = False
    delivered: int = 0
    claims: list[tuple[int, str]] = field(default_factory=list)
    """(epoch, worker), the first `MAX_CLAIMS`."""

    @classmethod
    def create(
        cls,
        request: GenerationRequest,
        upstream_model: str,
        config: RelayConfig,
        now_ms: int,
        *,
        early: Presence,
        again: bool,
    ) -> MemoryLog:
        """`early`: who was noted before; `again`: it was missing (PROTOCOL 7.5, 7.6)."""
        presence = Presence(request.on_disconnect, heartbeat_s=config.heartbeat_s).count(early)
        created_ms = datetime.fromisoformat(request.created_at).timestamp() * 1000
        log = cls(
            config=config,
            request=request,
            upstream_model=upstream_model,
            presence=presence.wait_for(RESTORED if again else CREATOR, now_ms),
            created_ms=created_ms,
            deadline_ms=created_ms + _ms(config.total_s),
            expires_ms=now_ms + _ms(config.total_s + UNFINISHED_S),
        )
        log._add(
            Created(
                response_id=request.response_id,
                model=request.model,
                created_at=request.created_at,
            )
        )
        return log

    @classmethod
    def restore(
        cls,
        kept: Kept,
        before: MemoryLog | None,
        config: RelayConfig,
        now_ms: int,
        *,
        early: Presence,
    ) -> MemoryLog:
        """As its writer has it (PROTOCOL 10); what else is known of it `before` stays."""
        request, model = kept.request, kept.upstream_model
        log = cls.create(request, model, config, now_ms, early=early, again=True)
        if before is not None:
            log.presence = before.presence
        epochs = [*kept.epochs, *[kept.lease.epoch] * (len(kept.events) - len(kept.epochs))]
        log.entries = [Entry(e, bytes(d)) for e, d in zip(epochs, kept.events, strict=True)]
        log.epoch, log.queued, log.ended = kept.lease.epoch, False, kept.ended
        log.attempts, log.has_content = kept.attempt, kept.has_content
        log.content_bytes, log.output_tokens = kept.content_bytes, kept.output_tokens
        log.stop_reason = (before and before.stop_reason) or kept.stop_reason
        log.delivered = before.delivered if before is not None else 0
        log.claims = before.claims if before is not None else []
        log._prolong(kept.lease, now_ms)
        return log

    @property
    def seq(self) -> int:
        return len(self.entries)

    @property
    def tail(self) -> Tail:
        return Tail(epoch=self.entries[-1].epoch, seq=self.seq, ended=self.ended)

    def busy_until_ms(self, now_ms: int, grace_left: GraceLeft) -> float:
        return max(self.lease_until_ms, now_ms + grace_left(self, self.config.lease_s))

    def abandoned(self, now_ms: int, grace_left: GraceLeft) -> bool:
        """PROTOCOL 7.4, 10.7"""
        heartbeats_s = 2 * self.config.heartbeat_s
        return self.presence.abandoned(now_ms) and not grace_left(self, heartbeats_s)

    def claim(self, job: Job, worker: str, at: str, now_ms: int, grace_left: GraceLeft) -> Claim:
        """PROTOCOL 2. An ended log is never BUSY: to fold and finalize twice is harmless."""
        if self.ended:
            lease = Lease(job, worker, self.epoch, self._lease_from(now_ms))
            return self._claimed(Claimed.CLOSED, lease)
        if self.busy_until_ms(now_ms, grace_left) > now_ms:
            return Claim(outcome=Claimed.BUSY)
        abandoned, expired = self.abandoned(now_ms, grace_left), now_ms > self.deadline_ms
        self._raise_epoch(now_ms)
        self.lease_until_ms = self._lease_from(now_ms)
        if len(self.claims) < MAX_CLAIMS:
            self.claims.append((self.epoch, worker))
        lease = Lease(job, worker, self.epoch, self.lease_until_ms)
        refused = self.has_content or self.stop_reason is not None or abandoned or expired
        if refused or self.attempts >= self.config.max_attempts:
            return self._claimed(Claimed.TAKE_OVER, lease, abandoned=abandoned, expired=expired)
        self.attempts += 1
        self.output_tokens = 0
        self._add(
            Started(
                upstream_model=self.upstream_model,
                attempt=self.attempts,
                epoch=self.epoch,
                at=at,
            )
        )
        return self._claimed(Claimed.RUN, lease)

    def pulse(self, now_ms: int) -> Pulse:
        return Pulse(self.output_tokens, self.presence.count_at(now_ms), list(self.claims))

    def write(self, batch: Batch, now_ms: int, *, closes: bool) -> Reply:
        """Append, or append and close. Judged per event, so safe to repeat (PROTOCOL 3)."""
        if refusal := self._refuses(batch.lease, now_ms):
            return refusal
        if self.ended:
            return Reply(Appended.CLOSED, self.seq)
        self._prolong(batch.lease, now_ms)
        if batch.first_seq > self.seq + 1:
            return Reply(Appended.GAP, self.seq, self.stop_reason)
        fresh = batch.events[self.seq + 1 - batch.first_seq :]
        if batch.has_content:
            content_bytes = self.content_bytes + sum(len(data) for data in fresh)
            if not closes and content_bytes > self.config.max_log_bytes:
                return Reply(Appended.FULL, self.seq, self.stop_reason)
            self.content_bytes = content_bytes
            self.has_content = True
        self.output_tokens = batch.output_tokens
        self.entries += [Entry(self.epoch, bytes(data)) for data in fresh]
        self.ended = closes
        return Reply(Appended.OK, self.seq, self.stop_reason)

    def renew(self, lease: Lease, now_ms: int, grace_left: GraceLeft) -> Reply:
        if refusal := self._refuses(lease, now_ms):
            return refusal
        self._prolong(lease, now_ms)
        if not self.acknowledged:
            self.expires_ms = now_ms + _ms(self.config.total_s + UNFINISHED_S)
        if self.ended:
            return Reply(Appended.CLOSED, self.seq)
        abandoned = self.abandoned(now_ms, grace_left)
        return Reply(Appended.OK, self.seq, self.stop_reason, abandoned)

    def release(self, lease: Lease, now_ms: int) -> bool:
        """Back to queued, without a lease. Refused where only an end may follow."""
        if self.ended or self._refuses(lease, now_ms):
            return False
        if self.has_content or self.stop_reason is not None:
            return False
        self.queued = True
        self.epoch += 1  # a write of the old holder that is still on its way is refused
        self.lease_until_ms = 0
        return True

    def end(self, ended: bytes, now_ms: int) -> None:
        """End on the spot, under a new epoch: whoever held an older one writes nothing more."""
        event = decode_event(ended)
        if not isinstance(event, Ended):
            raise ProtocolViolation("only `ended` ends a log")
        self._raise_epoch(now_ms)
        self._add(msgspec.structs.replace(event, epoch=self.epoch))
        self.ended = True

    def acknowledge(self, now_ms: int) -> None:
        self.acknowledged = True
        self.expires_ms = now_ms + _ms(self.config.retention_s)

    def read(self, after: int, epoch: int | None, max_bytes: int) -> Page:
        if not self._holds_cursor(after, epoch):
            return Page(after + 1, [], [], self.tail, valid=False)
        page: list[Entry] = []
        size = 0
        for entry in self.entries[after:]:
            size += len(entry.data)
            if page and size > max_bytes:
                break
            page.append(entry)
        return Page(after + 1, [e.data for e in page], [e.epoch for e in page], self.tail)

    def _holds_cursor(self, after: int, epoch: int | None) -> bool:
        if after == 0:
            return True  # nothing was seen yet, which is true of every log
        return after <= self.seq and epoch in (None, self.entries[after - 1].epoch)

    def _refuses(self, lease: Lease, now_ms: int) -> Reply | None:
        if lease.epoch != self.epoch:
            return stranger(lease, self.epoch, now_ms)
        # After the end there is nothing left to write, so a late writer may hear of the end.
        if not self.ended and now_ms > lease.lease_until_ms:
            return Reply(Appended.FENCED)
        return None

    def _claimed(
        self, outcome: Claimed, lease: Lease, *, abandoned: bool = False, expired: bool = False
    ) -> Claim:
        log = self.entries if outcome is Claimed.RUN else ()
        return Claim(
            outcome=outcome,
            lease=lease,
            seq=self.seq,
            attempt=self.attempts,
            has_content=self.has_content,
            stop_reason=self.stop_reason,
            abandoned=abandoned,
            expired=expired,
            output_tokens=self.output_tokens,
            events=[entry.data for entry in log],
            epochs=[entry.epoch for entry in log],
        )

    def _raise_epoch(self, now_ms: int) -> None:
        self.epoch = max(self.epoch + 1, now_ms)
        self.queued = False

    def _lease_from(self, now_ms: int) -> int:
        return now_ms + round(_ms(self.config.lease_s))

    def _prolong(self, lease: Lease, now_ms: int) -> None:
        self.lease_until_ms = lease.lease_until_ms = self._lease_from(now_ms)

    def _add(self, event: Event) -> None:
        self.entries.append(Entry(self.epoch, encode_event(event, self.seq + 1)))


def stranger(lease: Lease, known_epoch: int, now_ms: int) -> Reply:
    """What a writer is told whose epoch is not the log's, or that has no log (PROTOCOL 2, 10)."""
    if now_ms > lease.lease_until_ms or known_epoch > lease.epoch:
        return Reply(Appended.FENCED)
    return Reply(Appended.LOST)


def _ms(seconds: float) -> float:
    return seconds * 1000
