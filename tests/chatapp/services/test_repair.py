"""The sweep, with rows and logs that went apart."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError
from django.utils import timezone

from chatapp import runtime, services
from chatapp.finalize import Records
from chatapp.middleware.threads import transact
from chatapp.models import AuditEvent, Response, User
from chatapp.services import Sweep
from chatapp.services.diagnosis import Repair
from chatapp.services.settling import submit
from relay import (
    Disconnect,
    RecordUnavailable,
    Reservation,
    Reserved,
    StopReason,
    StoreUnavailable,
    UsageCount,
    conclude,
    quota_day,
)
from relay.store import Batch
from tests.chatapp.conftest import Clock, make_row, scribe_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from relay import MemoryStore

make_row_async = sync_to_async(make_row)


async def grow_old(row: Response, seconds: float) -> None:
    await Response.objects.filter(pk=row.pk).aupdate(
        created_at=timezone.now() - timedelta(seconds=seconds)
    )


async def state(row: Response) -> tuple[str, str]:
    await row.arefresh_from_db()
    return row.status, row.reason


async def test_at_start_every_missing_log_is_made(row: Response, store: MemoryStore) -> None:
    await Sweep()()
    (tail,) = await store.tails([row.pk])
    assert tail is not None
    assert tail.seq == 1


async def test_later_only_what_was_left_alone_is_made(user: User, store: MemoryStore) -> None:
    sweep = Sweep()
    await sweep()
    young, old = await make_row_async(user), await make_row_async(user)
    await grow_old(old, 31)
    await sweep()
    tails = await store.tails([young.pk, old.pk])
    assert [tail is not None for tail in tails] == [False, True]


async def test_a_stop_that_was_lost_is_sent_again(
    user: User, row: Response, store: MemoryStore
) -> None:
    await submit(row)
    store.faults.fail("cancel")
    with pytest.raises(StoreUnavailable):
        await services.cancel(response=row, by=user, reason=StopReason.USER)
    assert await state(row) == ("queued", "")
    await Sweep()()
    assert await state(row) == ("cancelled", "user")


async def test_a_stop_reaches_a_response_without_a_log(
    user: User, row: Response, store: MemoryStore
) -> None:
    store.faults.unreachable = True
    with pytest.raises(StoreUnavailable):
        await services.cancel(response=row, by=user, reason=StopReason.USER)
    store.faults.unreachable = False
    await Sweep()()
    assert await state(row) == ("cancelled", "user")


async def test_a_running_response_is_marked_so(row: Response, store: MemoryStore) -> None:
    await submit(row)
    await scribe_of(store, row.pk)
    await Sweep()()
    assert await state(row) == ("in_progress", "")


async def test_a_queued_response_past_its_time_fails(
    row: Response, store: MemoryStore, clock: Clock, settings: Any
) -> None:
    await submit(row)
    total_s = settings.RELAY.total_s
    await grow_old(row, total_s + 10)
    clock.advance(total_s + 10)
    await Sweep()()
    assert await state(row) == ("failed", "wall_clock")
    await row.arefresh_from_db()
    assert (row.input_tokens, row.output_tokens, row.answered_by) == (0, 0, "")


async def test_a_clock_that_is_wrong_here_ends_nothing(
    user: User, store: MemoryStore, clock: Clock
) -> None:
    """PROTOCOL 9.4: two hours behind is the store, by this machine's clock; so was the question."""
    clock.advance(-7200)
    young = await make_row_async(user, created_at=runtime.now())
    await submit(young)
    await Sweep()()
    assert await state(young) == ("queued", "")


async def test_a_running_response_past_its_time_without_a_writer_is_interrupted(
    row: Response, store: MemoryStore, clock: Clock, settings: Any
) -> None:
    await submit(row)
    scribe = await scribe_of(store, row.pk)
    await scribe.say("half")
    assert scribe.lease is not None
    await store.append([Batch(scribe.lease, scribe.seq + 1, [], False, output_tokens=9)])
    total_s = settings.RELAY.total_s
    await grow_old(row, total_s + 10)
    clock.advance(total_s + 10)
    await Sweep()()
    assert await state(row) == ("interrupted", "worker_lost")
    snapshot = await services.snapshot(row)
    assert snapshot.text == "half"
    assert snapshot.usage == UsageCount(output_tokens=9, source="counted")
    await row.arefresh_from_db()
    assert (row.usage_source, row.output_tokens, row.counted_output_tokens) == ("counted", 9, 9)
    import hashlib

    assert snapshot.text_sha256 == hashlib.sha256(b"half").hexdigest()


async def test_a_queued_response_that_everybody_left_is_cancelled(
    user: User, store: MemoryStore, clock: Clock
) -> None:
    row = await make_row_async(user, patience=Disconnect(cancel_after_s=5, leave_after_s=1))
    await submit(row)
    sweep = Sweep()
    await sweep()
    assert await state(row) == ("queued", "")
    clock.advance(60)
    await sweep()
    assert await state(row) == ("cancelled", "abandoned")
    stopped = await AuditEvent.objects.aget(action="stopped")
    assert (stopped.actor, stopped.detail) == ("", {"reason": "abandoned"})


