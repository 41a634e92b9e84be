"""The scripts of the store (relay/store/lua), over one immutable value; and how it loses its tail.

Presence and quotas have files of their own.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.model.laws import Law
from tests.model.presence import Presence
from tests.model.quota import Quota
from tests.model.state import (
    BEFORE,
    EMPTY,
    GRACE,
    LEASE,
    LONG_AGO,
    Entry,
    Job,
    Kept,
    State,
    text_of,
)

if TYPE_CHECKING:
    from tests.model.worker import Run
    from tests.model.world import World


class Claimed(Enum):
    RUN = auto()
    TAKE_OVER = auto()
    CLOSED = auto()
    BUSY = auto()
    GONE = auto()


class Wrote(Enum):
    OK = auto()
    CLOSED = auto()
    GAP = auto()
    FENCED = auto()
    LOST = auto()


class Reply(NamedTuple):
    outcome: Wrote
    tail: int = 0
    stop: bool = False
    abandoned: bool = False


class Store:
    def __init__(self, world: World) -> None:
        self._world = world
        counted = {"used": {"before": BEFORE}, "total": BEFORE, "whole_in": 0}
        self.kept: Kept = EMPTY._replace(**counted)  # type: ignore[arg-type]  # no TypedDict for it
        self._history: list[Kept] = []
        self._jobs = 0
        self._last_writer = 0
        self.restarted_at = LONG_AGO
        self.losses = 0
        self.presence = Presence(world, self)
        self.quota = Quota(world, self)

    def put(self, **changes: Any) -> None:
        self._history.append(self.kept)
        self.kept = self.kept._replace(**changes)

    def _publish(self, epoch: int, first: int, entries: tuple[Entry, ...]) -> None:
        for viewer in self._world.viewers:
            if viewer.subscribed and not self._world.unlucky(0.08):
                viewer.inbox.append((epoch, first, entries))

    @property
    def in_grace(self) -> bool:
        return self._world.rules.grace and self._world.now < self.restarted_at + GRACE

    # -- jobs -------------------------------------------------------------------------------------
    def enqueue(self) -> None:
        """One more entry for the same response: a reply was lost, or two asked for it."""
        self.put(jobs=self._one_more_job())

    def _one_more_job(self) -> tuple[Job, ...]:
        self._jobs += 1
        return (*self.kept.jobs, Job(self._jobs, "", LONG_AGO))

    def take(self, worker: str) -> int | None:
        """Hand out a job that nobody was handed, or that was not touched for a lease."""
        now = self._world.now
        for job in self.kept.jobs:
            if not job.owner or now - job.touched > LEASE:
                self.put(jobs=self._touched(job.number, worker, now))
                return job.number
        return None

    def _touched(self, number: int, owner: str, at: int) -> tuple[Job, ...]:
        return tuple(
            Job(number, owner, at) if job.number == number else job for job in self.kept.jobs
        )

    def ack(self, number: int) -> bool:
        """PROTOCOL 8.3"""
        if self._world.rules.ack_closed and self.kept.state not in (None, State.ENDED):
            return False
        self.put(jobs=tuple(job for job in self.kept.jobs if job.number != number))
        return True

    # -- the log ----------------------------------------------------------------------------------
    def create(self, *, again: bool = False) -> None:
        """PROTOCOL 1, 7.2; `again`: by a sweep that found no log."""
        if self.kept.state is not None and self._world.rules.create_once:
            return
        log = (Entry(0, "created"),)
        viewers = self.presence.at_create(again=again and self._world.rules.early_presence)
        self.put(
            **{"state": State.QUEUED, "epoch": 0, "lease_until": 0, "stop": False},
            **{"content": False, "log": log, "viewers": viewers, "jobs": self._one_more_job()},
        )
        self._world.attendance.created()
        self._publish(0, 1, log)

    def claim(self, number: int, worker: str) -> Claimed:
        """PROTOCOL 2"""
        world, kept = self._world, self.kept
        if kept.state is None:
            return Claimed.GONE
        if kept.state is State.ENDED:
            return Claimed.CLOSED
        if self.in_grace:
            return Claimed.BUSY
        if world.rules.busy and kept.lease_until > world.now:
            # Idle as if the lease were the last touch: it comes back when the lease lapses.
            self.put(jobs=self._touched(number, worker, kept.lease_until - LEASE))
            return Claimed.BUSY
        world.note_double_fault()
        if any(run.lease > world.now and run.epoch == kept.epoch for run in world.running()):
            world.broken.note(Law.DEPOSED)
        epoch = kept.epoch + 1
        if world.rules.ordered_epochs:
            epoch = max(epoch, world.now)
        abandoned = world.rules.judged_by_claim and self.presence.abandoned()
        shown = kept.content and world.rules.no_second_run
        self._last_writer = world.claims + 1
        changes = {"state": State.IN_PROGRESS, "epoch": epoch, "lease_until": world.now + LEASE}
        if shown or kept.stop or abandoned:
            self.put(**changes)
            return Claimed.TAKE_OVER
        if kept.content:
            world.broken.note(Law.RUN_AGAIN)
        if world.attendance.must_be_judged(0):
            world.broken.note(Law.FOR_NOBODY)
        self.quota.judge_run()
        started = (Entry(epoch, "started"),)
        self.put(**changes, log=kept.log + started)
        self._publish(epoch, len(self.kept.log), started)
        return Claimed.RUN

    def write(self, run: Run, first: int, entries: tuple[Entry, ...]) -> Reply:
        """Append, or append and close: one rule. PROTOCOL 3"""
        world, kept = self._world, self.kept
        if world.rules.deadline and world.now > run.lease:
            return Reply(Wrote.FENCED)
        if kept.state is None or kept.epoch < run.epoch:
            return self._restore(run) if world.rules.restore else self._refuse()
        if kept.epoch > run.epoch and world.rules.fence:
            return Reply(Wrote.FENCED)
        tail = len(kept.log)
        if kept.state is State.ENDED:
            return Reply(Wrote.CLOSED, tail)
        if first > tail + 1 and world.rules.gap:
            run.lease = world.now + LEASE
            self.put(lease_until=run.lease)
            return Reply(Wrote.GAP, tail, kept.stop)
        self._let_in(run)
        new = entries[max(0, tail - first + 1) :] if world.rules.compare else entries
        self._written(run, kept.log + new)
        if new:
            self._publish(run.epoch, tail + 1, new)
        return Reply(Wrote.OK, len(self.kept.log), kept.stop)

    def _restore(self, run: Run) -> Reply:
        """Rewrite log, meta and job from the writer's own events. PROTOCOL 10"""
        kept = self.kept
        self._let_in(run)
        jobs = [job for job in kept.jobs if job.number != run.job]
        viewers = self.presence.at_restore()
        job = Job(run.job, run.worker, self._world.now)
        self._written(
            run,
            tuple(run.events),
            **{"epoch": run.epoch, "stop": kept.stop or run.stop},
            **{"jobs": (*jobs, job), "viewers": viewers},
        )
        self._publish(run.epoch, 1, self.kept.log)
        return Reply(Wrote.OK, len(self.kept.log), self.kept.stop)

    def _refuse(self) -> Reply:
        self._world.writer_refused = True
        return Reply(Wrote.FENCED)

    def _let_in(self, run: Run) -> None:
        if run.serial < self._last_writer:
            self._world.broken.note(Law.STALE)
        self._last_writer = max(self._last_writer, run.serial)
        # A runner vouches for its own connection only: a paused one may still hold another.
        if run.events[-1].data == "cancelled" and run.name is None:
            self._judge_cancelled()

    def _judge_cancelled(self) -> None:
        if self._world.upstream_is_open():
            self._world.broken.note(Law.LIE, double=self._world.orphaned)

    def _written(self, run: Run, log: tuple[Entry, ...], **more: Any) -> None:
        run.lease = self._world.now + LEASE
        state = State.ENDED if log[-1].kind == "ended" else State.IN_PROGRESS
        self.put(log=log, state=state, content=bool(text_of(log)), lease_until=run.lease, **more)

    def renew(self, run: Run) -> Reply:
        """PROTOCOL 2.3, 2.6, 7.4"""
        world, kept = self._world, self.kept
        ended = kept.state is State.ENDED
        if world.rules.deadline and world.now > run.lease and not ended:
            return Reply(Wrote.FENCED)
        if kept.state is None or kept.epoch < run.epoch:
            return Reply(Wrote.LOST) if world.rules.restore else self._refuse()
        if kept.epoch > run.epoch and world.rules.fence:
            return Reply(Wrote.FENCED)
        run.lease = world.now + LEASE
        jobs = self._touched(run.job, run.worker, world.now)
        if ended:
            self.put(jobs=jobs)
            return Reply(Wrote.CLOSED, len(kept.log))
        self.put(jobs=jobs, lease_until=run.lease)
        abandoned = world.rules.judged_by_renew and self.presence.abandoned()
        return Reply(Wrote.OK, len(kept.log), kept.stop, abandoned)

    def cancel(self) -> bool:
        """Set the flag and wake the writer, or end a queued response: True. PROTOCOL 6"""
        world, kept = self._world, self.kept
        closed = False
        if kept.state is State.QUEUED and not self.in_grace:
            world.note_double_fault()
            self._judge_cancelled()
            epoch = kept.epoch + 1
            if world.rules.ordered_epochs:
                epoch = max(epoch, world.now)
            end = (Entry(epoch, "ended", "cancelled"),)
            self.put(state=State.ENDED, epoch=epoch, log=kept.log + end)
            self._publish(epoch, len(self.kept.log), end)
            closed = True
        elif kept.state in (State.QUEUED, State.IN_PROGRESS) and not kept.stop:
            self.put(stop=True)
        for worker in world.workers:  # the wake-up, which may be lost
            if worker.run is not None and worker.can_act and not world.unlucky(0.3):
                worker.run.stop = True
        return closed

    def retire(self) -> None:
        """PROTOCOL 8.1"""
        self.put(
            **{"state": None, "epoch": 0, "lease_until": 0, "stop": False},
            **{"content": False, "log": (), "viewers": {}},
        )

    # -- faults -----------------------------------------------------------------------------------
    def lose(self) -> None:
        """Come back empty, or without the last few writes; subscriptions are gone either way."""
        world, before = self._world, self.kept
        self.losses += 1
        if world.dice.random() < 0.25:
            self.kept, self._history = EMPTY, []
        elif self._history:
            back = world.dice.randint(1, min(8, len(self._history)))
            self.kept = self._history[-back]
            del self._history[-back:]
        self.restarted_at = world.now
        world.attendance.store_lost()
        world.end_was_lost |= before.state is State.ENDED and self.kept.state is not State.ENDED
        world.shrunk |= len(self.kept.log) < len(before.log)
        for viewer in world.viewers:
            viewer.subscribed = False
