"""How long answers were without a live writer after theirs was hit (PROTOCOL 9.1). Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from tests.process.chaos.expected import near
from tests.process.chaos.schedule import FAULTS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.process.chaos.ledger import Happened

LEASE_S: Final = 3.0
"""`RELAY_LEASE_S` of all processes of a run."""
BOUND_S: Final = LEASE_S + 5.0
"""PROTOCOL 9.1."""
DELAYING: Final = frozenset(
    {Kind.WORKER_KILL, Kind.WORKER_PAUSE, Kind.WORKER_TERM}
    | {kind for kind in Kind if FAULTS[kind].on in ("redis", "net", "db")}
) - {Kind.REDIS_KICK, Kind.REDIS_FULL}
"""What can keep the next worker from a job: it is not there, or it reaches no log or record."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """One answer that a worker held when it was hit."""

    kind: Kind
    tag: str
    took_s: float
    """Until `ended` or the next live writer."""
    second: frozenset[Kind]
    """Other faults that were in the way of whoever came to its rescue."""

    @property
    def late(self) -> bool:
        return self.took_s > BOUND_S


def recoveries(
    tag: str, rid: str, claims_s: Sequence[float], ended_s: float, happened: Sequence[Happened]
) -> Iterable[Recovery]:
    """Of one answer: one for each fault that hit its worker.

    Args:
        claims_s: when it was claimed, by its epochs (PROTOCOL 2.1), in Unix seconds.
    """
    for fault in happened:
        died_s = fault.held.get(rid)
        if died_s is None or ended_s <= died_s:
            continue
        rescued_s = min([ended_s, *(at_s for at_s in claims_s if at_s > died_s)])
        if rescued_s == ended_s and fault.step.kind is Kind.WORKER_PAUSE:
            # Nobody else has claimed it: the one that slept has woken up and gone on.
            rescued_s = min(ended_s, fault.end_s)
        others = [other for other in happened if other is not fault]
        # What comes when the bound has passed excuses nothing. What was away has to be back for a
        # lease before it counts as back (PROTOCOL 10.4).
        second = near(others, died_s, min(rescued_s, died_s + BOUND_S), LEASE_S) & DELAYING
        yield Recovery(fault.step.kind, tag, rescued_s - died_s, frozenset(second))


def told(found: Sequence[Recovery]) -> str:
    """One kind's column of the table."""
    if not found:
        return ""
    times_s = [each.took_s for each in found]
    late = [each for each in found if each.late]
    text = f"{len(found):>4}  p50 {median(times_s):5.2f} s  worst {max(times_s):5.2f} s"
    if late:
        met = Counter(str(kind) for each in late for kind in each.second or ("nothing else",))
        names = ", ".join(f"{name} {count}" for name, count in sorted(met.items()))
        text += f"; {len(late)} over {BOUND_S:g} s, which met: {names}"
    return text
