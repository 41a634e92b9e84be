"""Stopping: a column first, a flag second, a wake-up third (PROTOCOL 6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from chatapp import services
from chatapp.finalize import Records
from chatapp.models import AuditEvent, Response, User
from chatapp.services.settling import submit
from relay import End, StopReason, StoreUnavailable, conclude
from tests.chatapp.conftest import scribe_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from relay import MemoryStore


async def stop(row: Response, user: User | None) -> services.Stopping:
    return await services.cancel(response=row, by=user, reason=StopReason.USER)


async def actions() -> list[str]:
    return [event.action async for event in AuditEvent.objects.order_by("id")]


async def test_a_queued_response_is_ended_on_the_spot_and_recorded(
    user: User, row: Response, store: MemoryStore
) -> None:
    await submit(row)
    stopping = await stop(row, user)
    assert (stopping.snapshot.status, stopping.snapshot.reason) == ("cancelled", "user")
    assert not stopping.cancelling
    await row.arefresh_from_db()
    assert (row.status, row.reason, row.fold_seq) == ("cancelled", "user", 2)
    assert await actions() == ["stopped", "ended"]


async def test_the_wish_is_in_the_row_before_the_store_hears_of_it(
    user: User, row: Response, store: MemoryStore
) -> None:
    await submit(row)
    store.faults.unreachable = True
    with pytest.raises(StoreUnavailable):
        await stop(row, user)
    await row.arefresh_from_db()
    assert (row.stop_by, row.stop_reason, row.status) == ("ann", "user", "queued")
    assert row.stop_requested_at is not None


async def test_the_first_wish_is_the_one_that_is_kept(
    user: User, stranger: User, row: Response, store: MemoryStore
) -> None:
    await submit(row)
    store.faults.fail("cancel")
    with pytest.raises(StoreUnavailable):
        await stop(row, user)
    await services.cancel(response=row, by=stranger, reason=StopReason.ADMIN)
    await row.arefresh_from_db()
    assert (row.stop_by, row.stop_reason) == ("ann", "user")
    assert await actions() == ["stopped", "ended"]


async def test_a_running_response_is_ended_by_its_writer_who_is_waited_for(
    user: User, row: Response, store: MemoryStore
) -> None:
    await submit(row)
    scribe = await scribe_of(store, row.pk)
    await scribe.say("so far")
    asked = asyncio.create_task(stop(row, user))

    async def flagged() -> bool:
        assert scribe.lease is not None
        return (await store.renew(scribe.lease)).stop_reason == "user"

    await wait_until(flagged, "the writer to hear of the stop")
    assert not asked.done()
    await scribe.end(End.cancelled("user"))
    stopping = await asked
    assert (stopping.snapshot.status, stopping.snapshot.text) == ("cancelled", "so far")
    assert not stopping.cancelling


async def test_a_stop_after_the_end_changes_nothing(
    user: User, row: Response, store: MemoryStore
) -> None:
    await submit(row)
    scribe = await scribe_of(store, row.pk)
    await scribe.say("all of it")
    await scribe.end()
    for _ in range(2):  # before and after the end is recorded
        stopping = await stop(row, user)
        assert (stopping.snapshot.status, stopping.cancelling) == ("completed", False)
        await Records().finalize(await conclude(store, row.pk))
    await row.arefresh_from_db()
    assert row.status == "completed"


async def test_a_response_whose_log_is_not_made_yet_can_be_stopped(
    user: User, row: Response, store: MemoryStore
) -> None:
    stopping = await stop(row, user)
    assert stopping.snapshot.status == "cancelled"
    (job,) = await store.take(0, "w", 1, 0)
    assert job.response_id == row.pk  # the worker finds it ended, and only acks


async def test_nobody_in_particular_may_stop_too(row: Response, store: MemoryStore) -> None:
    await submit(row)
    await services.cancel(response=row, by=None, reason=StopReason.ABANDONED)
    await row.arefresh_from_db()
    assert (row.stop_by, row.reason) == ("", "abandoned")
