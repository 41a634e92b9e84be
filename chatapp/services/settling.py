"""Between row and log: hand a row's request to the store, and record ends nobody recorded yet.

Both are safe to repeat, by anybody, at any time.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from chatapp import catalog, quotas, runtime
from chatapp.finalize import Records, database_errors, final_among, just_asked
from chatapp.middleware.threads import on_database_thread, transact
from chatapp.services import context, ends, writing
from relay import (
    GenerationRequest,
    LogGone,
    Outcome,
    RecordUnavailable,
    Reserved,
    StoreUnavailable,
    conclude,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from chatapp.models import Response, User

logger = logging.getLogger(__name__)

owed: Final[set[str]] = set()
"""Rows whose log this process could not make after their commit: the next sweep does."""


_unsettled: Final[set[str]] = set()
"""Ends that this process recorded and did not settle. Their jobs are gone, or never were, so nobody
else comes across them (PROTOCOL 11.7)."""


async def submit(response: Response, *, just_written: bool = False, again: bool = False) -> None:
    """Make log and job of a queued row, or find them there. Raises StoreUnavailable.

    `again`: the log is missing, and nobody knows who watched it (PROTOCOL 7.6).
    """
    request = GenerationRequest.from_json(response.request)
    if just_written and runtime.current().supervisor is not None:
        just_asked.put(request)
    model = catalog.models().get(response.model)
    # A model that was taken out of the file meanwhile: the worker says so in the log.
    upstream_model = model.upstream_model if model else response.model
    await runtime.store().create(request, upstream_model=upstream_model, again=again)
    owed.discard(response.pk)


async def submit_or_leave_to_sweep(response: Response) -> None:
    """The row is committed, so the answer will come: a store that is away now delays it."""
    try:
        await submit(response, just_written=True)
    except StoreUnavailable as exc:
        owed.add(response.pk)
        logger.warning("log of %s is left to the sweep: %s", response.pk, exc)


async def settle(response_ids: Sequence[str]) -> bool:
    """Record those whose log has ended. True if there was one.

    Viewers see the end a moment before its record is written; who acts in that moment must not be
    told that the answer is still running.
    """
    try:
        tails = await runtime.store().tails(response_ids)
    except StoreUnavailable:
        return False
    ended = [
        pk for pk, tail in zip(response_ids, tails, strict=True) if tail is not None and tail.ended
    ]
    for pk in ended:
        await record(pk)
    return bool(ended)


async def free_places(response_ids: Sequence[str]) -> bool:
    """Settle those that have ended. True if there was one (PROTOCOL 11)."""
    if await settle(response_ids):
        return True
    charges = await final_among(response_ids)
    for charge in charges:
        await quotas.settle(charge)
    return bool(charges)


async def go_on(user_id: int) -> None:
    """Begin what waits in a person's chats: an end frees its chat, and a place for any other."""
    try:
        chats = await on_database_thread(writing.waiting_chats)(user_id)
    except RecordUnavailable as exc:
        logger.warning("what waits of user %s is left to the sweep: %s", user_id, exc)
        return
    for chat_id in chats:
        if not await start_next(chat_id):
            return


async def start_next(chat_id: UUID) -> bool:
    """Begin what waits first in a chat, if nothing runs there and its person has a place.

    False if there is no place, or a part of the server is away: then no other chat has more luck.
    Safe to repeat, by anybody: after an end, after an arrival, by the sweep. What is not begun now,
    because a part of the server is away or the plan leaves no room, the sweep tries again.
    """
    try:
        with database_errors():
            row = await on_database_thread(writing.next_in)(chat_id)
            if row is not None:
                if not await _place(row.user, row):
                    return False
                await context.ready_to_count(catalog.models().get(row.model))
                begun = await transact(partial(writing.begin, row.pk, runtime.now()))
                if begun is not None:
                    await submit_or_leave_to_sweep(begun)
                    await _place(row.user, row)  # whoever came second may have given it back
                    return True
                await give_back(row.user, row)
    except (StoreUnavailable, RecordUnavailable) as exc:
        logger.warning("what waits in chat %s is left to the sweep: %s", chat_id, exc)
        return False
    return True


async def _place(user: User, row: Response) -> bool:
    model = catalog.models().get(row.model)
    grant = await quotas.reserve(user, row.pk, model, None)
    refused = {Reserved.RUNNING, Reserved.TOKENS}
    if grant.outcome in refused and await free_places(grant.running):
        grant = await quotas.reserve(user, row.pk, model, None)
    return grant.outcome not in refused


async def give_back(user: User, row: Response) -> None:
    """The place of what was not begun here. Raises StoreUnavailable, RecordUnavailable.

    A place is the response's, whoever reserved it. So if somebody else has begun it meanwhile it is
    taken again; who begins it after this look does the same by themselves.
    """
    await quotas.release(user, [row.pk])
    if await on_database_thread(writing.has_begun)(row.pk):
        await _place(user, row)


async def record(response_id: str) -> None:
    """Fold an ended log into its row. Raises StoreUnavailable, RecordUnavailable."""
    try:
        outcome = await conclude(runtime.store(), response_id)
    except LogGone:
        return  # retired meanwhile: the row is final
    await make_final(outcome)


async def make_final(outcome: Outcome) -> None:
    """Record an end that no worker records. Raises StoreUnavailable, RecordUnavailable.

    After either it may be written and not settled: `settle_left` comes back to it.
    """
    try:
        await records().finalize(outcome)
    except (StoreUnavailable, RecordUnavailable):
        _unsettled.add(outcome.response_id)
        raise


async def settle_left() -> None:
    """Settle what was made final and could not be settled. Raises as `make_final`."""
    left = list(_unsettled)
    if left:
        for charge in await final_among(left):
            await quotas.settle(charge)
        # What is not final was not written: whoever records it settles it.
        _unsettled.difference_update(left)


def records() -> Records:
    """Records whose ends let waiting messages begin."""
    return Records(go_on=go_on)


async def end_waiting(response: Response, reason: str) -> None:
    """Remove one that waits, after its stop was noted: nothing was opened, nothing was logged.

    Raises RecordUnavailable, StoreUnavailable; the sweep tries again.
    """
    snapshot = ends.never_begun(response, reason)
    outcome = Outcome(response_id=response.pk, snapshot=snapshot, counted_output_tokens=0)
    await make_final(outcome)
    await runtime.store().retire(response.pk)  # whoever watches it is sent to the record
