"""The one writer of one response: what it was given, what it sent, what the store has of it.

A sent event is immutable; merging touches only unsent ones (PROTOCOL 3). All events are kept until
the ack, so that a log that was lost can be written again (PROTOCOL 10).
"""

from __future__ import annotations

import asyncio
import random
import time
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

from relay import events as ev
from relay.coalesce import Coalescer
from relay.generate.story import Timeline
from relay.metrics import COUNTERS
from relay.store import Appended, Batch, Claim, Kept, Lease, Reply

if TYPE_CHECKING:
    from relay.generate.commit import Committer
    from relay.metrics import Gaps

RETRY_S: Final = (0.05, 1.0)
"""First and longest pause before a batch of unknown outcome is sent again."""
MAX_UNSENT: Final = 4096
"""Events that may wait to be sent: a fast upstream is read no faster than the store takes it, so a
store that is away costs memory for a minute of tokens and not for a whole answer."""


_DELTAS: Final = (ev.TextDelta, ev.ReasoningDelta, ev.RefusalDelta, ev.ToolCallDelta)
"""What is counted where tokens do not come as ids: most providers send one a delta."""
_ANSWERS: Final = (ev.TextDelta, ev.RefusalDelta, ev.ToolCallStarted, ev.ToolCallCompleted)
"""What ends the reasoning before it: one of the last kind without a start comes as a whole."""


class Owner(Protocol):
    """Whoever a writer writes for. All calls are synchronous and must not raise."""

    def kept(self) -> Kept: ...
    def stop(self, reason: str) -> None: ...
    def fenced(self) -> None: ...
    def full(self) -> None: ...
    def shown(self) -> None:
        """The first content is in the log."""


class CountsIds(Protocol):
    """Whoever answers, asked when a batch is made and not with every chunk."""

    @property
    def counted_output_ids(self) -> int | None: ...


