"""Stopping: a column first, a flag second, a wake-up third (PROTOCOL 6); and leaving.

`cancelled` is written by whoever closed the upstream; here only if none was opened yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db import transaction
from django.utils import timezone

from chatapp import audit, runtime
from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Response, User
from chatapp.services import ends
from chatapp.services.reading import snapshot
from chatapp.services.settling import end_waiting, owed, record, submit
from relay import Cancelled, Snapshot, StopReason, StoreRefused, wait_ended

HONEST_END_S: Final = 2.0
"""How long a stop waits for the end before it answers "cancelling" (design §4)."""


@dataclass(frozen=True, slots=True)
class Stopping:
    snapshot: Snapshot
    cancelling: bool
    """The stop is under way; the end will come as an event."""


async def cancel(*, response: Response, by: User | None, reason: StopReason) -> Stopping:
    """Stop a response, wherever it is. Safe to repeat; after the end it changes nothing.

    Raises StoreUnavailable when the flag could not be set; the wish is kept and sent again by the
    sweep.
    """
    row = await wish(response.pk, by=by.username if by else "", reason=reason)
    if row is not None and row.waits:
        await end_waiting(row, row.stop_reason or reason)
    elif row is not None:
        await send(response, reason)
        await wait_ended(runtime.hub(), response.pk, HONEST_END_S)
    now = await snapshot(await Response.objects.aget(pk=response.pk))
    return Stopping(now, cancelling=not now.ended)


@on_database_thread
def wish(response_id: str, *, by: str, reason: StopReason) -> Response | None:
    """Note that a stop is wished; the first wish is kept. None when the response is final."""
    with database_errors(), transaction.atomic():
        row = Response.objects.running().select_related("user").filter(pk=response_id).first()
        if row is None:
            return None
        first = Response.objects.running().filter(pk=response_id, stop_requested_at=None)
        if first.update(stop_requested_at=timezone.now(), stop_by=by, stop_reason=reason):
            audit.stopped(row, actor=by, reason=reason)
        return row


async def send(response: Response, reason: str) -> None:
    """Set the flag in the store and wake the writer; end it on the spot while it is queued."""
    outcome = await _flag(response.pk, reason)
    if outcome is Cancelled.MISSING:
        # The row is there and its log is not yet: make it, so that the stop has something to end.
        try:
            await submit(response)
        except StoreRefused:
            if response.pk not in owed:
                raise
            await end_waiting(response, reason)  # it never had one: nothing was opened
            return
        outcome = await _flag(response.pk, reason)
    if outcome is Cancelled.CLOSED:
        await record(response.pk)


async def _flag(response_id: str, reason: str) -> Cancelled:
    await runtime.store().know_time()
    return await runtime.store().cancel(response_id, reason, ended=ends.cancelled(reason))


async def leave(*, response: Response, login: str, viewer: str | None) -> None:
    """This viewer goes on purpose; without `viewer`, all viewers of this login (PROTOCOL 7)."""
    await runtime.store().leave(response.pk, f"{login}/{viewer or ''}")
