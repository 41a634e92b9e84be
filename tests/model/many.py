"""Many schedules on all cores, counted."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING

from tests.model.rules import ALL, NAMES
from tests.model.schedule import play

if TYPE_CHECKING:
    from tests.model.laws import Law
    from tests.model.rules import Rules

CHUNK = 500


@dataclass(slots=True)
class Tally:
    """How many schedules broke which law, and the first seed that did."""

    schedules: int = 0
    counts: Counter[tuple[Law, bool]] = field(default_factory=Counter)
    first: dict[tuple[Law, bool], int] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        self.schedules += other.schedules
        self.counts += other.counts
        for key, seed in other.first.items():
            self.first[key] = min(seed, self.first.get(key, seed))

    def laws(self) -> set[Law]:
        """Those that no double fault excuses."""
        return {law for law, double in self.counts if not double}

    def lines(self) -> list[str]:
        return [
            f"{self.counts[key]:8d}  {key[0]}{' (the double fault)' * key[1]}"
            f"   first seed {self.first[key]}"
            for key in sorted(self.counts)
        ]


def tally(seeds: range, rules: Rules) -> Tally:
    found = Tally(schedules=len(seeds))
    for seed in seeds:
        for key in play(seed, rules):
            found.counts[key] += 1
            found.first.setdefault(key, seed)
    return found


def witness(name: str, count: int) -> tuple[int, Law] | None:
    """The first of `count` seeds whose schedule breaks a law without this one rule."""
    rules = ALL.without(name)
    for seed in range(count):
        if (laws := play(seed, rules).laws()) and not play(seed).laws():
            return seed, min(laws)
    return None


def witnesses_on_all_cores(count: int) -> dict[str, tuple[int, Law] | None]:
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        return dict(zip(NAMES, pool.map(partial(witness, count=count), NAMES), strict=True))


def tally_on_all_cores(first: int, count: int, rules: Rules) -> Tally:
    last = first + count
    chunks = [range(at, min(at + CHUNK, last)) for at in range(first, last, CHUNK)]
    total = Tally()
    # Spawned: the process that asks may have threads, and a fork would copy their locks.
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for found in pool.map(partial(tally, rules=rules), chunks):
            total.add(found)
    return total
