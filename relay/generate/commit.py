"""Group commit: what arrives while an append is on its way is merged into the next (PROTOCOL 3).

There is no flush timer in a quiet process: the first event goes at once. One pipeline is in flight
per process, and at its return every response with unsent events is in the next one, so a busy
process sends fewer, larger appends by itself. Only when the event loop's thread is nearly used up
does a window open, up to `flush_max_ms`, that trades latency nobody would get anyway for CPU.

The window is an age of each response's oldest unsent event, not a beat of the whole process: a
stream of 50 tokens a second is sent two at a time at an age of 25 ms, where a beat of 25 ms finds
one and a quarter (DECISIONS 11).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from relay.errors import StoreUnavailable
from relay.metrics import COUNTERS

if TYPE_CHECKING:
    from relay.generate.writer import Writer
    from relay.store import Batch, Reply, Store

BUSY_FROM: Final = 0.33
BUSY_FULL: Final = 0.45
"""Shares of one core this thread used of late between which the window opens. Where store and
kernel share its core the thread rarely gets past 0.8."""
GAUGE_S: Final = 0.2
MEAN_S: Final = 0.8
"""The share is a running mean over this long: a fifth of a second in which many viewers wake up is
no busy process, and a window that opens for it delays everybody (DECISIONS 11)."""
URGENT_SHARE: Final = 0.3
"""Of the window, for a first token."""
COMPANY_SHARE: Final = 0.15
"""Of the window: who is due within it goes along now. Less, and the pipelines are too many."""


class LoadGauge:
    """How much of one core this thread used of late, and the window that follows from it."""

    def __init__(self, flush_max_ms: float) -> None:
        self._max_s = flush_max_ms / 1000
        self._wall_s = time.perf_counter()
        self._cpu_s = time.thread_time()
        self._busy = 0.0
        self._window_s = 0.0

    @property
    def present_s(self) -> float:
        """The window as last judged."""
        return self._window_s

    def window_s(self) -> float:
        wall_s = time.perf_counter()
        span_s = wall_s - self._wall_s
        if span_s >= GAUGE_S:
            cpu_s = time.thread_time()
            self._note((cpu_s - self._cpu_s) / span_s, span_s)
            self._wall_s, self._cpu_s = wall_s, cpu_s
        return self._window_s

    def _note(self, busy: float, span_s: float) -> None:
        self._busy += (busy - self._busy) * min(1.0, span_s / MEAN_S)
        share = min(1.0, max(0.0, (self._busy - BUSY_FROM) / (BUSY_FULL - BUSY_FROM)))
        self._window_s = share * self._max_s


class Committer:
    """Sends the batches of all writers of a process, one pipeline at a time."""

    def __init__(self, store: Store, flush_max_ms: float) -> None:
        self._store = store
        self._gauge = LoadGauge(flush_max_ms)
        self._dirty: deque[Writer] = deque()
        self._urgent: deque[Writer] = deque()
        self._waiter: asyncio.Future[None] | None = None

    @property
    def window_s(self) -> float:
        """How long events wait for company, as last judged."""
        return self._gauge.present_s

    def mark(self, writer: Writer, *, urgent: bool = False) -> None:
        """This writer has something to send. `urgent`: its first token, which waits less."""
        if writer.queued:
            return  # or it waits for its turn to try again: then nothing is to be sent yet
        writer.queued = True
        writer.marked_s = time.monotonic()
        (self._urgent if urgent else self._dirty).append(writer)
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
        while True:
            if not self._dirty and not self._urgent:
                self._waiter = loop.create_future()
                await self._waiter
            window_s = self._gauge.window_s()
            wait_s = self.next_due_s(window_s) - time.monotonic()
            if wait_s > 0.001:
                await asyncio.sleep(wait_s)
            await self._flush(self.take_due(window_s))

    def next_due_s(self, window_s: float) -> float:
        """When the oldest will be due, by `time.monotonic`; something must be unsent."""
        due_s = [self._dirty[0].marked_s + window_s] if self._dirty else []
        if self._urgent:
            due_s.append(self._urgent[0].marked_s + window_s * URGENT_SHARE)
        return min(due_s)

    def take_due(self, window_s: float) -> list[Writer]:
        """Those that are old enough, or nearly: both queues are in the order of marking."""
        due: list[Writer] = []
        now_s = time.monotonic() + window_s * COMPANY_SHARE + 0.001
        for queue, age_s in ((self._urgent, window_s * URGENT_SHARE), (self._dirty, window_s)):
            while queue and queue[0].marked_s + age_s <= now_s:
                due.append(queue.popleft())
        return due

    async def _flush(self, writers: list[Writer]) -> None:
        sending: list[Writer] = []
        batches: list[Batch] = []
        mending = [writer for writer in writers if writer.needs_mending]
        if mending:
            await asyncio.gather(*[self._mend(writer) for writer in mending])
            writers = [writer for writer in writers if writer not in mending]
        for writer in writers:
            batch = writer.next_batch()
            if batch is not None:
                sending.append(writer)
                batches.append(batch)
        if not batches:
            return
        COUNTERS.flushes += 1
        begun_s = time.perf_counter()
        answers = await self._store.append(batches)
        took_s = time.perf_counter() - begun_s
        COUNTERS.append.observe(took_s)
        COUNTERS.append_wait_s += took_s * len(batches)
        for writer, answer in zip(sending, answers, strict=True):
            writer.settle(answer)

    async def _mend(self, writer: Writer) -> None:
        kept = writer.begin_mending()
        if kept is None:
            return
        answer: Reply | Exception
        try:
            if writer.lost:
                answer = await self._store.restore(kept)
            else:
                answer = await self._store.close(writer.closing_batch())
        except StoreUnavailable as error:
            answer = error
        writer.settle(answer)
