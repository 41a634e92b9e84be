"""The table that a run prints, and the trace of one that went wrong."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.process.chaos.checker import COLUMNS, Verdict
from tests.process.chaos.recovery import told
from tests.process.chaos.schedule import FAULTS, Kind

if TYPE_CHECKING:
    from pathlib import Path

    from tests.process.chaos.ledger import Ledger

SHOWN = 12
"""Sentences below the table; the trace has all."""


def table(
    ledger: Ledger,
    verdict: Verdict,
    *,
    head: str,
    took_s: float,
    settle_s: float,
    memory_bytes: tuple[int, int],
) -> str:
    """`memory_bytes`: most that was resident, and most that one process had reserved."""
    resident_mib, reserved_mib = (size / 2**20 for size in memory_bytes)
    watches = [watch for asked in ledger.asked for watch in asked.watches]
    kinds = Counter(happened.step.kind for happened in ledger.happened)
    lines = [
        head,
        f"  {took_s:.0f} s, of which {settle_s:.1f} s to settle; "
        f"at most {resident_mib:.0f} MiB resident, {reserved_mib:.0f} MiB reserved by one process",
        _row("responses", len(ledger.asked)),
        _row("posts", f"{ledger.posts}, {ledger.refused} refused"),
        _row("stops", sum(a.stop_sent_unix_s is not None for a in ledger.asked)),
        _row("viewers", f"{len(watches)} over {sum(w.connections for w in watches)} connections"),
        _row("events delivered", sum(watch.events for watch in watches)),
        _row("snapshots delivered", sum(watch.snapshots for watch in watches)),
        "  ends",
        *(_row(f"  {end}", count) for end, count in sorted(verdict.ends.items())),
        f"  faults, {kinds.total()} in all        times   from death to ended or a live writer",
        *(_fault(kind, kinds[kind], verdict) for kind in Kind if kinds[kind]),
        "  " + "-" * 44,
        *(_row(column, verdict.count(column)) for column in COLUMNS),
    ]
    lines += [f"  {column}: {sentence}" for column, sentence in verdict.faults[:SHOWN]]
    if (more := len(verdict.faults) - SHOWN) > 0:
        lines.append(f"  … and {more} more")
    return "\n".join(lines)


def trace(path: Path, ledger: Ledger, verdict: Verdict, text: str) -> None:
    """Everything that happened in the order of time, then what is wrong."""
    rows: list[tuple[float, str]] = []
    for h in ledger.happened:
        rows.append(
            (h.start_s, f"fault  {h.step.kind} #{h.step.target}: {FAULTS[h.step.kind].does}")
        )
        rows.append((h.end_s, f"over   {h.step.kind} #{h.step.target}"))
        rows += [(at_s, f"held   {rid}") for rid, at_s in h.held.items()]
    for asked in ledger.asked:
        ids = ",".join(sorted(asked.ids))
        if asked.accepted_unix_s:
            sentence = f"asked  {asked.tag} {ids} {asked.script.ask(asked.tag)!r}"
            rows.append((asked.accepted_unix_s, sentence))
        if asked.stop_sent_unix_s:
            rows.append((asked.stop_sent_unix_s, f"stop   {asked.tag} told {asked.stop_told}"))
    for tag, end in verdict.ended.items():
        rows.append((end.ended_s, f"ended  {tag} {end.status}/{end.reason}, {len(end.text)} chars"))
    start_s = min((at_s for at_s, _ in rows), default=0.0)
    lines = [f"{at_s - start_s:8.3f} s (unix {at_s:.3f})  {what}" for at_s, what in sorted(rows)]
    lines += [f"{column}: {sentence}" for column, sentence in verdict.faults]
    path.write_text("\n".join([text, "", *lines, ""]))


def _row(name: str, value: object) -> str:
    return f"  {name:<26} {value}"


def _fault(kind: Kind, times: int, verdict: Verdict) -> str:
    found = [each for each in verdict.recoveries if each.kind is kind]
    return f"    {kind:<24} {times:>6}   {told(found)}"
