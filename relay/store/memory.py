"""The store of one process: no server, the same promises (PROTOCOL 1 to 9).

For tests, which may set its clock and order its faults, and for anyone who wants answers without
Redis and can do without surviving a restart. It passes the same contract tests as RedisStore.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from relay.errors import StoreRefused, StoreUnavailable
from relay.store import keys
from relay.store.memory_channel import Faults, MemorySubscription
from relay.store.memory_jobs import MemoryJobs, vitals
from relay.store.memory_log import MemoryLog, stranger
from relay.store.memory_logs import MemoryLogs
from relay.store.memory_server import MemoryServer
from relay.store.protocol import (
    Appended,
    Batch,
    Cancelled,
    Claim,
    Claimed,
    Gone,
    Job,
    Kept,
    Lease,
    Message,
    Page,
    Published,
    Reply,
    Stopped,
    Subscription,
    Tail,
)
from relay.store.quota_memory import MemoryQuotas, People

if TYPE_CHECKING:
    from relay.config import RelayConfig
    from relay.request import GenerationRequest
    from relay.store.vitals import Pulse, Vitals


class Replica(NamedTuple):
    logs: MemoryLogs
    jobs: dict[int, MemoryJobs]
    people: People


class MemoryStore:
    """Implements `Store`. Belongs to one event loop.

    Every call suspends once before its effect and once after it, like a request and its reply:
    code that is right only while nothing else runs is found out.

    Args:
        clock: seconds, as `time.time` gives them.
    """

    def __init__(self, config: RelayConfig, *, clock: Callable[[], float] | None = None) -> None:
        self.faults = Faults()
        self._config = config
        self._clock = clock or time.time
        self._logs = self._no_logs()
        self._jobs: dict[int, MemoryJobs] = {}
        self._retired: dict[str, int] = {}
        """Epochs that no writer of these has: what was retired is not restored."""
        self._server = MemoryServer(self._now_ms())
        self.quotas = MemoryQuotas(self._call, self._now_ms, self._server)
        self._subscriptions: list[MemorySubscription] = []
        self._reports: dict[str, tuple[float, bytes]] = {}
        """By worker: until when it counts, and what it says of its upstreams."""

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._logs)} logs, {self._jobs!r}>"

    async def ping(self) -> None:
        async with self._call("ping"):
            pass

    async def know_time(self) -> None:
        """Its clock is this process's own."""

    def now_s(self) -> float:
        return self._clock()

    async def room(self) -> None:
        async with self._call("room"):
            pass

    async def create(
        self, request: GenerationRequest, *, upstream_model: str, again: bool = False
    ) -> bool:
        async with self._call("create"):
            rid, config, now_ms = request.response_id, self._config, self._now_ms()
            if self._logs.get(rid) is not None:
                return False
            early = self._logs.take_early(rid)
            log = MemoryLog.create(
                request, upstream_model, config, now_ms, early=early, again=again
            )
            self._logs.put(rid, log)
            self._jobs_of(keys.shard_of(rid)).add(rid)
            self._publish_from(log, 0)
            return True

    # -- losses (PROTOCOL 10) -------------------------------------------------------------------
    async def notice(self, shard: int) -> None:
        async with self._call("notice"):
            self._server.notice(shard, self._now_ms())

    def lose_everything(self) -> None:
        """The server restarts empty."""
        self._become(Replica(self._no_logs(), {}, {}), empty=True)

    def replica(self) -> Replica:
        """What a replica has that hears nothing more from now on."""
        jobs = {shard: jobs.copy() for shard, jobs in self._jobs.items()}
        return Replica(self._logs.copy(), jobs, self.quotas.copy())

    def promote(self, replica: Replica) -> None:
        """That replica is the server from now on: what was written since is lost."""
        self._become(replica, empty=False)

    def _become(self, replica: Replica, *, empty: bool) -> None:
        self._logs = replica.logs
        self.quotas.become(replica.people)
        for shard, jobs in self._jobs.items():
            jobs.become(replica.jobs.get(shard) or MemoryJobs(shard))
        self._retired.clear()
        self._server.succeed(self._now_ms(), empty=empty)
        self.lose_subscriptions()

    def _no_logs(self) -> MemoryLogs:
        return MemoryLogs(self._now_ms, heartbeat_s=self._config.heartbeat_s)

    def _grace_left_ms(self, log: MemoryLog, grace_s: float) -> float:
        shard = keys.shard_of(log.request.response_id)
        return self._server.grace_left_ms(shard, log.created_ms, self._now_ms(), grace_s)

    # -- jobs -----------------------------------------------------------------------------------
    async def take(self, shard: int, worker: str, count: int, block_s: float) -> list[Job]:
        async with self._call("take"):
            jobs = self._jobs_of(shard)
            jobs.asked(worker, self._now_ms())
            await jobs.wait(block_s)
            jobs.asked(worker, self._now_ms())
            return jobs.take(worker, count, self._now_ms())

    async def reclaim(self, shard: int, worker: str, count: int, idle_s: float) -> list[Job]:
        async with self._call("reclaim"):
            jobs = self._jobs_of(shard)
            jobs.asked(worker, self._now_ms())
            return jobs.reclaim(worker, count, idle_s * 1000, self._now_ms())

    async def claim(self, job: Job, worker: str, *, at: str) -> Claim:
        async with self._call("claim"):
            log = self._logs.get(job.response_id)
            if log is None:
                return Claim(outcome=Claimed.GONE)
            before, now_ms = log.seq, self._now_ms()
            claim = log.claim(job, worker, at, now_ms, self._grace_left_ms)
            if claim.outcome is Claimed.BUSY:
                # Idle since the other's last touch: the job comes back when that lease lapses.
                until_ms = log.busy_until_ms(now_ms, self._grace_left_ms)
                touched_ms = min(now_ms, until_ms - self._config.lease_s * 1000)
                self._jobs_of(job.shard).touch(job, worker, touched_ms)
            self._publish_from(log, before)
            return claim

    async def renew(self, lease: Lease) -> Reply:
        async with self._call("renew"):
            log = self._logs.get(lease.response_id)
            if log is None:
                return self._without_log(lease)
            reply = log.renew(lease, self._now_ms(), self._grace_left_ms)
            if reply.outcome not in (Appended.FENCED, Appended.LOST):
                jobs = self._jobs_of(lease.job.shard)
                jobs.touch(lease.job, lease.worker, self._now_ms())
            return reply

    async def release(self, lease: Lease) -> bool:
        async with self._call("release"):
            log = self._logs.get(lease.response_id)
            if log is None or not log.release(lease, self._now_ms()):
                return False
            jobs = self._jobs_of(lease.job.shard)
            jobs.drop(lease.job)
            jobs.add(lease.response_id)
            return True

    async def ack(self, job: Job) -> bool:
        async with self._call("ack"):
            log = self._logs.get(job.response_id)
            if log is not None and not log.ended:
                return False
            if log is not None:
                log.acknowledge(self._now_ms())
                self._logs.note_expiry(job.response_id, log)
            self._jobs_of(job.shard).drop(job)
            return True

    # -- writing --------------------------------------------------------------------------------
    async def append(self, batches: Sequence[Batch]) -> list[Reply | Exception]:
        try:
            async with self._call("append"):
                return [self._write(batch, closes=False) for batch in batches]
        except StoreRefused:
            return [Reply(Appended.FULL)] * len(batches)
        except StoreUnavailable as error:
            return [error] * len(batches)

    async def close(self, batch: Batch) -> Reply:
        async with self._call("close"):
            return self._write(batch, closes=True)

    def _write(self, batch: Batch, *, closes: bool) -> Reply:
        log = self._logs.get(batch.lease.response_id)
        if log is None:
            return self._without_log(batch.lease)
        before = log.seq
        reply = log.write(batch, self._now_ms(), closes=closes)
        self._publish_from(log, before)
        return reply

    async def restore(self, kept: Kept) -> Reply:
        async with self._call("restore"):
            lease, now_ms = kept.lease, self._now_ms()
            rid, grace_left = lease.response_id, self._grace_left_ms
            before = self._logs.get(rid)
            reply = before.renew(lease, now_ms, grace_left) if before else self._without_log(lease)
            if reply.outcome is not Appended.LOST:
                return Reply(reply.outcome, reply.seq, reply.stop_reason)
            early = self._logs.take_early(rid)
            log = MemoryLog.restore(kept, before, self._config, now_ms, early=early)
            self._logs.put(rid, log)
            lease.job = self._jobs_of(lease.job.shard).restore(lease.job, lease.worker, now_ms)
            self._publish(Published(rid, log.epoch, log.seq + 1, []), rid)
            return Reply(Appended.OK, log.seq, log.stop_reason)

    def _without_log(self, lease: Lease) -> Reply:
        return stranger(lease, self._retired.get(lease.response_id, -1), self._now_ms())

    # -- stopping -------------------------------------------------------------------------------
    async def cancel(self, response_id: str, reason: str, *, ended: bytes) -> Cancelled:
        async with self._call("cancel"):
            log = self._logs.get(response_id)
            if log is None:
                return Cancelled.MISSING
            if log.ended:
                return Cancelled.ENDED
            log.stop_reason = log.stop_reason or reason  # the first wish is the one recorded
            if not log.queued or self._grace_left_ms(log, self._config.lease_s):
                self._publish(Stopped(response_id, log.stop_reason), response_id)
                return Cancelled.FLAGGED
            before = log.seq
            log.end(ended, self._now_ms())
            self._publish_from(log, before)
            return Cancelled.CLOSED

    async def expire(self, response_id: str, *, queued: bytes, running: bytes) -> bool:
        async with self._call("expire"):
            log = self._logs.get(response_id)
            if log is None or log.ended or log.lease_until_ms > self._now_ms():
                return False
            if self._grace_left_ms(log, self._config.lease_s):
                return False
            before = log.seq
            log.end(running if log.attempts else queued, self._now_ms())
            self._publish_from(log, before)
            return True

    async def retire(self, response_id: str) -> None:
        async with self._call("retire"):
            log = self._logs.pop(response_id)
            epoch = log.epoch if log is not None else self._retired.get(response_id, 0)
            self._retired[response_id] = max(epoch + 1, self._now_ms())
            # After its lease a writer is refused anyway. An epoch tells when it was given.
            over_ms = self._now_ms() - 2000 * self._config.lease_s
            self._retired = {rid: e for rid, e in self._retired.items() if e > over_ms}
            self._publish(Gone(response_id), response_id)

    # -- reading --------------------------------------------------------------------------------
    async def read(
        self, response_id: str, *, after: int, epoch: int | None = None, max_bytes: int = 262_144
    ) -> Page | None:
        async with self._call("read"):
            log = self._logs.get(response_id)
            return log.read(after, epoch, max_bytes) if log is not None else None

    async def tails(self, response_ids: Sequence[str]) -> list[Tail | None]:
        async with self._call("tails"):
            logs = [self._logs.get(response_id) for response_id in response_ids]
            return [log.tail if log is not None else None for log in logs]

    async def subscribe(self, shards: Sequence[int]) -> Subscription:
        async with self._call("subscribe"):
            subscription = MemorySubscription(shards)
            self._subscriptions = [s for s in self._subscriptions if not s.closed]
            self._subscriptions.append(subscription)
            return subscription

    def lose_subscriptions(self) -> None:
        """Break every subscription as it is now; what it had not yet handed out is lost."""
        for subscription in self._subscriptions:
            subscription.lose()

    # -- presence -------------------------------------------------------------------------------
    async def attend(self, response_id: str, viewer: str) -> int:
        async with self._call("attend"):
            return self._logs.presence(response_id).attend(viewer, self._now_ms())

    async def beat(self, beats: Sequence[tuple[str, str, int]]) -> None:
        async with self._call("beat"):
            for response_id, viewer, seq in beats:
                self._logs.presence(response_id).beat(viewer, self._now_ms())
                if (log := self._logs.get(response_id)) is not None:
                    log.delivered = max(log.delivered, seq)

    async def leave(self, response_id: str, viewer: str) -> None:
        async with self._call("leave"):
            self._logs.presence(response_id).leave(viewer, self._now_ms())

    async def abandoned(self, response_ids: Sequence[str]) -> list[bool]:
        async with self._call("abandoned"):
            logs = [self._logs.get(response_id) for response_id in response_ids]
            now_ms, grace_left = self._now_ms(), self._grace_left_ms
            return [log is not None and log.abandoned(now_ms, grace_left) for log in logs]

    async def delivered(self, response_id: str) -> int:
        async with self._call("delivered"):
            log = self._logs.get(response_id)
            return log.delivered if log is not None else 0

    async def counted(self, response_id: str) -> int:
        async with self._call("counted"):
            log = self._logs.get(response_id)
            return log.output_tokens if log is not None else 0

    async def pulses(self, response_ids: Sequence[str]) -> list[Pulse | None]:
        async with self._call("pulses"):
            logs = [self._logs.get(response_id) for response_id in response_ids]
            return [log.pulse(self._now_ms()) if log is not None else None for log in logs]

    async def report_upstreams(self, worker: str, report: bytes, ttl_s: float) -> None:
        async with self._call("report_upstreams"):
            self._reports[worker] = (self._now_ms() + ttl_s * 1000, report)

    async def upstreams(self) -> dict[str, bytes]:
        async with self._call("upstreams"):
            now_ms = self._now_ms()
            self._reports = {w: r for w, r in self._reports.items() if r[0] > now_ms}
            return {worker: report for worker, (_, report) in sorted(self._reports.items())}

    async def workers(self, shard: int, within_s: float) -> int:
        async with self._call("workers"):
            return self._jobs_of(shard).workers(self._now_ms() - within_s * 1000)

    async def vitals(self, shards: Sequence[int], within_s: float) -> Vitals:
        async with self._call("vitals"):
            jobs = {shard: self._jobs_of(shard) for shard in shards}
            return vitals(jobs, self._now_ms() - within_s * 1000, full=self.faults.full)

    async def aclose(self) -> None:
        for subscription in self._subscriptions:
            await subscription.aclose()
        self._subscriptions.clear()

    # -- inside ---------------------------------------------------------------------------------
    @asynccontextmanager
    async def _call(self, name: str) -> AsyncIterator[None]:
        await asyncio.sleep(0)  # the request is on its way
        with self.faults.during(name):
            yield
        await asyncio.sleep(0)  # the reply is on its way

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _jobs_of(self, shard: int) -> MemoryJobs:
        return self._jobs.setdefault(shard, MemoryJobs(shard))

    def _publish_from(self, log: MemoryLog, before: int) -> None:
        added = [entry.data for entry in log.entries[before:]]
        if added:
            rid = log.request.response_id
            self._publish(Published(rid, log.epoch, before + 1, added), rid)

    def _publish(self, message: Message, response_id: str) -> None:
        if self.faults.loses(message):
            return
        for subscription in self._subscriptions:
            subscription.receive(message, keys.shard_of(response_id))
