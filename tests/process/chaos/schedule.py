"""Which fault comes when: a pure function of the seed, readable as a list of lines."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Kind(StrEnum):
    WORKER_KILL = "worker_kill"
    WORKER_PAUSE = "worker_pause"
    WORKER_TERM = "worker_term"
    WORKER_CLOCK = "worker_clock"
    WEB_KILL = "web_kill"
    WEB_PAUSE = "web_pause"
    WEB_TERM = "web_term"
    WEB_CLOCK = "web_clock"
    REDIS_RESTART = "redis_restart"
    REDIS_EMPTY = "redis_empty"
    REDIS_FAILOVER = "redis_failover"
    REDIS_PAUSE = "redis_pause"
    REDIS_FULL = "redis_full"
    REDIS_KICK = "redis_kick"
    NET_SLOW = "net_slow"
    NET_CUT = "net_cut"
    DB_AWAY = "db_away"
    PROVIDER_PAUSE = "provider_pause"


@dataclass(frozen=True, slots=True)
class Fault:
    """What a kind does. `lasts_s` is drawn from this range; `on` is what only one fault at a time
    may touch."""

    on: str
    lasts_s: tuple[float, float]
    does: str
    holds: str
    """What must be true after it, beside what must be true after all of them."""


FAULTS: Final[Mapping[Kind, Fault]] = {
    Kind.WORKER_KILL: Fault(
        "worker", (0.5, 4), "kill -9, started again later",
        "its answers end as interrupted/worker_lost with their text, or run again without content",
    ),
    Kind.WORKER_PAUSE: Fault(
        "worker", (1, 9), "SIGSTOP, SIGCONT later",
        "after its lease it appends nothing and closes its provider's connections",
    ),
    Kind.WORKER_TERM: Fault(
        "worker", (0.5, 2), "SIGTERM, started again after it has left",
        "it leaves with status 0; what has content ends as interrupted/shutdown at the latest",
    ),
    Kind.WORKER_CLOCK: Fault(
        "worker", (3, 9), "its wall clock jumps by an hour, ahead or back, and to the truth again",
        "nothing ends early or lives on: times are the store's (PROTOCOL 9.4)",
    ),
    Kind.WEB_KILL: Fault(
        "web", (0.5, 3), "kill -9, started again later",
        "viewers resume elsewhere and get exactly the rest",
    ),
    Kind.WEB_PAUSE: Fault(
        "web", (1, 6), "SIGSTOP, SIGCONT later", "viewers give it up and resume elsewhere",
    ),
    Kind.WEB_TERM: Fault(
        "web", (0.5, 2), "SIGTERM, started again after it has left", "viewers are let go at once",
    ),
    Kind.WEB_CLOCK: Fault(
        "web", (3, 9), "its wall clock jumps by an hour, ahead or back, and to the truth again",
        "as for a worker; what it accepted has the store's time",
    ),
    Kind.REDIS_RESTART: Fault(
        "redis", (0.3, 4), "kill -9, started again with its append-only file",
        "shorter than a lease: answers go on; longer: they end as interrupted/worker_lost",
    ),
    Kind.REDIS_EMPTY: Fault(
        "redis", (0.3, 1.5), "kill -9, started again with nothing",
        "live writers restore their logs and answers go on",
    ),
    Kind.REDIS_FAILOVER: Fault(
        "redis", (0, 1.5),
        "the primary is killed or paused, its replica has not heard the last of it for so long",
        "live writers restore the lost tail; whoever is replaced takes no writes that count",
    ),
    Kind.REDIS_PAUSE: Fault("redis", (0.5, 4), "CLIENT PAUSE", "as after a restart"),
    Kind.REDIS_FULL: Fault(
        "redis", (1, 4), "maxmemory below what is used, noeviction",
        "running answers end as incomplete/log_limit, new ones are refused with 503",
    ),
    Kind.REDIS_KICK: Fault(
        "redis", (0, 0), "CLIENT KILL TYPE pubsub", "hubs subscribe again and read what they missed"
    ),
    Kind.NET_SLOW: Fault("net", (2, 6), "200 ms more to Redis, each way", "nothing is lost"),
    Kind.NET_CUT: Fault(
        "net", (0.5, 2), "each connection to Redis is cut within its next 2,000 bytes",
        "repeated writes add only what is missing",
    ),
    Kind.DB_AWAY: Fault(
        "db", (1, 7), "the database takes no writes", "ends are recorded when it is back"
    ),
    # Longer than read_s would open its circuit, and half a minute of the run would test nothing.
    Kind.PROVIDER_PAUSE: Fault(
        "provider", (0.5, 3), "SIGSTOP, SIGCONT later", "failed/stalled at the latest after read_s"
    ),
}  # fmt: skip

CLOCKS: Final = frozenset({Kind.WORKER_CLOCK, Kind.WEB_CLOCK})
"""What needs libfaketime."""
GAP_S: Final = (0.8, 3.5)
"""Between the starts of two faults: short enough that many overlap, long enough that most answers
live through several quiet moments as well."""
WARM_UP_S: Final = 3.0


@dataclass(frozen=True, slots=True, order=True)
class Step:
    at_s: float
    """Since the start of the run."""
    kind: Kind
    target: int
    """Which of the processes of that sort."""
    lasts_s: float

    def __str__(self) -> str:
        at, lasts = f"{self.at_s:7.2f} s", f"{self.lasts_s:.2f} s"
        return f"{at}  {self.kind:<15} #{self.target}  for {lasts:<7} {FAULTS[self.kind].does}"


def schedule(
    seed: int, faults_s: float, counts: Mapping[str, int], kinds: Sequence[Kind] = tuple(Kind)
) -> list[Step]:
    """Faults for `faults_s` seconds. `counts`: processes by what faults are on ("worker": 2)."""
    rng = random.Random(seed)
    busy_until: dict[tuple[str, int], float] = {}
    steps: list[Step] = []
    at_s = WARM_UP_S
    for kind in _dealt(rng, kinds):
        if at_s >= faults_s:
            return sorted(steps)
        on = FAULTS[kind].on
        target = rng.randrange(counts.get(on, 1))
        lasts_s = round(rng.uniform(*FAULTS[kind].lasts_s), 2)
        start_s = round(max(at_s, busy_until.get((on, target), 0.0)), 2)
        # A second on top: a process that was started again is up before it is hit once more.
        busy_until[on, target] = start_s + lasts_s + 1.0
        steps.append(Step(start_s, kind, target, lasts_s))
        at_s += rng.uniform(*GAP_S)
    return steps


def _dealt(rng: random.Random, kinds: Sequence[Kind]) -> Iterator[Kind]:
    """Like cards: every kind comes once before one comes twice."""
    while kinds:
        deck = list(kinds)
        rng.shuffle(deck)
        yield from deck
