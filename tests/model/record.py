"""The application's record of the response, and the sweep that repairs what others left."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.model.laws import Law
from tests.model.quota import RESPONSE, rows_of
from tests.model.state import LOG_LATE, State, text_of

if TYPE_CHECKING:
    from tests.model.world import World

DIES = 0.2
"""Of the processes that owe a settlement, before their next sweep."""


class Final(NamedTuple):
    status: str
    text: tuple[str, ...]


class Record:
    def __init__(self, world: World) -> None:
        self._world = world
        self.rows = 0
        """rows that questions of one key have made"""
        self.final: Final | None = None
        self.seen_running = False
        """the sweep has seen a log that was started"""
        self.wish = False
        self.stop_acknowledged = False
        """a person was told that the stop is under way"""
        self._missing_since: int | None = None
        """since when sweeps have found no log; one look is not enough to call it lost"""
        self._unsettled = False
        """no job brings a worker to what was finalized here, so it is tried again here"""
        self.forgot = False
        """the process that would have settled it died, and no job was left to bring a worker"""
        self._folded: Final | None = None
        """what a sweep has read and the next one will write: a slow process"""
        self._refill: tuple[dict[str, int], bool, int] | None = None
        """rows, whether the response runs, and in which run of the server that was read"""

    # -- rows -------------------------------------------------------------------------------------
    def insert(self) -> bool:
        """Write the row. False: the database failed, and whether the row is there is unknown."""
        if self._world.unlucky(0.08):
            return False
        if self.rows == 0 or not self._world.rules.one_id:
            self.rows += 1
        return not self._world.unlucky(0.05)

    def finalize(self, status: str, text: tuple[str, ...]) -> bool:
        """PROTOCOL 8.2. False: the database failed, before or after it had written."""
        if self._world.unlucky(0.12):
            return False
        final = Final(status, text)
        if self.final is None or not self._world.rules.one_record:
            if self.final is not None and self.final != final:
                self._world.broken.note(Law.RECORD_CHANGED)
            self.final = final
        return not self._world.unlucky(0.04)

    def settle(self) -> bool:
        """Count what the row says. False: the store was not reached."""
        if self._world.unlucky(0.08):
            return False
        if self.final is not None:
            self._world.store.quota.settle(RESPONSE, len(self.final.text))
        return not self._world.unlucky(0.04)

    def stop(self) -> None:
        """A person wishes a stop: a column first, then the flag and the wake-up. PROTOCOL 6.1"""
        self.wish = True
        self._send_stop()
        self.stop_acknowledged = self._world.store.kept.ended is None

    def _send_stop(self) -> None:
        if (self._world.rules.record_wins and self.final) or not self._world.store.cancel():
            return
        self._finalize_from_log()  # whoever closed it on the spot also finalizes it

    def _finalize_from_log(self) -> None:
        kept = self._world.store.kept
        if kept.ended:
            self._make_final(Final(kept.ended, text_of(kept.log)))

    def _make_final(self, final: Final) -> None:
        self._unsettled = not (self.finalize(*final) and self.settle())

    # -- the sweep --------------------------------------------------------------------------------
    def sweep(self) -> None:
        """What every process does every few seconds for rows that are not final."""
        world, kept = self._world, self._world.store.kept
        self._refill_quota()
        if self._unsettled and not world.fair and world.deaths.random() < DIES:
            self._unsettled = False
            self.forgot |= not kept.jobs
        if self._unsettled and world.rules.settled_later:
            self._unsettled = not self.settle()
        if self._folded is not None:
            folded, self._folded = self._folded, None
            self._make_final(folded)
        if kept.state is not None:
            self._missing_since = None
        if not self.rows or self.final is not None:
            return
        if kept.state is None:
            self._miss_log()
        elif kept.state is State.ENDED:
            if kept.ended and world.dice.random() < 0.3:  # usually its worker comes back for it
                self._folded = Final(kept.ended, text_of(kept.log))
        else:
            self.seen_running |= len(kept.log) > 1
        if self.wish and world.rules.wish_is_kept:
            self._send_stop()
        if kept.state is State.QUEUED:
            self._judge_queued()

    def _miss_log(self) -> None:
        world = self._world
        if self._missing_since is None:
            self._missing_since = world.now
        late = world.now - self._missing_since > LOG_LATE
        if self.seen_running and late:
            world.note_double_fault()
            self._make_final(Final("interrupted", ()))
        elif not self.seen_running and (late or not world.store.losses):
            world.note_double_fault()
            world.store.create(again=True)

    def _judge_queued(self) -> None:
        world = self._world
        if world.rules.judged_by_sweep and world.store.presence.abandoned():
            self.wish = True
            self._send_stop()
        queued = world.store.kept.state is State.QUEUED
        if queued and world.attendance.must_be_judged(0) and not world.store.in_grace:
            world.broken.note(Law.QUEUED_FOR_NOBODY)

    def _refill_quota(self) -> None:
        """The person asks for something else: counters that are missing are made anew.

        The query and the script are two steps, and much may happen in between.
        """
        if self._refill is not None:
            rows, running, run = self._refill
            self._refill = None
            self._world.store.quota.refill(rows, running=running, run=run)
        elif not self._world.store.quota.whole and self._world.rules.refill:
            running = self.rows > 0 and self.final is None
            self._refill = rows_of(self._world), running, self._world.store.losses
