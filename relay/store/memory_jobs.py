"""The job stream of one shard, with its consumer group, in memory (PROTOCOL 2)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from relay.store.protocol import Job
from relay.store.vitals import Vitals


@dataclass(slots=True)
class _Pending:
    """A job in a worker's hands."""

    job: Job
    worker: str
    touched_ms: float


class MemoryJobs:
    def __init__(self, shard: int) -> None:
        self._shard = shard
        self._waiting: deque[Job] = deque()
        self._pending: dict[str, _Pending] = {}
        self._asked_ms: dict[str, int] = {}
        self._added = 0
        self._news = asyncio.Event()

    def __repr__(self) -> str:
        return f"<MemoryJobs: {len(self._waiting)} waiting, {len(self._pending)} pending>"

    def add(self, response_id: str) -> None:
        self._added += 1
        self._waiting.append(Job(self._shard, f"{self._added}-0", response_id))
        self._news.set()

    def restore(self, job: Job, worker: str, now_ms: int) -> Job:
        """In this worker's hands as it was, or handed out anew, under another id, if it is lost."""
        if job.entry_id not in self._pending and job not in self._waiting:
            self.add(job.response_id)
            return self._waiting[-1]
        self.touch(job, worker, now_ms)
        return job

    def copy(self) -> MemoryJobs:
        made = MemoryJobs(self._shard)
        made._waiting, made._added = self._waiting.copy(), self._added
        made._pending = {entry: replace(pending) for entry, pending in self._pending.items()}
        return made

    def become(self, other: MemoryJobs) -> None:
        """Have the jobs of `other`; ids go on, so that none is given twice."""
        self._waiting, self._pending = other._waiting, other._pending
        self._news.set()

    async def wait(self, block_s: float) -> None:
        """Return when a job waits, or after `block_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(block_s):
                while not self._waiting:
                    self._news.clear()
                    await self._news.wait()

    def take(self, worker: str, count: int, now_ms: int) -> list[Job]:
        jobs = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
        self._pending |= {job.entry_id: _Pending(job, worker, now_ms) for job in jobs}
        return jobs

    def reclaim(self, worker: str, count: int, idle_ms: float, now_ms: int) -> list[Job]:
        idle = [p for p in self._pending.values() if now_ms - p.touched_ms >= idle_ms][:count]
        for pending in idle:
            pending.worker, pending.touched_ms = worker, now_ms
        return [pending.job for pending in idle]

    def touch(self, job: Job, worker: str, at_ms: float) -> None:
        """Count a pending job's idle time from `at_ms`. One that was dropped stays dropped."""
        pending = self._pending.get(job.entry_id)
        if pending is not None:
            pending.worker, pending.touched_ms = worker, at_ms

    def drop(self, job: Job) -> None:
        self._pending.pop(job.entry_id, None)

    @property
    def backlog(self) -> tuple[int, int]:
        """Jobs that wait, and jobs in the hands of workers."""
        return len(self._waiting), len(self._pending)

    def asked(self, worker: str, now_ms: int) -> None:
        self._asked_ms[worker] = now_ms

    def workers(self, since_ms: float) -> int:
        return sum(asked_ms >= since_ms for asked_ms in self._asked_ms.values())


def vitals(jobs: Mapping[int, MemoryJobs], since_ms: float, *, full: bool) -> Vitals:
    return Vitals(
        {shard: queue.backlog[0] for shard, queue in jobs.items()},
        {shard: queue.backlog[1] for shard, queue in jobs.items()},
        {shard: queue.workers(since_ms) for shard, queue in jobs.items()},
        1.0 if full else 0.0,
    )