async def test_an_end_that_its_worker_did_not_record_is_recorded(
    row: Response, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatapp.services.diagnosis.RECORD_LATE", timedelta(0))
    await submit(row)
    scribe = await scribe_of(store, row.pk)
    await scribe.say("all")
    await scribe.end()
    await Sweep()()
    assert await state(row) == ("completed", "")


async def test_an_answer_whose_log_is_lost_is_interrupted(
    user: User, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatapp.services.diagnosis.LOG_LOST", timedelta(0))
    row = await make_row_async(user, status="in_progress")
    await Sweep()()
    assert await state(row) == ("interrupted", "worker_lost")
    assert (await services.snapshot(row)).ended
    await row.arefresh_from_db()
    assert (row.usage_source, row.output_tokens) == ("counted", 0)  # of what is left of it


@pytest.mark.parametrize("lost", ["request", "reply", "commit"])
async def test_what_a_canceller_could_not_settle_is_settled_by_its_next_sweep(
    user: User,
    row: Response,
    store: MemoryStore,
    monkeypatch: pytest.MonkeyPatch,
    lost: str,
) -> None:
    """PROTOCOL 11.7"""
    await submit(row)
    sweep = Sweep()
    await sweep()
    if lost == "commit":
        monkeypatch.setattr("chatapp.finalize.transact", _commit_unheard)
    else:
        store.faults.fail("settle", happened=lost == "reply")
    with pytest.raises((StoreUnavailable, RecordUnavailable)):
        await services.cancel(response=row, by=user, reason=StopReason.USER)
    assert await state(row) == ("cancelled", "user")
    assert await settled(store, row) is (lost == "reply")
    store.faults.fail("settle")
    with pytest.raises(StoreUnavailable):
        await sweep()
    await sweep()
    assert await settled(store, row)


async def _commit_unheard(work: Callable[[], Any]) -> Any:
    await transact(work)
    raise OperationalError("the connection was lost")


async def settled(store: MemoryStore, row: Response) -> bool:
    day = quota_day(row.created_at)
    wanted = Reservation(response_id=row.pk, day=day, until_ms=0, max_tokens=1)
    return (await store.quotas.reserve(str(row.user_id), wanted)).outcome is Reserved.SETTLED


async def test_a_log_that_is_made_again_waits_for_who_may_be_there(
    user: User, store: MemoryStore, clock: Clock
) -> None:
    """PROTOCOL 7.6"""
    row = await make_row_async(user, patience=Disconnect(cancel_after_s=60, leave_after_s=1))
    await Sweep()()
    await store.attend(row.pk, "a/b")
    await store.leave(row.pk, "a/b")
    clock.advance(10)
    assert await store.abandoned([row.pk]) == [False]


async def test_what_viewers_received_after_the_end_is_noted(
    row: Response, store: MemoryStore
) -> None:
    await submit(row)
    scribe = await scribe_of(store, row.pk)
    await scribe.say("all")
    await scribe.end()
    await Records().finalize(await conclude(store, row.pk))
    await store.attend(row.pk, "a/b")
    await store.beat([(row.pk, "a/b", 4)])
    await Sweep()()
    await row.arefresh_from_db()
    assert (row.fold_seq, row.delivered_seq) == (4, 4)


async def delivery(row: Response) -> tuple[int, int | None]:
    await row.arefresh_from_db()
    return row.delivered_seq, row.zombie_tokens


async def test_what_nobody_was_handed_is_counted_once_the_sockets_have_told(
    row: Response, store: MemoryStore
) -> None:
    """PROTOCOL 8.5"""
    await submit(row)
    scribe = await scribe_of(store, row.pk)
    await scribe.say("they read it. ")
    await scribe.say("x" * 42)
    await scribe.end(usage=UsageCount(output_tokens=20, source="provider"))
    await Records().finalize(await conclude(store, row.pk))
    await store.attend(row.pk, "a/b")
    await store.beat([(row.pk, "a/b", 3)])
    await Sweep()()
    assert await delivery(row) == (3, None), "a socket may tell more yet"
    await Response.objects.aupdate(ended_at=timezone.now() - timedelta(seconds=31))
    await Sweep()()
    assert await delivery(row) == (3, 15)  # 42 of 56 characters
    await store.beat([(row.pk, "a/b", 5)])  # who comes back later changes nothing about that
    await Sweep()()
    assert await delivery(row) == (5, 15)


async def test_what_was_delivered_whole_has_no_zombies(row: Response, store: MemoryStore) -> None:
    await submit(row)
    scribe = await scribe_of(store, row.pk)
    await scribe.say("all")
    await scribe.end(usage=UsageCount(output_tokens=20, source="provider"))
    await store.attend(row.pk, "a/b")
    await store.beat([(row.pk, "a/b", 4)])
    await Records().finalize(await conclude(store, row.pk))
    await Response.objects.aupdate(ended_at=timezone.now() - timedelta(seconds=31))
    await Sweep()()
    await row.arefresh_from_db()
    assert row.zombie_tokens == 0


async def test_one_row_that_cannot_be_repaired_does_not_keep_the_others_from_it(
    user: User, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    broken = await make_row_async(user, request="{")
    whole = await make_row_async(user)
    await Sweep()()
    assert f"repair of {broken.pk} failed" in caplog.text
    assert await store.tails([whole.pk]) != [None]


async def test_a_store_that_is_away_puts_the_sweep_off(row: Response, store: MemoryStore) -> None:
    store.faults.unreachable = True
    sweep = Sweep()
    with pytest.raises(StoreUnavailable):
        await sweep()
    store.faults.unreachable = False
    await sweep()  # still the first one that came through: it makes what is missing
    assert await store.tails([row.pk]) != [None]


async def test_two_sweeps_at_once_do_no_harm(row: Response, store: MemoryStore) -> None:
    import asyncio

    await asyncio.gather(Sweep()(), Sweep()(), Sweep()())
    assert len(await store.take(0, "w", 10, 0)) == 1


def test_every_repair_is_done_somewhere() -> None:
    from chatapp.services import repair

    apart = {Repair.MARK_STARTED, Repair.ASK_VIEWERS}
    assert set(repair._REPAIRS) | apart == set(Repair)
