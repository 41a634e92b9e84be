"""The sweep: what every process does every `sweep_s`, so that nobody is stuck (law 6).

It compares rows that are not final with their logs and repairs what a crash, an outage or a lost
message left behind. Every repair is safe to repeat, also from several processes at once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from django.db import transaction
from structlog.contextvars import bound_contextvars

from chatapp import catalog, runtime, switches
from chatapp.finalize import database_errors, is_locked
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Response
from chatapp.services import delivery, ends, figures
from chatapp.services.chats import remove_hidden
from chatapp.services.diagnosis import Repair, Row, Sightings, diagnose
from chatapp.services.retention import Retention
from chatapp.services.sealing import Sealing
from chatapp.services.settling import (
    end_waiting,
    make_final,
    owed,
    record,
    settle_left,
    start_next,
    submit,
)
from chatapp.services.stopping import send, wish
from chatapp.services.visits import Visits
from relay import (
    COUNTERS,
    Outcome,
    RecordUnavailable,
    Status,
    StopReason,
    StoreRefused,
    StoreUnavailable,
    fold_log,
    shard_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

logger = logging.getLogger(__name__)

BATCH: Final = 500
"""Rows per sweep, oldest first; of more that are running, the young ones wait for their turn."""


OVERDUE_S: Final = 30.0
"""Beyond its time and a lease; a few sweeps and a database that was slow are no alarm."""


class Sweep:
    """Call it again and again: it remembers between sweeps since when it has seen what."""

    def __init__(self) -> None:
        self._seen = Sightings()
        self._visits = Visits()
        self._first = True
        self._seal = Sealing()
        self._retain = Retention()

    async def __call__(self) -> None:
        """One sweep. Raises StoreUnavailable, RecordUnavailable: the next one goes on."""
        if self._first:
            runtime.current().hub.hear_visits(self._visits.note)
        await runtime.store().ping()  # and hear what time it is
        await switches.refresh()  # an idle worker has nobody else to ask for it
        await settle_left()
        rows = await _running()
        COUNTERS.overdue = sum(map(_overdue, rows))
        self._seen.keep_only({row.pk for row in rows})
        owed.intersection_update({row.pk for row in rows})
        by_shard: dict[int, list[Row]] = {}
        for row in rows:
            by_shard.setdefault(shard_of(row.pk), []).append(row)
        # A node of a cluster that is away is an outage for its slots alone (PROTOCOL 13.3).
        swept = [self._sweep(mine, first=self._first) for mine in by_shard.values()]
        outcomes = await asyncio.gather(*swept, return_exceptions=True)
        self._first = False
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        await _go_on()
        await delivery.note_delivered()
        await delivery.judge()
        await remove_hidden()
        await self._visits.write()
        await self._retain()
        await figures.keep()
        await self._seal()

    async def _sweep(self, rows: Sequence[Row], *, first: bool) -> None:
        tails = await runtime.store().tails([row.pk for row in rows])
        todo: dict[Repair, list[str]] = {repair: [] for repair in Repair}
        now = runtime.now()
        for row, tail in zip(rows, tails, strict=True):
            for repair in diagnose(row, tail, now, self._seen, first=first):
                todo[repair].append(row.pk)
        await _mark_started(todo.pop(Repair.MARK_STARTED))
        await _stop_abandoned(todo.pop(Repair.ASK_VIEWERS))
        for repair, response_ids in todo.items():
            for pk in response_ids:
                COUNTERS.repairs.add(repair.name.lower())
                await _apart(_REPAIRS[repair], pk)


def _overdue(row: Row) -> bool:
    """It should have an end by now, whatever befell it (PROTOCOL 9)."""
    age_s = (runtime.now() - row.created_at).total_seconds()
    return age_s > row.total_s + runtime.config().lease_s + OVERDUE_S


async def _apart(repair: Callable[[str], Awaitable[None]], pk: str) -> None:
    """One row that cannot be repaired must not keep the others from it."""
    try:
        with bound_contextvars(response_id=pk):
            await repair(pk)
    except StoreRefused as exc:
        logger.warning("repair of %s waits: %s", pk, exc)  # others end something: they are taken
    except RecordUnavailable as exc:
        if not is_locked(exc):
            raise
        logger.warning("repair of %s waits: %s", pk, exc)
    except StoreUnavailable:
        raise
    except Exception:
        logger.exception("repair of %s failed", pk)


@on_database_thread
def _running() -> list[Row]:
    models = catalog.models()
    columns = ("pk", "status", "created_at", "stop_requested_at", "cancel_after_s", "model")
    rows = Response.objects.begun().order_by("created_at").values_list(*columns)[:BATCH]
    with database_errors():
        return [
            Row(
                pk=pk,
                status=status,
                created_at=created_at,
                stop_wished=stop_requested_at is not None,
                has_patience=cancel_after_s is not None,
                total_s=(model in models and models[model].total_s) or runtime.config().total_s,
                owed=pk in owed,
            )
            for pk, status, created_at, stop_requested_at, cancel_after_s, model in rows
        ]


async def _remake(pk: str) -> None:
    logger.warning("log of %s was missing and is made anew", pk)
    await submit(await _get(pk), again=True)


async def _resend_stop(pk: str) -> None:
    response = await _get(pk)
    if not response.is_final:
        await send(response, response.stop_reason)


async def _expire(pk: str) -> None:
    store = runtime.store()
    folded, counted = await asyncio.gather(fold_log(store, pk), store.counted(pk))
    text, told = (folded[0].text, folded[0].usage) if folded else ("", None)
    running = ends.worker_lost(text, told, counted)
    if await store.expire(pk, queued=ends.wall_clock(), running=running):
        await record(pk)


async def _give_up(pk: str) -> None:
    logger.error("log of %s is lost and nobody restored it", pk)
    snapshot = ends.lost_log(await _get(pk))
    await make_final(Outcome(response_id=pk, snapshot=snapshot))


_REPAIRS: Final[dict[Repair, Callable[[str], Awaitable[None]]]] = {
    Repair.REMAKE: _remake,
    Repair.STOP: _resend_stop,
    Repair.EXPIRE: _expire,
    Repair.GIVE_UP: _give_up,
    Repair.RECORD: record,
}


async def _go_on() -> None:
    """Messages that wait: removed if that was wished, begun if their chat is free."""
    rows = await _waiting()
    for row in rows:
        if row.stop_requested_at is not None:
            await end_waiting(row, row.stop_reason)
    for chat_id in {row.chat_id for row in rows if row.chat_id is not None}:
        await start_next(chat_id)


@on_database_thread
def _waiting() -> list[Response]:
    with database_errors():
        return list(Response.objects.waiting().order_by("created_at")[:BATCH])


async def _stop_abandoned(response_ids: Sequence[str]) -> None:
    if not response_ids:
        return
    abandoned = await runtime.store().abandoned(response_ids)
    for pk in [pk for pk, alone in zip(response_ids, abandoned, strict=True) if alone]:
        if await wish(pk, by="", reason=StopReason.ABANDONED):
            await _apart(_resend_stop, pk)


@on_database_thread
def _mark_started(response_ids: Sequence[str]) -> None:
    """A hint for people who look at rows; the log knows better all the time."""
    if response_ids:
        # Of a row that somebody holds there is nothing to wait for.
        rows = Response.objects.select_for_update(skip_locked=True)
        free = rows.filter(pk__in=response_ids, status=Status.QUEUED).values("pk")
        with database_errors(), transaction.atomic():
            Response.objects.filter(pk__in=free).update(status=Status.IN_PROGRESS)


@on_database_thread
def _get(pk: str) -> Response:
    with database_errors():
        return Response.objects.get(pk=pk)
