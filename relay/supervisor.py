"""Who runs jobs: the same code as a background task of a web process and as a worker (PROTOCOL 2,
6, 9).

One task per job: claim, ask the record, run or close, fold, finalize, ack, in that order, so that
whatever dies before the ack is handed out again and every step is safe to repeat. Beside them three
loops: new jobs, jobs of workers that fell silent, and renewals.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import socket
import time
import uuid
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from structlog.contextvars import bind_contextvars

from relay.errors import ErrorKind, Fenced, LogGone, ProtocolViolation, StoreUnavailable
from relay.events import Notice
from relay.generate import Committer, End, Generation, Holder, Records, take_over
from relay.generate.end import end_of_take_over, rfc3339
from relay.generate.recording import Recorder, pause
from relay.hub import forever
from relay.metrics import COUNTERS
from relay.standing import Reporter
from relay.states import StopReason
from relay.store import Appended, Claimed, Job, Lease, Reply, Store
from relay.upstream import Attempts, Circuits

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from relay.config import ModelConfig, RelayConfig
    from relay.hub import Hub
    from relay.request import GenerationRequest
    from relay.upstream.attempts import Upstream

logger = logging.getLogger(__name__)

TAKE_S: Final = 1.0
"""How long one blocking read for jobs, or one wait for a place, lasts; also how soon a drain is
noticed."""
TAKE_MAX: Final = 100
"""Jobs per read when a worker has no limit of its own."""


class Run:
    """One job in this process, from before its claim until its ack."""

    def __init__(self, job: Job, *, lapsed: bool) -> None:
        self.job = job
        self.lapsed = lapsed
        """Whoever had it before fell silent."""
        self.lease: Lease | None = None
        self.heard_s = time.monotonic()
        self.holder: Holder | None = None
        self.stop_reason: str | None = None

    def stop(self, reason: str) -> None:
        """A stop may come before there is anything to stop: it is kept."""
        self.stop_reason = self.stop_reason or reason
        if self.holder is not None:
            self.holder.stop(reason)

    def note_lapse(self) -> None:
        """Once it is claimed: before that the other may have been only late."""
        if self.lapsed:
            COUNTERS.leases_lapsed += 1
            logger.warning("the worker of %s fell silent; taken over", self.job.response_id)

    def heard(self) -> None:
        self.heard_s = time.monotonic()
        if self.holder is not None:
            self.holder.writer.heard_s = self.heard_s

    def last_heard_s(self) -> float:
        writer_s = self.holder.writer.heard_s if self.holder is not None else 0.0
        return max(self.heard_s, writer_s)


class Supervisor:
    """Takes jobs, runs them, and takes over from workers that died. Belongs to one event loop."""

    def __init__(
        self,
        store: Store,
        hub: Hub,
        records: Records,
        models: Callable[[], Mapping[str, ModelConfig]],
        config: RelayConfig,
        *,
        upstream: Upstream,
        takes: Callable[[str], bool] = lambda worker: True,
        shards: Sequence[int] = (0,),
        worker: str | None = None,
    ) -> None:
        self.worker = worker or f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._store = store
        self._takes = takes
        """Whether a worker of this name may take jobs now; asked before each look for some."""
        self._hub = hub
        self._models = models
        self._attempts = Attempts(upstream, retries=config.upstream_retries)
        self._reporter = Reporter(store, self.worker, self._attempts.circuits, config)
        self._config = config
        self._shards = shards
        # Of a shard each: what one node of a cluster holds up is its own answers alone.
        self._committers = {shard: Committer(store, config.flush_max_ms) for shard in shards}
        self._recorder = Recorder(store, records, self.worker)
        self._broken_s = dict.fromkeys(shards, -math.inf)
        """time.monotonic of the last failure to reach the store, by shard."""
        self._runs: dict[str, Run] = {}
        self._jobs: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._takers: list[asyncio.Task[None]] = []
        self._draining = False

    def __repr__(self) -> str:
        state = "draining" if self._draining else "taking jobs"
        return f"<Supervisor {self.worker} [Running: {len(self._runs)} | {state}]>"

    @property
    def running(self) -> int:
        return len(self._runs)

    @property
    def window_s(self) -> float:
        """The longest commit window of its shards, as last judged."""
        return max(committer.window_s for committer in self._committers.values())

    @property
    def circuits(self) -> Circuits:
        """How this process has met the upstreams of its models."""
        return self._attempts.circuits

    def start(self) -> None:
        self._hub.start()
        self._hub.hear_stops(self._on_stop)
        self._loops.append(_loop(self._reporter.run))
        for shard in self._shards:
            self._loops.append(_loop(self._committers[shard].run))
            self._loops.append(_loop(partial(self._renew_all, shard)))
            self._takers.append(_loop(partial(self._take_jobs, shard)))
            self._takers.append(_loop(partial(self._take_over_jobs, shard)))

    async def drain(self) -> None:
        """Stop claiming, let jobs finish for drain_s, then release or interrupt the rest."""
        self._draining = True
        # A read that still waits for jobs would be handed those that are released below.
        await asyncio.wait(self._takers)
        if self._jobs:
            await asyncio.wait(self._jobs, timeout=self._config.drain_s)
        for run in self._runs.values():
            if run.holder is not None:
                run.holder.leave()
        if self._jobs:
            await asyncio.wait(self._jobs, timeout=self._config.lease_s)

    async def aclose(self) -> None:
        """End at once. What is still running is taken over by another worker after its lease."""
        self._draining = True
        tasks = [*self._takers, *self._loops, *self._jobs]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- loops ------------------------------------------------------------------------------------
    def _free(self) -> int:
        limit = self._config.max_generations_per_worker
        return TAKE_MAX if not limit else max(0, limit - len(self._runs))

    async def _take_jobs(self, shard: int) -> None:
        failures = 0
        while not self._draining:
            if not self._takes(self.worker):
                await asyncio.sleep(TAKE_S)
                continue
            if not self._free():
                # Not for longer than a read: a drain waits for this loop before it interrupts.
                first = asyncio.FIRST_COMPLETED
                await asyncio.wait(self._jobs, timeout=TAKE_S, return_when=first)
                continue
            try:
                jobs = await self._store.take(shard, self.worker, self._free(), TAKE_S)
                failures = 0
            except StoreUnavailable as error:
                failures += 1
                self._broken_s[shard] = time.monotonic()
                if failures == 1:
                    logger.warning("no jobs from the store: %s", error)
                await pause(failures)
                continue
            for job in jobs:
                self._spawn(job)

    async def _take_over_jobs(self, shard: int) -> None:
        while not self._draining:
            await asyncio.sleep(self._config.take_over_s * random.uniform(0.8, 1.0))  # noqa: S311
            lease_s = self._config.lease_s
            if not self._takes(self.worker):
                continue
            if time.monotonic() - self._broken_s[shard] < lease_s:
                # The jobs of live workers have gone idle, too, while the store was away: they
                # come first (PROTOCOL 10).
                continue
            # Takeovers that only close need no free slot, so this asks for jobs regardless.
            try:
                for job in await self._store.reclaim(shard, self.worker, TAKE_MAX, lease_s):
                    self._spawn(job, lapsed=True)
            except StoreUnavailable:
                self._broken_s[shard] = time.monotonic()

    def _spawn(self, job: Job, *, lapsed: bool = False) -> None:
        if job.response_id in self._runs:
            return  # our own job came back: its renewals go on, so this is a late hand-out
        run = self._runs[job.response_id] = Run(job, lapsed=lapsed)
        task = _start(self._job(run))
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    def _on_stop(self, response_id: str, reason: str) -> None:
        if run := self._runs.get(response_id):
            run.stop(reason)

    async def _renew_all(self, shard: int) -> None:
        while True:
            await asyncio.sleep(self._config.renew_s)
            mine = [run for run in self._runs.values() if run.job.shard == shard]
            runs = [run for run in mine if run.lease is not None]
            acked_seqs = [run.holder.writer.acked_seq if run.holder else 0 for run in runs]
            answers = await asyncio.gather(
                *(self._store.renew(run.lease) for run in runs if run.lease is not None),
                return_exceptions=True,
            )
            for run, answer, acked in zip(runs, answers, acked_seqs, strict=True):
                self._renewed(run, answer, acked)

    def _renewed(self, run: Run, answer: Reply | BaseException, acked_seq: int) -> None:
        if isinstance(answer, BaseException):
            if not isinstance(answer, StoreUnavailable):
                raise answer
            self._broken_s[run.job.shard] = time.monotonic()
            # Nobody confirmed this lease for its whole length: by the store's clock it is over, or
            # will be when the store comes back. Stop paying for words that cannot be written.
            silent_s = time.monotonic() - run.last_heard_s()
            if run.holder is not None and silent_s > self._config.lease_s:
                run.holder.fenced()
            return
        if answer.outcome is Appended.FENCED:
            if run.holder is not None:
                run.holder.fenced()
            return
        if run.holder is not None:
            run.holder.writer.renewed(answer, acked_seq)
        if answer.outcome is Appended.LOST:
            return
        run.heard()
        if answer.stop_reason:
            run.stop(answer.stop_reason)
        elif answer.abandoned:
            run.stop(StopReason.ABANDONED)

    # -- one job ----------------------------------------------------------------------------------
    async def _job(self, run: Run) -> None:
        rid = run.job.response_id
        bind_contextvars(response_id=rid)  # of this task alone, and of those it starts
        try:
            await self._serve(run)
        except (StoreUnavailable, LogGone) as error:
            logger.warning("job %s is left for later: %s", rid, error)
        except Fenced:
            logger.warning("job %s belongs to another worker now", rid)
        except Exception:
            # A job's outer edge: the job stays pending, so another attempt or worker ends it.
            logger.exception("job %s failed", rid)
        finally:
            if run.holder is not None:
                run.holder.writer.give_up()  # a late renewal must not restore what was acked
            del self._runs[rid]

    async def _serve(self, run: Run) -> None:
        job = run.job
        await self._store.know_time()  # a process that has just begun has only its own
        claim = await self._store.claim(job, self.worker, at=rfc3339(self._store.now_s()))
        match claim.outcome:
            case Claimed.BUSY:
                return
            case Claimed.GONE:
                await self._store.ack(job)
                return
            case Claimed.CLOSED:
                run.note_lapse()
                run.lease = claim.lease
                if claim.lease is not None:
                    await self._recorder.record(claim.lease, claim.output_tokens)
                return
            case Claimed.RUN | Claimed.TAKE_OVER:
                run.note_lapse()
        lease = claim.lease
        if lease is None:
            raise ProtocolViolation(f"a claim of {job.response_id} without a lease")
        run.lease = lease
        run.heard()
        lease_s = self._config.lease_s
        record = await self._recorder.load(
            job.response_id, lambda: time.monotonic() - run.heard_s <= lease_s
        )
        if record.final or record.request is None:
            await self._store.retire(job.response_id)
            await self._store.ack(job)
            return
        declared = self._models()
        model = declared.get(record.request.model)
        if claim.outcome is Claimed.TAKE_OVER or model is None:
            run.holder = await take_over(
                store=self._store,
                committer=self._committers[job.shard],
                request=record.request,
                upstream_model=model.upstream_model if model else record.request.model,
                lease=lease,
                claim=claim,
            )
            if claim.outcome is Claimed.TAKE_OVER:
                COUNTERS.take_overs += 1
                end = end_of_take_over(claim)
            else:
                message = f"This server no longer has a model named {record.request.model!r}."
                end = End.failed(ErrorKind.NOT_FOUND, message)
            await run.holder.end(end, asked=claim.attempt > 0)
            await self._recorder.record(lease, claim.output_tokens, run.holder)
            return
        generation = run.holder = Generation(
            store=self._store,
            committer=self._committers[job.shard],
            upstream=self._attempts,
            config=self._config,
            request=record.request,
            models=[model, *fallbacks_of(model, declared, record.request)],
            lease=lease,
            claim=claim,
        )
        if claim.attempt > 1:
            # Named, because the run before may have told of a fallback that answers.
            message = "The worker that was to answer is gone; another one starts."
            notice = Notice(code="retrying", message=message, model=model.name)
            generation.writer.add([notice])
        if run.stop_reason is not None:
            generation.stop(run.stop_reason)
        if self._draining:
            generation.release()
        if await generation.run():
            await self._recorder.record(lease, generation.writer.output_tokens, generation)


def fallbacks_of(
    model: ModelConfig, declared: Mapping[str, ModelConfig], request: GenerationRequest
) -> list[ModelConfig]:
    """Those that can be asked the same: a question about a picture is not for who sees none."""
    found = [declared[name] for name in model.fallback if name in declared]
    return [one for one in found if not request.has_images or "images" in one.supports]


def _start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    # A context of its own: a background task must not keep a request's context alive.
    loop = asyncio.get_running_loop()
    return loop.create_task(work, name="relay supervisor", context=Context())


def _loop(work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
    return _start(forever(work, f"relay supervisor {work!r}"))
