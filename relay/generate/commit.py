"""Group commit: what arrives while an append is on its way is merged into the next (PROTOCOL 3).

There is no flush timer in a quiet process: the first event goes at once. One pipeline is in flight
per process, and at its return every response with unsent events is in the next one, so a busy
process sends fewer, larger appends by itself. Only when the event loop's thread is nearly used up
does a window open, up to `flush_max_ms`, that trades latency nobody would get anyway for CPU.
"""

from __future__ import annotations

import asyncio
import random
import time
from hashlib import sha256
from typing import Final, Protocol

from relay import events as ev
from relay.coalesce import Coalescer
from relay.errors import Fenced
from relay.metrics import COUNTERS
from relay.store import Appended, Batch, Lease, Reply, Store

BUSY_FROM: Final = 0.3
BUSY_FULL: Final = 0.55
"""Shares of one core this thread used of late between which the window opens. Where store and
kernel share its core the thread rarely gets past 0.8."""
GAUGE_S: Final = 0.2
URGENT_SHARE: Final = 0.3
RETRY_S: Final = (0.05, 1.0)
"""First and longest pause before a batch of unknown outcome is sent again."""


MAX_UNSENT: Final = 4096
"""Events that may wait to be sent: a fast upstream is read no faster than the store takes it, so a
store that is away costs memory for a minute of tokens and not for a whole answer."""


_DELTAS: Final = (ev.TextDelta, ev.ReasoningDelta, ev.RefusalDelta, ev.ToolCallDelta)
"""What is counted where tokens do not come as ids: most providers send one a delta."""


class Owner(Protocol):
    """The generation that a writer writes for. All calls are synchronous and must not raise."""

    def stop(self, reason: str) -> None: ...
    def fenced(self) -> None: ...
    def full(self) -> None: ...


class CountsIds(Protocol):
    """Whoever answers, asked when a batch is made and not with every chunk."""

    @property
    def counted_output_ids(self) -> int | None: ...


class Writer:
    """The one writer of one response: numbers events, keeps them until the ack, sends them in
    order.

    A sent event is immutable; merging touches only unsent ones. At most one append is in flight.
    """

    def __init__(self, committer: Committer, owner: Owner, lease: Lease, next_seq: int) -> None:
        self.lease = lease
        self.heard_s = time.monotonic()
        """When the store last confirmed this lease."""
        self.has_content = False
        self.first_token_at_s: float | None = None
        self.usage: ev.UsageCount | None = None
        self.queued = False
        self._committer = committer
        self._owner = owner
        self._unsent = Coalescer()
        self._first_seq = next_seq
        self._sent: list[bytes] = []
        self._acked_seq = next_seq - 1
        self._batch_content = False
        self._in_flight = False
        self._hash = sha256()
        self._hash_before = self._hash
        self._deltas = 0
        self._answering: CountsIds | None = None
        self._refuses = False
        self._lost = False
        self._failures = 0
        self._idle: asyncio.Future[None] | None = None

    @property
    def next_seq(self) -> int:
        return self._first_seq + len(self._sent)

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
        if content and self.first_token_at_s is None:
            self.first_token_at_s = time.time()
            first = True
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
        while self._in_flight or self.queued or (self._unsent.pending and not self._lost):
            if not self._in_flight and not self.queued:
                self._committer.mark(self)
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    def closing_batch(self, end: bytes) -> Batch:
        """What a close sends: anything unacknowledged and the numbered `ended`."""
        unacked = self._sent[self._acked_seq + 1 - self._first_seq :]
        return self._batch([*unacked, end])

    def rewind(self, tail_seq: int) -> None:
        """A close found the log behind: send again from there. Raises Fenced if that is gone."""
        if tail_seq < self._first_seq - 1:
            raise Fenced(self.lease.response_id)
        self._acked_seq = tail_seq

    # -- called by the committer ----------------------------------------------------------------
    def next_batch(self) -> Batch | None:
        """The unacknowledged events again, else the next unsent ones. None when there are none."""
        self.queued = False
        if self._lost:
            self._rest()
            return None
        events = self._sent[self._acked_seq + 1 - self._first_seq :]
        if not events:
            if not self._unsent.pending:
                self._rest()
                return None
            taken = self._unsent.take(self.next_seq)
            events = taken.events
            self._batch_content = taken.has_content
            self._hash_before = self._hash
            if taken.text:
                self._hash_before = self._hash.copy()
                self._hash.update(taken.text.encode())
            self._sent += events
            COUNTERS.events_appended += len(events)
        self._in_flight = True
        COUNTERS.appends += 1
        return self._batch(events)

    def _batch(self, events: list[bytes]) -> Batch:
        first_seq = self._acked_seq + 1
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
        if answer.outcome is Appended.FENCED or answer.outcome is Appended.CLOSED:
            self._lose()
            return
        self.heard_s = time.monotonic()
        if answer.outcome is Appended.FULL:
            self._drop_unacked()
            self._owner.full()
        elif answer.seq < self._first_seq - 1:
            # The log is behind what this writer can send again: another history.
            self._lose()
            return
        else:
            self._acked_seq = answer.seq
            if self._batch_content:
                self.has_content = True
        if answer.stop_reason:
            self._owner.stop(answer.stop_reason)
        if self._unsent.pending or self._acked_seq + 1 < self.next_seq:
            self._committer.mark(self)
        else:
            self._rest()

    def give_up(self) -> None:
        """Write nothing more: the lease is over, or somebody else has it."""
        self._lost = self._refuses = True
        self._rest()

    def _lose(self) -> None:
        COUNTERS.fenced += 1
        self.give_up()
        self._owner.fenced()

    def _drop_unacked(self) -> None:
        del self._sent[self._acked_seq + 1 - self._first_seq :]
        self._hash = self._hash_before
        self._unsent = Coalescer()
        self._batch_content = False
        self._refuses = True

    def _rest(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)


