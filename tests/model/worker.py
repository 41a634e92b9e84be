"""A worker with one run: hand-out, claim, record, run or close, fold, finalize, settle, ack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.state import RENEW, Entry, text_of
from tests.model.store import Claimed, Reply, Wrote

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.world import World


class Run:
    """One claim of the response, from its claim to its ack."""

    def __init__(
        self, *, worker: str, job: int, epoch: int, log: tuple[Entry, ...], serial: int, lease: int
    ) -> None:
        self.worker = worker
        self.job = job
        self.epoch = epoch
        self.events = list(log)
        """all from seq 1 until the ack, so that a lost log can be restored (PROTOCOL 3.2)"""
        self.confirmed = len(log)
        self.serial = serial
        """how many claims there were before, which no loss of the store can undo"""
        self.lease = lease
        """the last `lease_until` that the store gave"""
        self.renewed_at = lease
        self.phase = "write"
        self.writer = True
        """False: the log was found closed, so this is no writer of it and restores nothing"""
        self.name: str | None = None
        """of its upstream; None: it opened none and only closes"""
        self.upstream_open = False
        self.left = 0
        """tokens that its upstream is still to say"""
        self.stop = False

    @property
    def has_ended(self) -> bool:
        return self.events[-1].kind == "ended"


class Worker:
    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self.name = f"w{number}"
        self.alive = True
        self.paused_until = 0
        self.run: Run | None = None
        self._job: int | None = None

    @property
    def can_act(self) -> bool:
        return self.alive and self.paused_until <= self._world.now

    @property
    def idle(self) -> bool:
        return self.run is None and self._job is None

    def die(self) -> None:
        """Its connections close with it."""
        self.alive, self.run, self._job = False, None, None

    def step(self) -> None:
        world, run = self._world, self.run
        if run is not None:
            if world.dice.random() < 0.05:
                # Its own job comes back late, or a second entry of it: that is no new run.
                world.store.take(self.name)
            _PHASES[run.phase](self, run)
        elif self._job is not None:
            self._claim(self._job)
            self._job = None
        else:
            self._job = world.store.take(self.name)

    # -- from job to run --------------------------------------------------------------------------
    def _claim(self, job: int) -> None:
        world, store = self._world, self._world.store
        stopped, opened = store.kept.stop, len(store.kept.log) > 1
        claimed = store.claim(job, self.name)
        if claimed is Claimed.BUSY:
            return
        if claimed is Claimed.GONE:
            self._start(job).phase = "retire" if world.record.final else "ack"
            return
        run = self._start(job)
        if claimed is Claimed.CLOSED:
            run.phase, run.writer = "fold", False
        elif world.rules.record_wins and world.record.final:
            run.phase = "retire"
        elif world.unlucky(0.03):
            self.run = None  # the reply was lost: the lease runs out unused
        elif claimed is Claimed.RUN:
            world.runs += 1
            run.name, run.left = f"r{world.runs}", world.dice.randint(2, 9)
            run.phase, run.upstream_open = "generate", True
        elif world.rules.honest_cancel:
            # `started` may mean that an upstream is open somewhere.
            self._end(run, "interrupted" if opened else "cancelled")
        else:
            self._end(run, "cancelled" if stopped else "interrupted")

    def _start(self, job: int) -> Run:
        world, kept = self._world, self._world.store.kept
        world.claims += 1
        self.run = Run(
            worker=self.name,
            job=job,
            epoch=kept.epoch,
            log=kept.log,
            serial=world.claims,
            lease=kept.lease_until,
        )
        self.run.renewed_at = world.now
        return self.run

    def _end(self, run: Run, status: str) -> None:
        run.upstream_open = False
        run.events.append(Entry(run.epoch, "ended", status))
        run.phase = "write"

    def _drop(self, run: Run) -> None:
        """Fenced, or not ours to finish: abort the upstream, write nothing more, do not ack."""
        run.upstream_open = False
        self.run = None

    # -- phases -----------------------------------------------------------------------------------
    def _generate(self, run: Run) -> None:
        world = self._world
        if world.now - run.renewed_at >= RENEW:
            self._renew(run)
            return
        if run.stop:
            self._end(run, "cancelled")
        elif world.dice.random() < 0.6:
            self._next_token(run)
        self._write(run)

    def _next_token(self, run: Run) -> None:
        world = self._world
        if not run.left:
            world.done_in_time |= not world.fair
            self._end(run, "completed")
            return
        spoken = sum(entry.kind == "text" for entry in run.events)
        run.events.append(Entry(run.epoch, "text", f"{run.name}.{spoken + 1}"))
        world.judge_token()
        if not world.speaks_for_ever():
            run.left -= 1

    def _renew(self, run: Run) -> None:
        if self._world.unlucky(0.1):
            return
        run.renewed_at = self._world.now
        reply = self._world.store.renew(run)
        if reply.outcome is Wrote.FENCED:
            self._drop(run)
        elif reply.outcome is Wrote.LOST:
            run.confirmed = 0
            self._write(run)
        else:
            run.stop |= reply.stop or reply.abandoned

    def _write(self, run: Run) -> None:
        """Send what is not confirmed; whatever is lost on the way, it is sent again."""
        if run.confirmed == len(run.events):
            return
        lost = 1.0 if self._world.fair else self._world.dice.random()
        if lost < 0.05:
            return
        reply = self._world.store.write(run, run.confirmed + 1, tuple(run.events[run.confirmed :]))
        if lost < 0.1:
            return
        self._answered(run, reply)

    def _answered(self, run: Run, reply: Reply) -> None:
        if reply.outcome is Wrote.FENCED:
            self._drop(run)
        elif reply.outcome is Wrote.CLOSED:
            run.upstream_open, run.phase = False, "fold"
        elif reply.outcome is Wrote.GAP:
            run.confirmed = reply.tail
        else:
            run.confirmed = len(run.events)
            run.stop |= reply.stop
            if run.has_ended:
                run.phase = "fold"

    def _fold(self, run: Run) -> None:
        """Fold the log, finalize; renewals go on. PROTOCOL 2.6, 8.2"""
        world = self._world
        reply = world.store.renew(run)
        kept = world.store.kept
        if reply.outcome is Wrote.FENCED:
            self._drop(run)
        elif reply.outcome is Wrote.CLOSED and kept.ended:
            if world.record.finalize(kept.ended, text_of(kept.log)):
                run.phase = "settle" if world.rules.settle_before_ack else "ack"
        elif run.writer and run.has_ended and world.record.final is None:
            # The store lost the end, or all of it: what was told is told again.
            run.confirmed, run.phase = reply.tail, "write"
        else:
            self._drop(run)

    def _settle(self, run: Run) -> None:
        if self._world.record.settle():
            run.phase = "ack" if self._world.rules.settle_before_ack else "done"

    def _retire(self, run: Run) -> None:
        """The record is final: it wins over whatever the log says. PROTOCOL 8.1"""
        if self._world.rules.settled_by_finder and not self._world.record.settle():
            return
        self._world.store.retire()
        run.phase = "ack"

    def _ack(self, run: Run) -> None:
        if not self._world.store.ack(run.job) or self._world.rules.settle_before_ack:
            self.run = None
        else:
            run.phase = "settle"

    def _done(self, run: Run) -> None:
        del run
        self.run = None


_PHASES: dict[str, Callable[[Worker, Run], None]] = {
    "generate": Worker._generate,
    "write": Worker._write,
    "fold": Worker._fold,
    "settle": Worker._settle,
    "retire": Worker._retire,
    "ack": Worker._ack,
    "done": Worker._done,
}
