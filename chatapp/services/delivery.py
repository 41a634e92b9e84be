"""Delivered versus generated: what viewers are known to have received, and what nobody did.

Sockets tell how far they were handed events with their heartbeats and when they close (PROTOCOL 8),
which is often a moment after the end is recorded. So the sweep takes it over from the store, and
judges once, when the last socket has had time to tell, how many tokens were generated for nobody.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from django.utils import timezone

from chatapp import runtime
from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread, transact
from chatapp.models import Response
from relay import COUNTERS, written_around

if TYPE_CHECKING:
    from collections.abc import Sequence

DELIVERED_FOR: Final = timedelta(minutes=2)
"""How long after its end a response's viewers may still move `delivered_seq`."""
DELIVERED_BATCH: Final = 50
JUDGED_FOR: Final = timedelta(minutes=10)
"""Whose end is longer ago and was not judged, because the site was away, stays unknown."""
JUDGED_BATCH: Final = 100


async def note_delivered() -> None:
    """Raises StoreUnavailable, RecordUnavailable."""
    rows = await _underdelivered()
    seqs = await asyncio.gather(*(runtime.store().delivered(pk) for pk, _ in rows))
    more = [(pk, seq) for (pk, before), seq in zip(rows, seqs, strict=True) if seq > before]
    if more:
        with database_errors():
            await transact(partial(_write_delivered, more))


async def judge() -> None:
    """Count zombie tokens: those of events that no socket was handed. Once per response.

    They are the same share of its tokens as of its characters: an event knows its text, not its
    tokens. Raises StoreUnavailable, RecordUnavailable.
    """
    relay, now = runtime.config(), runtime.now()
    told_by = now - timedelta(seconds=2 * relay.heartbeat_s)
    rows = await _unjudged(now - JUDGED_FOR, told_by)
    found = await asyncio.gather(*(_zombies(*row) for row in rows))
    judged = [(row[0], count) for row, count in zip(rows, found, strict=True) if count is not None]
    if judged:
        with database_errors():
            mine = await transact(partial(_write_zombies, judged))
        tokens = {row[0]: row[3] for row in rows}
        for pk, zombies in judged:
            if pk in mine:
                COUNTERS.zombie_tokens += zombies
                COUNTERS.delivered_tokens += tokens[pk] - zombies


async def _zombies(pk: str, fold_seq: int, delivered_seq: int, tokens: int) -> int | None:
    if not tokens or delivered_seq >= fold_seq:
        return 0
    around = await written_around(runtime.store(), pk, delivered_seq)
    if around is None:
        return None
    before, after = around
    return round(tokens * after / max(1, before + after))


@on_database_thread
def _underdelivered() -> list[tuple[str, int]]:
    rows = Response.objects.underdelivered_since(timezone.now() - DELIVERED_FOR)
    with database_errors():
        return list(rows.values_list("pk", "delivered_seq")[:DELIVERED_BATCH])


def _write_delivered(seqs: Sequence[tuple[str, int]]) -> None:
    for pk, seq in seqs:
        Response.objects.filter(pk=pk, delivered_seq__lt=seq).update(delivered_seq=seq)


@on_database_thread
def _unjudged(since: datetime, told_by: datetime) -> list[tuple[str, int, int, int]]:
    rows = Response.objects.unjudged_between(since, told_by).order_by("ended_at")
    columns = ("pk", "fold_seq", "delivered_seq", "counted_output_tokens", "output_tokens")
    with database_errors():
        return [
            (pk, fold_seq, delivered_seq, counted or told or 0)
            for pk, fold_seq, delivered_seq, counted, told in rows.values_list(*columns)[
                :JUDGED_BATCH
            ]
        ]


def _write_zombies(counts: Sequence[tuple[str, int]]) -> frozenset[str]:
    """Those that this process judged: others may judge the same at the same time."""
    unjudged = Response.objects.filter(zombie_tokens=None)
    return frozenset(
        pk for pk, count in counts if unjudged.filter(pk=pk).update(zombie_tokens=count)
    )