class LoadGauge:
    """How much of one core this thread used of late, and the window that follows from it."""

    def __init__(self, flush_max_ms: float) -> None:
        self._max_s = flush_max_ms / 1000
        self._wall_s = time.perf_counter()
        self._cpu_s = time.thread_time()
        self._window_s = 0.0

    def window_s(self) -> float:
        wall_s = time.perf_counter()
        span_s = wall_s - self._wall_s
        if span_s >= GAUGE_S:
            cpu_s = time.thread_time()
            busy = (cpu_s - self._cpu_s) / span_s
            self._wall_s, self._cpu_s = wall_s, cpu_s
            share = min(1.0, max(0.0, (busy - BUSY_FROM) / (BUSY_FULL - BUSY_FROM)))
            self._window_s = share * self._max_s
        return self._window_s


class Committer:
    """Sends the batches of all writers of a process, one pipeline at a time."""

    def __init__(self, store: Store, flush_max_ms: float) -> None:
        self._store = store
        self._gauge = LoadGauge(flush_max_ms)
        self._dirty: list[Writer] = []
        self._urgent = False
        self._waiter: asyncio.Future[None] | None = None

    def mark(self, writer: Writer, *, urgent: bool = False) -> None:
        """This writer has something to send. `urgent`: its first token, which waits less."""
        self._urgent |= urgent
        if not writer.queued:
            writer.queued = True
            self._dirty.append(writer)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def mark_later(self, writer: Writer, pause_s: float) -> None:
        asyncio.get_running_loop().call_later(pause_s, self._mark_again, writer)

    def _mark_again(self, writer: Writer) -> None:
        writer.queued = False
        self.mark(writer)

    async def run(self) -> None:
        """Until cancelled. What is on its way then is found in the log by whoever takes over."""
        loop = asyncio.get_running_loop()
        flushed_s = 0.0
        while True:
            if not self._dirty:
                self._waiter = loop.create_future()
                await self._waiter
            # From flush to flush: a pipeline that takes long has been a window already. A first
            # token waits for a part of it only; for none, and every new answer would end the window
            # of all others just when hundreds start at once.
            window_s = self._gauge.window_s() * (URGENT_SHARE if self._urgent else 1.0)
            wait_s = flushed_s + window_s - loop.time()
            if wait_s > 0.001:
                await asyncio.sleep(wait_s)
            self._urgent = False
            flushed_s = loop.time()
            writers, self._dirty = self._dirty, []
            await self._flush(writers)

    async def _flush(self, writers: list[Writer]) -> None:
        sending: list[Writer] = []
        batches: list[Batch] = []
        for writer in writers:
            batch = writer.next_batch()
            if batch is not None:
                sending.append(writer)
                batches.append(batch)
        if not batches:
            return
        COUNTERS.flushes += 1
        answers = await self._store.append(batches)
        for writer, answer in zip(sending, answers, strict=True):
            writer.settle(answer)
