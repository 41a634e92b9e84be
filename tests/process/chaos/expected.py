"""Which ends an answer may have, given its script and what happened while it lived. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.process.chaos.schedule import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.process.chaos.ledger import Asked, Happened

AFTERMATH_S = 15.0
"""What a fault does to an answer may show this much later: a lease, a limit of silence, a drain."""
LOSES_WORKERS = frozenset(
    {Kind.WORKER_KILL, Kind.WORKER_PAUSE, Kind.WORKER_TERM}
    # By a lease that could not be renewed.
    | {Kind.REDIS_RESTART, Kind.REDIS_EMPTY, Kind.REDIS_FAILOVER, Kind.REDIS_PAUSE}
    | {Kind.NET_CUT, Kind.NET_SLOW}
)
CLOCKS_S = 3.0
"""How far the times of a record may be off: the store's clock is heard over a network that is slow
at times."""
CIRCUIT_S = 30.0 + AFTERMATH_S
"""How long an upstream that failed is left alone (relay/upstream/circuit.py)."""
_WORD = re.compile(r"(\w+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of one answer as its record tells it."""

    status: str
    reason: str | None
    text: str
    attempt: int
    """Runs that were started."""
    created_s: float
    ended_s: float


def near(
    happened: Iterable[Happened], start_s: float, end_s: float, after_s: float = AFTERMATH_S
) -> set[Kind]:
    """Kinds of the faults that touched this time, or ended shortly before it."""
    return {h.step.kind for h in happened if h.start_s <= end_s and h.end_s + after_s >= start_s}


def wrong_end(asked: Asked, end: Ended, happened: list[Happened], total_s: float) -> str | None:
    """None if the end can be; else a sentence."""
    late_s = (asked.accepted_unix_s or end.created_s) + CLOCKS_S
    if not asked.asked_unix_s - CLOCKS_S <= end.created_s <= late_s:
        off_s = end.created_s - asked.asked_unix_s
        return f"it was created {off_s:.1f} s after it was asked for the first time"
    if end.ended_s < end.created_s - CLOCKS_S:
        return f"it ended {end.created_s - end.ended_s:.1f} s before it was created"
    last_s = end.ended_s + CLOCKS_S  # a fault may have begun before an end that says otherwise
    kinds = near(happened, end.created_s, last_s)
    left_alone = near(happened, end.created_s, last_s, CIRCUIT_S) & {Kind.PROVIDER_PAUSE}
    if end.reason == "overloaded" and (asked.script.failing or left_alone):
        return None
    if not _may_be(asked, end, kinds, total_s):
        faults = ", ".join(sorted(kinds)) or "nothing"
        return f"{end.status}/{end.reason} of {asked.script.ask(asked.tag)!r} near {faults}"
    return None


def _may_be(asked: Asked, end: Ended, kinds: set[Kind], total_s: float) -> bool:
    script = asked.script
    match end.status, end.reason:
        case "completed", None:
            return not script.failing
        case "cancelled", "user":
            return asked.stop_sent_unix_s is not None
        case "interrupted", "worker_lost":
            return bool(kinds & LOSES_WORKERS)
        case "interrupted", "shutdown":
            return Kind.WORKER_TERM in kinds
        case "incomplete", "log_limit":
            return Kind.REDIS_FULL in kinds
        case "failed", "wall_clock":
            # By our own clock: its own may have been wrong.
            return end.ended_s - asked.asked_unix_s >= total_s - CLOCKS_S
        case "failed", "internal":
            return end.attempt >= 3
        case "failed", ("stalled" | "timeout"):
            return script.model == "stall" or Kind.PROVIDER_PAUSE in kinds
        case "failed", "truncated":
            return script.model == "cut"
        case "failed", "connection":
            return script.model == "reset"
        case "failed", ("rate_limit" | "server_error"):
            return script.model == "fail"
        case _:
            return False


def text_faults(asked: Asked, end: Ended, sent_words: dict[int, int]) -> list[tuple[str, str]]:
    """What is wrong with a text: (column, sentence).

    Args:
        sent_words: by attempt, how many words the provider had put on the wire.
    """
    faults = []
    words = end.text.split(" ") if end.text else []
    parts = [_WORD.fullmatch(word) for word in words]
    numbers = [int(part[3]) for part in parts if part]
    attempts = {int(part[2]) for part in parts if part}
    if any(part is None or part[1] != asked.tag for part in parts):
        faults.append(("reordered", f"{asked.tag}: words of something else in {end.text[-200:]!r}"))
    if len(attempts) > 1:
        faults.append(("repeated", f"{asked.tag}: text of several attempts {sorted(attempts)}"))
    if len(set(numbers)) < len(numbers):
        faults.append(("repeated", f"{asked.tag}: a word twice in {end.text[-200:]!r}"))
    elif numbers != sorted(numbers):
        faults.append(("reordered", f"{asked.tag}: {end.text[-200:]!r}"))
    elif numbers != list(range(1, len(numbers) + 1)):
        faults.append(("lost", f"{asked.tag}: a hole in {end.text[-200:]!r}"))
    whole = 1 if asked.script.behaviour == "slow-first" else asked.script.words
    # An end that its own worker saw in the bytes comes after all the words before it.
    if (end.status == "completed" or end.reason == "truncated") and len(words) != whole:
        faults.append(("lost", f"{asked.tag}: {end.status} with {len(words)} of {whole} words"))
    for attempt in attempts:
        if len(words) > sent_words.get(attempt, 0):
            sentence = f"{asked.tag}: {len(words)} words, {sent_words.get(attempt, 0)} were sent"
            faults.append(("reordered", sentence))
    return faults