class Writer:
    """The one writer of one response: numbers events, keeps them until the ack, sends them in
    order.

    A sent event is immutable; merging touches only unsent ones. At most one append is in flight.
    """

    def __init__(self, committer: Committer, owner: Owner, lease: Lease, claim: Claim) -> None:
        self.lease = lease
        self.heard_s = time.monotonic()
        """When the store last confirmed this lease."""
        self.has_content = False
        self.first_token_s: float | None = None
        """By time.monotonic."""
        self.first_text_s: float | None = None
        """The first that is no reasoning."""
        self.timeline = Timeline(self.heard_s)
        self.usage: ev.UsageCount | None = None
        self.queued = False
        self.marked_s = 0.0
        """When the committer was told that something is unsent."""
        self.stop_reason = claim.stop_reason
        self.sent_content = claim.has_content
        self.content_bytes = sum(map(len, claim.events)) if claim.has_content else 0
        self.gaps: Gaps | None = None
        """Where times between tokens are counted, if at all."""
        self.lost = False
        """The store has forgotten this log, or the claim of it: nothing can be added to it."""
        self._committer = committer
        self._owner = owner
        self._unsent = Coalescer()
        self._sent = list(claim.events)
        """Every event from seq 1 on."""
        self._end: bytes | None = None
        self._acked_seq = len(claim.events)
        self._batch_content = False
        self._in_flight = False
        self._hash = sha256()
        self._deltas = claim.output_tokens
        self._answering: CountsIds | None = None
        self._refuses = False
        self._over = False
        self._failures = 0
        self._idle: asyncio.Future[None] | None = None

    @property
    def next_seq(self) -> int:
        """Of the next event to be sent; of `ended`, once that is known."""
        return len(self._sent) + 1

    @property
    def events(self) -> list[bytes]:
        """All that was sent, from seq 1 on."""
        return self._sent if self._end is None else [*self._sent, self._end]

    @property
    def ended(self) -> bool:
        return self._end is not None

    @property
    def acked_seq(self) -> int:
        """The tail of the log as the store last told it."""
        return self._acked_seq

    @property
    def output_tokens(self) -> int:
        """Our own count of what the upstream has made: ids where it sends them, else deltas."""
        ids = self._answering.counted_output_ids if self._answering is not None else None
        return self._deltas if ids is None else ids

    def count_ids_of(self, answering: CountsIds) -> None:
        """Take the number of token ids from there, if it has one."""
        self._answering = answering

    @property
    def text_sha256(self) -> str:
        return self._hash.hexdigest()

    def add(self, events: list[ev.Event]) -> None:
        """Take the upstream's next events. After `full` or `refuse` they are dropped."""
        if self._refuses or not events:
            return
        content = False
        for event in events:
            if isinstance(event, _DELTAS):
                self._deltas += 1
                content = True
            elif isinstance(event, ev.Usage):
                self.usage = event.count()
            else:
                content |= isinstance(event, ev.CONTENT)
        first = False
        if content and self.first_token_s is None:
            self.first_token_s = time.monotonic()
            first = True
        if self.first_text_s is None and any(isinstance(event, _ANSWERS) for event in events):
            self.first_text_s = time.monotonic()
        self._unsent.add(events)
        if not self._in_flight:
            self._committer.mark(self, urgent=first)

    @property
    def behind(self) -> bool:
        """So much is unsent that the upstream should not be read on before it is."""
        return len(self._unsent) > MAX_UNSENT

    def refuse(self) -> None:
        """Take no more: the generation is over, what was added before is still written."""
        self._refuses = True

    async def drained(self) -> None:
        """Wait until nothing is unsent and nothing in flight. Never raises StoreUnavailable."""
        while self._in_flight or self.queued or (self._unsent.pending and not self._over):
            if not self._in_flight and not self.queued:
                self._committer.mark(self)
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    def end_with(self, end: bytes) -> None:
        """What was sent is immutable: the first end stays."""
        self._end = self._end or end

    def closing_batch(self) -> Batch:
        """What a close sends: anything unacknowledged and the numbered `ended`."""
        from_seq = min(self._acked_seq, len(self._sent))
        return self._batch(from_seq + 1, self.events[from_seq:])

    def heard(self, reply: Reply) -> None:
        """The store confirmed the lease and told the tail, which may be behind what it was."""
        self.heard_s = time.monotonic()
        self.lost = False
        if reply.seq < self._acked_seq:
            self._batch_content |= self.sent_content
        self._acked_seq = reply.seq

    def renewed(self, reply: Reply, acked_seq: int) -> None:
        """A renewal told of a loss: mend it, though nothing may be left to add (PROTOCOL 10).

        `acked_seq` is the tail from before it was asked: later ones may have overtaken its answer.
        """
        if reply.outcome is Appended.LOST:
            self.lost = True
        elif reply.seq < acked_seq:
            self._acked_seq = reply.seq
            self._batch_content |= self.sent_content
        else:
            return
        if not self._in_flight:
            self._committer.mark(self)

    # -- called by the committer ----------------------------------------------------------------
    @property
    def needs_mending(self) -> bool:
        """What is due is not an append: the log is lost, or its end was lost."""
        return self.lost or self._end is not None

    def begin_mending(self) -> Kept | None:
        """None: too late, somebody else has the response."""
        self.queued = False
        if self._over:
            self._rest()
            return None
        self._in_flight = True
        return self._owner.kept()

    def next_batch(self) -> Batch | None:
        """The unacknowledged events again, else the next unsent ones. None when there are none."""
        self.queued = False
        if self._over:
            self._rest()
            return None
        events = self._sent[self._acked_seq :]
        if not events:
            if not self._unsent.pending:
                self._rest()
                return None
            taken = self._unsent.take(self.next_seq)
            events = taken.events
            self._batch_content = taken.has_content
            if taken.text:
                self._hash.update(taken.text.encode())
            self._sent += events
            now_s, tokens = time.monotonic(), self.output_tokens
            if taken.has_content:
                self.sent_content = True
                self.content_bytes += sum(map(len, events))
                if self.gaps is not None:
                    self.gaps.note(now_s, tokens)
            COUNTERS.events_appended += len(events)
            self.timeline.note(now_s, tokens)
        self._in_flight = True
        COUNTERS.appends += 1
        return self._batch(self._acked_seq + 1, events)

    def _batch(self, first_seq: int, events: list[bytes]) -> Batch:
        return Batch(self.lease, first_seq, events, self._batch_content, self.output_tokens)

    def settle(self, answer: Reply | Exception) -> None:
        self._in_flight = False
        if isinstance(answer, Exception):
            self._failures += 1
            pause_s = min(RETRY_S[1], RETRY_S[0] * 2 ** min(self._failures, 10))
            self.queued = True
            self._committer.mark_later(self, pause_s * random.uniform(0.5, 1.0))  # noqa: S311
            return
        self._failures = 0
        if answer.outcome is Appended.FENCED or (
            answer.outcome is Appended.CLOSED and not self._end
        ):
            self._lose()
            return
        if answer.outcome is Appended.LOST:
            self.lost = True
        elif answer.outcome is Appended.FULL:
            self.heard_s = time.monotonic()
            self._drop_unacked()
            self._owner.full()
        else:
            self.heard(answer)
            if self._batch_content and not self.has_content:
                self.has_content = True
                self._owner.shown()
        if answer.stop_reason:
            self.stop_reason = answer.stop_reason
            self._owner.stop(answer.stop_reason)
        if self.lost or self._unsent.pending or self._acked_seq < len(self.events):
            self._committer.mark(self)
        else:
            self._rest()

    def give_up(self) -> None:
        """Write nothing more: the lease is over, or somebody else has it."""
        self._over = self._refuses = True
        self._rest()

    def _lose(self) -> None:
        COUNTERS.fenced += 1
        self.give_up()
        self._owner.fenced()

    def _drop_unacked(self) -> None:
        del self._sent[self._acked_seq :]
        self._hash = sha256()
        for data in self._sent:
            event = ev.decode_event(data)
            if isinstance(event, ev.TextDelta):
                self._hash.update(event.delta.encode())
        self._unsent = Coalescer()
        self._batch_content = False
        self._refuses = True

    def _rest(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
