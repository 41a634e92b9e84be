"""The store on Redis or Valkey: every multi-step change is one script (PROTOCOL 1-9).

Two lanes a process: one for scripts, one for reads (a page of 256 KiB must not hold an append
back). Beside them a connection per shard that waits for jobs, and one that is subscribed.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
from redis.exceptions import NoScriptError, ResponseError

from relay.errors import StoreUnavailable
from relay.events import Created, encode_event
from relay.store import keys, scripts
from relay.store.clock import StoreClock
from relay.store.facts import created_ms, kept_args, timer_ms
from relay.store.jobs import JobQueue
from relay.store.presence_redis import RedisPresence
from relay.store.protocol import (
    Appended,
    Batch,
    Cancelled,
    Claim,
    Job,
    Kept,
    Lease,
    Page,
    Reply,
    Subscription,
    Tail,
)
from relay.store.quota_redis import RedisQuotas
from relay.store.replies import read_claim, read_page, read_pulse, read_refusal, read_reply
from relay.store.reports import Reports
from relay.store.room import Room
from relay.store.topology import open_servers
from relay.store.vitals import Pulse, Vitals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relay.config import RelayConfig
    from relay.request import GenerationRequest
    from relay.store.lane import Carrier, Command
    from relay.store.scripts import Script

PING_S: Final = 1.0
DAY_MS: Final = 86_400_000


class RedisStore:
    """Implements `Store`. Belongs to the event loop that first uses it."""

    def __init__(self, url: str, config: RelayConfig) -> None:
        self._config = config
        self._servers = open_servers(url)
        self._writes = self._servers.lane()
        self._reads = self._servers.lane()
        self._clock = StoreClock()
        self._queue = JobQueue(self._servers, self._writes, self.notice)
        self._reports = Reports(self._writes)
        self._room = Room(self._writes, config.max_store_share)
        self.quotas = RedisQuotas(self._writes, self._room)
        self._lease_ms = round(config.lease_s * 1000)
        self._grace_ms = round(2 * config.heartbeat_s * 1000)
        self._ttl_ms = round(config.total_s * 1000) + DAY_MS
        presence = RedisPresence(self._writes, self._reads, self._grace_ms)
        self.attend, self.beat, self.leave = presence.attend, presence.beat, presence.leave
        self.abandoned, self.delivered = presence.abandoned, presence.delivered

    def __repr__(self) -> str:
        return f"<RedisStore {self._servers!r}>"

    async def ping(self) -> None:
        asked_s = time.monotonic()
        try:
            async with asyncio.timeout(PING_S):
                seconds, micros = await asyncio.shield(self._writes.send(("TIME",)))
        except (TimeoutError, ResponseError) as error:
            raise StoreUnavailable("the store does not answer") from error
        self._clock.heard(int(seconds) + int(micros) / 1e6, asked_s=asked_s)

    async def know_time(self) -> None:
        if not self._clock.known:
            await self.ping()

    def now_s(self) -> float:
        return self._clock.now_s()

    async def room(self) -> None:
        await self._room.probe()

    async def _call(
        self, script: Script, key_names: Sequence[str], args: Command, lane: Carrier | None = None
    ) -> Any:
        return await scripts.call(lane or self._writes, script, key_names, args)

    async def create(
        self, request: GenerationRequest, *, upstream_model: str, again: bool = False
    ) -> bool:
        rid = request.response_id
        created = Created(response_id=rid, model=request.model, created_at=request.created_at)
        born_ms = created_ms(request)
        policy = request.on_disconnect
        made = await self._call(
            scripts.CREATE,
            [keys.log(rid), keys.meta(rid), keys.jobs(keys.shard_of(rid)), keys.viewers(rid)],
            [
                encode_event(created, 1),
                rid,
                msgspec.json.encode(upstream_model),
                born_ms + round(self._config.total_s * 1000),
                timer_ms(policy.cancel_after_s),
                timer_ms(policy.leave_after_s),
                self._grace_ms,
                self._ttl_ms,
                keys.channel(rid),
                born_ms,
                "restored" if again else "creator",
            ],
        )
        self._room.taken()
        return bool(made)

    # -- jobs -----------------------------------------------------------------------------------
    async def take(self, shard: int, worker: str, count: int, block_s: float) -> list[Job]:
        return await self._queue.take(shard, worker, count, block_s)

    async def reclaim(self, shard: int, worker: str, count: int, idle_s: float) -> list[Job]:
        return await self._queue.reclaim(shard, worker, count, idle_s)

    async def workers(self, shard: int, within_s: float) -> int:
        return await self._queue.workers(shard, within_s)

    async def vitals(self, shards: Sequence[int], within_s: float) -> Vitals:
        share = await self._room.share()
        backlogs = await asyncio.gather(*(self._queue.backlog(shard) for shard in shards))
        workers = await asyncio.gather(*(self.workers(shard, within_s) for shard in shards))
        waiting = {shard: n for shard, (n, _) in zip(shards, backlogs, strict=True)}
        held = {shard: n for shard, (_, n) in zip(shards, backlogs, strict=True)}
        return Vitals(waiting, held, dict(zip(shards, workers, strict=True)), share)

    async def notice(self, shard: int) -> None:
        await self._call(scripts.NOTICE, [keys.run(shard)], [])

    async def claim(self, job: Job, worker: str, *, at: str) -> Claim:
        rid = job.response_id
        reply = await self._call(
            scripts.CLAIM,
            [
                *(keys.log(rid), keys.meta(rid), keys.jobs(job.shard), keys.viewers(rid)),
                keys.run(job.shard),
            ],
            [
                job.entry_id,
                worker,
                self._lease_ms,
                self._config.max_attempts,
                at,
                keys.channel(rid),
                keys.GROUP,
                self._grace_ms,
            ],
        )
        return read_claim(job, worker, reply)

    async def renew(self, lease: Lease) -> Reply:
        rid, asked_s = lease.response_id, time.monotonic()
        reply = await self._call(
            scripts.RENEW,
            [
                *(keys.log(rid), keys.meta(rid), keys.jobs(lease.job.shard), keys.viewers(rid)),
                keys.run(lease.job.shard),
            ],
            [
                lease.epoch,
                lease.lease_until_ms,
                self._lease_ms,
                lease.job.entry_id,
                lease.worker,
                keys.GROUP,
                self._ttl_ms,
                self._grace_ms,
            ],
        )
        answer = read_reply(lease, reply)
        if answer.outcome is Appended.OK:
            store_s = (lease.lease_until_ms - self._lease_ms) / 1000
            self._clock.heard(store_s, asked_s=asked_s)
        if answer.outcome is Appended.OK and reply[4]:
            return Reply(answer.outcome, answer.seq, answer.stop_reason, abandoned=True)
        return answer

    async def release(self, lease: Lease) -> bool:
        rid = lease.response_id
        return bool(
            await self._call(
                scripts.RELEASE,
                [keys.meta(rid), keys.jobs(lease.job.shard)],
                [lease.epoch, lease.job.entry_id, rid, keys.GROUP, lease.lease_until_ms],
            )
        )

    async def ack(self, job: Job) -> bool:
        rid = job.response_id
        return bool(
            await self._call(
                scripts.ACK,
                [keys.log(rid), keys.meta(rid), keys.jobs(job.shard), keys.viewers(rid)],
                [job.entry_id, round(self._config.retention_s * 1000), keys.GROUP],
            )
        )

    # -- writing --------------------------------------------------------------------------------
    def _write(self, script: Script, batch: Batch) -> Command:
        rid = batch.lease.response_id
        closing = script is scripts.CLOSE
        return (
            "EVALSHA",
            script.sha,
            2,
            keys.log(rid),
            keys.meta(rid),
            batch.lease.epoch,
            batch.lease.lease_until_ms,
            self._lease_ms,
            -1 if closing else self._config.max_log_bytes,
            int(batch.has_content),
            keys.channel(rid),
            int(closing),
            batch.output_tokens,
            batch.first_seq,
            *batch.events,
        )

    async def append(self, batches: Sequence[Batch]) -> list[Reply | Exception]:
        queue = self._writes.queue
        futures = [queue(self._write(scripts.APPEND, batch)) for batch in batches]
        await self._writes.flush()
        answers: list[Reply | Exception] = []
        for batch, future in zip(batches, futures, strict=True):
            try:
                answers.append(read_reply(batch.lease, await future))
            except NoScriptError:
                answers.append(await self._append_loading(batch))
            except ResponseError as error:
                answers.append(read_refusal(error))
            except StoreUnavailable as error:
                answers.append(error)
        return answers

    async def _append_loading(self, batch: Batch) -> Reply | Exception:
        try:
            command = self._write(scripts.APPEND, batch)
            reply = await self._writes.send(("EVAL", scripts.APPEND.source, *command[2:]))
            return read_reply(batch.lease, reply)
        except ResponseError as error:
            return read_refusal(error)
        except StoreUnavailable as error:
            return error

    async def close(self, batch: Batch) -> Reply:
        rid = batch.lease.response_id
        args = self._write(scripts.CLOSE, batch)[5:]
        reply = await self._call(scripts.CLOSE, [keys.log(rid), keys.meta(rid)], args)
        return read_reply(batch.lease, reply)

    async def restore(self, kept: Kept) -> Reply:
        lease = kept.lease
        rid, job = lease.response_id, lease.job
        reply = await self._call(
            scripts.RESTORE,
            [keys.log(rid), keys.meta(rid), keys.jobs(job.shard), keys.viewers(rid)],
            [
                lease.epoch,
                lease.lease_until_ms,
                self._lease_ms,
                rid,
                job.entry_id,
                lease.worker,
                keys.GROUP,
                keys.channel(rid),
                self._ttl_ms,
                self._grace_ms,
                *kept_args(kept, self._config.total_s),
            ],
        )
        answer = read_reply(lease, reply)
        if answer.outcome is not Appended.FENCED:
            lease.job = replace(job, entry_id=reply[4].decode())
        return answer

    # -- stopping -------------------------------------------------------------------------------
    async def cancel(self, response_id: str, reason: str, *, ended: bytes) -> Cancelled:
        shard = keys.shard_of(response_id)
        reply = await self._call(
            scripts.CANCEL,
            [keys.log(response_id), keys.meta(response_id), keys.run(shard)],
            [
                reason,
                ended,
                keys.channel(response_id),
                keys.stops(shard),
                response_id,
                self._lease_ms,
            ],
        )
        return Cancelled(reply.decode())

    async def expire(self, response_id: str, *, queued: bytes, running: bytes) -> bool:
        run = keys.run(keys.shard_of(response_id))
        names = [keys.log(response_id), keys.meta(response_id), run]
        args: Command = [queued, running, keys.channel(response_id), self._lease_ms]
        return bool(await self._call(scripts.EXPIRE, names, args))

    async def retire(self, response_id: str) -> None:
        names = [keys.log(response_id), keys.meta(response_id), keys.viewers(response_id)]
        await self._call(scripts.RETIRE, names, [keys.channel(response_id), 2 * self._lease_ms])

    # -- reading --------------------------------------------------------------------------------
    async def read(
        self, response_id: str, *, after: int, epoch: int | None = None, max_bytes: int = 262_144
    ) -> Page | None:
        names = [keys.log(response_id), keys.meta(response_id)]
        args = [after, "" if epoch is None else epoch, max_bytes]
        reply = await self._call(scripts.READ, names, args, self._reads)
        return None if reply is None else read_page(after, reply)

    async def tails(self, response_ids: Sequence[str]) -> list[Tail | None]:
        futures = [
            self._reads.send(("HMGET", keys.meta(rid), "te", "seq", "state"))
            for rid in response_ids
        ]
        found: list[Tail | None] = []
        for future in futures:
            epoch, seq, state = await future
            found.append(None if seq is None else Tail(int(epoch), int(seq), state == b"ended"))
        return found

    async def subscribe(self, shards: Sequence[int]) -> Subscription:
        return self._servers.subscription(shards)

    async def counted(self, response_id: str) -> int:
        reply = await self._reads.send(("HGET", keys.meta(response_id), "out"))
        return int(reply or 0)

    async def pulses(self, response_ids: Sequence[str]) -> list[Pulse | None]:
        calls = [
            scripts.call(self._reads, scripts.PULSE, [keys.meta(rid), keys.viewers(rid)], [])
            for rid in response_ids
        ]
        return [read_pulse(reply) for reply in await asyncio.gather(*calls)]

    async def report_upstreams(self, worker: str, report: bytes, ttl_s: float) -> None:
        await self._reports.put(worker, report, ttl_s)

    async def upstreams(self) -> dict[str, bytes]:
        return await self._reports.all()

    async def aclose(self) -> None:
        await self._writes.aclose()
        await self._reads.aclose()
        await self._queue.aclose()
        await self._servers.aclose()
