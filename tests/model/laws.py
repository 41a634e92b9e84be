"""What must never happen, and the truth that the actors do not know but a judge does."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from tests.model.state import (
    BEFORE,
    HEARTBEAT,
    HEARTBEAT_LATE,
    LEASE,
    LONG_AGO,
    State,
    text_of,
)

if TYPE_CHECKING:
    from tests.model.world import World

FOREVER = 10**9


class Law(StrEnum):
    WORDS = "2 an answer lacks, repeats or mixes words"
    LOG_AND_RECORD = "3 log and record disagree"
    TWO_ENDS = "3 a viewer was shown another end than the record has"
    RECORD_CHANGED = "3 a final record was changed"
    STALE = "4 a stale writer was let in"
    DEPOSED = "4 a writer was deposed while its lease lay ahead"
    LOG_OPEN = "6 the log never ends"
    STUCK = "6 a viewer waits for ever"
    UNTOLD = "6 a viewer was sent away and never saw the end"
    LIE = "7 a taker wrote `cancelled` while an upstream was open"
    STOP_LOST = "7 a stop was lost"
    TOO_SOON = "8 stopped as abandoned while somebody counts as present"
    FOR_NOBODY = "8 words for nobody"
    QUEUED_FOR_NOBODY = "8 queued for nobody"
    RUN_AGAIN = "11 a second run after words were in the log"
    WRONG_TEXT = "13 a viewer's text is not the record's"
    NO_RECORD = "14 no record"
    TWO_RESPONSES = "quota: one question made two responses"
    RESERVED_TWICE = "quota: one response holds two reservations"
    UNRESERVED = "quota: a response runs without a reservation"
    RESERVED_FOR_GOOD = "quota: a reservation is left behind"
    MISCOUNTED = "quota: what was used is not what is counted"


class Broken(Counter[tuple[Law, bool]]):
    """How often each law was broken; True beside it: by the double fault, which cannot be had.

    The double fault is one: the store lost its tail, and the one writer that could restore it is
    gone, before the record was final. Or, of what was used: whoever had made the record final could
    not count it, and died before its next sweep.
    """

    def note(self, law: Law, *, double: bool = False) -> None:
        self[law, double] += 1

    def laws(self) -> set[Law]:
        """Those that no double fault excuses."""
        return {law for law, double in self if not double}


class Attendance:
    """Who watches, in truth: from when on a response may, and must, count as abandoned."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._attached: set[str] = set()
        self._forgotten: set[str] = set()
        """Attached when the store lost its tail, and not heard of since."""
        self._may: dict[str, int] = {}
        self._must: dict[str, int] = {}

    @property
    def watched(self) -> bool:
        return bool(self._attached)

    def created(self) -> None:
        if patience := self._world.patience:
            until = self._world.now + 2 * HEARTBEAT + patience.cancel_after
            self._must["creator"] = until
            self._may["creator"] = LONG_AGO if self._attached else until

    def attached(self, viewer: str) -> None:
        self._attached.add(viewer)
        self._may["creator"] = LONG_AGO

    def heard(self, viewer: str) -> None:
        """The store was told that it is there."""
        self._forgotten.discard(viewer)

    def lost(self, viewer: str) -> None:
        if viewer in self._attached and (patience := self._world.patience):
            now = self._world.now
            # A store that had no log when the viewer came was never told of it; one that lost its
            # tail knows of it as of some time ago.
            told = viewer in self._world.store.kept.viewers and viewer not in self._forgotten
            self._may[viewer] = now + patience.cancel_after if told else LONG_AGO
            self._must[viewer] = now + patience.cancel_after + 2 * HEARTBEAT + HEARTBEAT_LATE + 3
        self._attached.discard(viewer)

    def left(self, viewer: str) -> None:
        if viewer in self._attached and (patience := self._world.patience):
            self._may[viewer] = self._must[viewer] = self._world.now + patience.leave_after
        self._attached.discard(viewer)

    def store_lost(self) -> None:
        """Only who is there can come back to a store that forgot them; others may be forgotten."""
        self._forgotten |= self._attached
        if patience := self._world.patience:
            for viewer in self._may.keys() - {"creator"}:
                self._may[viewer] = LONG_AGO
            late = LEASE + 3 * HEARTBEAT + HEARTBEAT_LATE
            self._must["store"] = self._world.now + late + patience.cancel_after

    def may_be_judged(self) -> bool:
        return not self._attached and self._world.now >= max(self._may.values(), default=0)

    def must_be_judged(self, slack: int) -> bool:
        if self._attached or self._world.patience is None:
            return False
        return self._world.now > max(self._must.values(), default=FOREVER) + slack


def judge_end(world: World) -> None:
    """After the fair phase, in which everybody had the time to do what is due."""
    _judge_quota(world)
    record, broken = world.record, world.broken
    if not record.rows:
        return  # nobody was told that there would be an answer
    _judge_ends(world)
    if record.final is None:
        return
    status, text = record.final
    double = world.lost_end
    if world.store.kept.ended and (world.store.kept.ended, text_of(world.store.kept.log)) != (
        record.final
    ):
        broken.note(Law.LOG_AND_RECORD, double=double)
    told = [viewer for viewer in world.viewers if viewer.end is not None]
    if any(viewer.end != status for viewer in told):
        broken.note(Law.TWO_ENDS, double=double)
    elif any(viewer.text != text for viewer in told):
        broken.note(Law.WRONG_TEXT, double=double)
    if any(not _is_one_run(words) for words in (text, *(v.text for v in world.viewers))):
        broken.note(Law.WORDS, double=double)
    if record.stop_acknowledged and status == "completed" and not world.done_in_time:
        broken.note(Law.STOP_LOST)


def _judge_ends(world: World) -> None:
    broken = world.broken
    if world.record.final is None:
        broken.note(Law.NO_RECORD)
    if world.store.kept.state not in (None, State.ENDED):
        broken.note(Law.LOG_OPEN)
    if any(not viewer.done and not viewer.away for viewer in world.viewers):
        broken.note(Law.STUCK)
    if any(viewer.done and viewer.end is None for viewer in world.viewers):
        broken.note(Law.UNTOLD)


def _judge_quota(world: World) -> None:
    kept, broken = world.store.kept, world.broken
    if world.record.rows > 1:
        broken.note(Law.TWO_RESPONSES)
    if any(until >= world.now for until in kept.reserved.values()):
        broken.note(Law.RESERVED_FOR_GOOD)
    if world.record.final and kept.total != BEFORE + len(world.record.final.text):
        broken.note(Law.MISCOUNTED, double=world.record.forgot)


def _is_one_run(words: tuple[str, ...]) -> bool:
    run = words[0].split(".")[0] if words else ""
    return words == tuple(f"{run}.{n}" for n in range(1, len(words) + 1))
