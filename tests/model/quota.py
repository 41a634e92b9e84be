"""Reserve, settle, refill (PROTOCOL 11): what a person has running and has used up."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from tests.model.laws import Law
from tests.model.state import BEFORE, RESERVED_FOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.model.store import Store
    from tests.model.world import World

RESPONSE = "response"
"""The id of the one response of this model."""


class Reserved(Enum):
    GRANTED = auto()
    REPEATED = auto()
    UNKNOWN = auto()


class Quota:
    def __init__(self, world: World, store: Store) -> None:
        self._world = world
        self._store = store
        self._granted_at = 10**9

    @property
    def whole(self) -> bool:
        whole_in = self._store.kept.whole_in
        if self._world.rules.refill_after_loss:
            return whole_in == self._store.losses
        return whole_in >= 0

    def reserve(self, key: str) -> Reserved:
        """Take a place for `key`, the response id, until it lapses."""
        now, kept, rules = self._world.now, self._store.kept, self._world.rules
        reserved = {
            who: until for who, until in kept.reserved.items() if until > now or not rules.lapse
        }
        if key in reserved or (rules.settled_stays and RESPONSE in kept.used):
            return Reserved.REPEATED
        if not self.whole:
            return Reserved.UNKNOWN
        reserved[key] = now + RESERVED_FOR if rules.lapse else 10**9
        self._granted_at = min(self._granted_at, now)
        self._reserved(reserved)
        return Reserved.GRANTED

    def _reserved(self, reserved: dict[str, int]) -> None:
        if len(reserved) > 1:
            self._world.broken.note(Law.RESERVED_TWICE)
        if RESPONSE in self._store.kept.used:
            self._world.broken.note(Law.RESERVED_FOR_GOOD)
        self._store.put(reserved=reserved)

    def judge_run(self) -> None:
        """Called when a response begins to run."""
        young = self._world.now < self._granted_at + RESERVED_FOR
        if young and not self._store.kept.reserved and not self._store.losses:
            self._world.broken.note(Law.UNRESERVED)

    def release(self, key: str) -> None:
        reserved = dict(self._store.kept.reserved)
        if reserved.pop(key, None) is not None:
            self._store.put(reserved=reserved)

    def settle(self, key: str, tokens: int) -> None:
        """Count a response that has ended and free its place."""
        kept, rules = self._store.kept, self._world.rules
        reserved = dict(kept.reserved)
        held = reserved.pop(key, 0) >= self._world.now
        used, total = dict(kept.used), kept.total
        if (RESPONSE not in used or not rules.settle_once) and (held or rules.settle_lapsed):
            used[RESPONSE] = tokens
            total += tokens
        self._store.put(reserved=reserved, used=used, total=total)

    def refill(self, rows: Mapping[str, int], *, running: bool, run: int) -> None:
        """Make the counters whole from what the records said in this run of the server."""
        kept, rules = self._store.kept, self._world.rules
        if not rules.refill_names_run:
            run = self._store.losses
        if running and not (RESPONSE in kept.used and rules.settled_stays):
            self._reserved({**kept.reserved, RESPONSE: self._world.now + RESERVED_FOR})
        if not rules.refill_marks:
            self._store.put(total=sum(rows.values()), whole_in=run)
            return
        missing = {key: tokens for key, tokens in rows.items() if key not in kept.used}
        self._store.put(
            used={**kept.used, **missing},
            total=kept.total + sum(missing.values()),
            whole_in=run,
        )


def rows_of(world: World) -> dict[str, int]:
    """What the records say that this person has used."""
    rows = {"before": BEFORE}
    if world.record.final is not None:
        rows[RESPONSE] = len(world.record.final.text)
    return rows
