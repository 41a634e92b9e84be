"""One run: build the ground, let the crowd in, break things, heal, settle, check, report."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.process.chaos.checker import check
from tests.process.chaos.clock import library
from tests.process.chaos.crowd import Crowd
from tests.process.chaos.faults import play
from tests.process.chaos.ground import TOTAL_S, Ground
from tests.process.chaos.ledger import Ledger
from tests.process.chaos.report import table, trace
from tests.process.chaos.schedule import CLOCKS, Kind, schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

SETTLE_S = TOTAL_S + 70.0
"""After the last fault: the wall clock of an answer asked for a moment before, and what the sweep
gives a log that is missing (twice 30 s)."""
MAX_BYTES = 4 * 2**30


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int = 1
    faults_s: float = 300.0
    webs: int = 2
    workers: int = 2
    at_once: int = 8
    viewers: int = 4
    """Of one answer, at most."""
    words: int = 400
    """Of one answer, at most."""
    postgres: bool = False
    kinds: Sequence[Kind] = tuple(Kind)
    keep: bool = False
    """Logs and trace of a clean run, too."""


@dataclass(frozen=True, slots=True)
class Outcome:
    clean: bool
    report: str
    folder: Path | None
    """Logs and trace, if they were kept: always when the run was not clean."""


async def run(plan: Plan) -> Outcome:
    """Bounded: the faults' time, `SETTLE_S`, and about a minute around them."""
    kinds, left_out = _possible(plan.kinds)
    folder = Path(tempfile.mkdtemp(prefix=f"unbroken-chaos-{plan.seed}-"))
    ledger = Ledger()
    counts = {"worker": plan.workers, "web": plan.webs}
    steps = schedule(plan.seed, plan.faults_s, counts, kinds)
    start_s = time.monotonic()
    async with Ground(
        folder,
        webs=plan.webs,
        workers=plan.workers,
        seed=plan.seed,
        postgres=plan.postgres,
        sentinels=Kind.REDIS_FAILOVER in kinds,
    ) as ground:
        memory = asyncio.create_task(ground.watch())
        crowd = Crowd(
            ledger,
            ground.urls,
            ground.key,
            seed=plan.seed,
            at_once=plan.at_once,
            viewers=plan.viewers,
            words=plan.words,
        )
        until_s = asyncio.get_running_loop().time() + plan.faults_s
        reading = asyncio.create_task(crowd.run(until_s))
        try:
            await play(ground, ledger, steps)
            await ground.heal()
            healed_s = time.monotonic()
            # Those who wait when it is over are stuck: the checker finds them.
            await asyncio.wait([reading], timeout=SETTLE_S + max(0.0, until_s - healed_s))
            if reading.done():
                reading.result()
                await ground.until_quiet(SETTLE_S)
            settle_s = time.monotonic() - max(healed_s, until_s)
        finally:
            reading.cancel()
            memory.cancel()
            await asyncio.gather(reading, memory, return_exceptions=True)
        ground.look_into_logs()
        ledger.complaints += ground.complaints
        verdict = await check(ground, ledger)
        memory_bytes = (ground.peak_bytes, ground.peak_process_bytes)
    clean = not verdict.faults and memory_bytes[0] < MAX_BYTES
    text = table(
        ledger,
        verdict,
        head=_head(plan) + left_out,
        took_s=time.monotonic() - start_s,
        settle_s=settle_s,
        memory_bytes=memory_bytes,
    )
    if clean and not plan.keep:
        shutil.rmtree(folder)
        return Outcome(True, text, None)
    trace(folder / "trace.txt", ledger, verdict, text)
    return Outcome(clean, f"{text}\n  trace and logs: {folder}", folder)


def _possible(kinds: Sequence[Kind]) -> tuple[list[Kind], str]:
    """Those that this machine can do, and a line about those that it cannot.

    Raises RuntimeError under CI=1, where nothing may be left out.
    """
    if library() is not None or not CLOCKS.intersection(kinds):
        return list(kinds), ""
    line = "left out, for want of Debian's package faketime: " + ", ".join(sorted(CLOCKS))
    if os.environ.get("CI") == "1":
        raise RuntimeError(line)
    return [kind for kind in kinds if kind not in CLOCKS], f"\n  {line}"


def _head(plan: Plan) -> str:
    database = "PostgreSQL" if plan.postgres else "SQLite"
    parts = f"{plan.webs} web processes, {plan.workers} workers, {database}"
    size = (
        f"{plan.at_once} answers at once, up to {plan.viewers} viewers and {plan.words} words each"
    )
    return f"chaos, seed {plan.seed}: {plan.faults_s:g} s of faults, {parts}\n  {size}"
