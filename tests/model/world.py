"""One response and everything around it: a store, a record, two workers, two viewers, two posts."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.model.laws import Attendance, Broken, Law
from tests.model.poster import Poster
from tests.model.record import Record
from tests.model.state import RENEW, Patience, State
from tests.model.store import Store
from tests.model.viewer import Viewer
from tests.model.worker import Worker

if TYPE_CHECKING:
    from tests.model.rules import Rules
    from tests.model.worker import Run

POLICIES = (None, Patience(60, 15), Patience(60, 15), Patience(0, 0))

ENDLESS_STEPS = 300


class World:
    """The clock, the dice and the actors; whoever acts finds the others here.

    One step is one atomic action of one actor: a script, a query, the delivery of a message.
    """

    def __init__(self, seed: int, rules: Rules) -> None:
        self.dice = random.Random(seed)
        self.deaths = random.Random(-seed - 1)
        """of processes that owe something; dice of their own, so that seeds stay what they were"""
        self.rules = rules
        self.now = 1
        self.fair = False
        """From here on nothing fails any more, so everything must come to its end."""
        self.fair_since = 0
        self.fair_steps = 0
        self.patience = self.dice.choice(POLICIES)
        self.broken = Broken()
        self.attendance = Attendance(self)
        self.store = Store(self)
        self.record = Record(self)
        self.workers = (Worker(self, 0), Worker(self, 1))
        self.viewers = (Viewer(self, 0), Viewer(self, 1))
        self.posters = (Poster(self, 0), Poster(self, 1))
        self.claims = 0
        """granted so far, in the order in which they were"""
        self.runs = 0
        """upstreams opened so far; each has a name of its own"""
        self.done_in_time = False
        """an upstream was done before the fair phase, in which stops are heard"""
        self.shrunk = False
        """the store lost entries of the log"""
        self.end_was_lost = False
        """the store lost an end that may have been shown"""
        self.writer_refused = False
        """a writer that could have restored the log was not let in, so that is no excuse"""
        self.orphaned = False
        """the double fault: see `laws.Broken`"""
        self.lost_end = False
        """the double fault took an end with it"""

    def unlucky(self, share: float) -> bool:
        return not self.fair and self.dice.random() < share

    def at_rest(self) -> bool:
        """Nothing is left that anybody would do: more steps change nothing."""
        kept = self.store.kept
        return (
            (self.record.final is not None or not self.record.rows)
            and kept.state in (None, State.ENDED)
            and not kept.jobs
            and self.store.quota.whole
            and all(poster.done for poster in self.posters)
            and all(viewer.done or viewer.away for viewer in self.viewers)
            and all(worker.idle for worker in self.workers)
        )

    def running(self) -> list[Run]:
        return [worker.run for worker in self.workers if worker.run is not None]

    def upstream_is_open(self) -> bool:
        return any(run.upstream_open for run in self.running())

    def speaks_for_ever(self) -> bool:
        """In the fair phase an upstream that should be stopped ends only if it is."""
        unwanted = self.patience is not None and not self.attendance.watched
        return (
            self.fair
            and self.fair_steps < ENDLESS_STEPS
            and (self.record.stop_acknowledged or unwanted)
        )

    def judge_token(self) -> None:
        """Workers act in time only in the fair phase, so words for nobody count only there."""
        in_time = self.fair and self.now > self.fair_since + 2 * RENEW
        if in_time and self.attendance.must_be_judged(2 * RENEW):
            self.broken.note(Law.FOR_NOBODY)

    def note_double_fault(self) -> None:
        """Somebody decides about a log whose tail is lost: is a writer left that could restore it?

        A writer that was silent for a lease is not; it is fenced when it comes back.
        """
        if not self.shrunk or self.writer_refused or self.record.final is not None:
            return
        epoch = self.store.kept.epoch
        if not any(
            worker.can_act and self.now <= worker.run.lease and worker.run.epoch >= epoch
            for worker in self.workers
            if worker.run is not None
        ):
            self.orphaned = True
            self.lost_end |= self.end_was_lost
