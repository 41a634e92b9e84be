"""A store that takes nothing new: who is refused when, and what becomes of a row without a log."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async

from chatapp import runtime, services
from chatapp.models import AuditEvent, Chat, Message, Response, User
from chatapp.services import NoRoom, Question, Sweep, asking, writing
from chatapp.services.settling import submit
from relay import RedisStore, StopReason, StoreRefused, StoreUnavailable
from tests.chatapp.conftest import Api, is_problem, make_row, scribe_of
from tests.valkey import PrivateValkey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatapp.services.writing import Draft, Written
    from relay import MemoryStore

HI = Question(model="fast", messages=[{"role": "user", "content": "hi"}])


@pytest.fixture
async def server(settings: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PrivateValkey]:
    """A real one, behind `runtime.store()`. It is probed by every question, however soon."""
    monkeypatch.setattr("relay.store.room.FRESH_S", 0.0)
    valkey = PrivateValkey().start()
    async with runtime.using(RedisStore(valkey.url, settings.RELAY)):
        yield valkey
    valkey.close()


def fill(server: PrivateValkey) -> None:
    server.ask("CONFIG", "SET", "maxmemory", "1")


def empty(server: PrivateValkey) -> None:
    server.ask("CONFIG", "SET", "maxmemory", "0")


async def written() -> int:
    rows = (Response.objects, Message.objects, AuditEvent.objects)
    return sum([await objects.acount() for objects in rows])


@pytest.mark.parametrize("limit", [0, 4], ids=["without a limit", "with a limit"])
async def test_a_full_redis_refuses_a_question_and_keeps_nothing_of_it(
    limit: int, user: User, chat: Chat, server: PrivateValkey, settings: Any
) -> None:
    """PROTOCOL 3.6. Whether anybody counts the person's answers or not."""
    settings.RELAY = dataclasses.replace(settings.RELAY, max_generations_per_user=limit)
    await services.create_response(user=user, question=HI)
    before, keys = await written(), set(server.ask("KEYS", "*"))
    fill(server)
    with pytest.raises(NoRoom) as refused:
        await services.create_response(user=user, question=HI)
    with pytest.raises(NoRoom):
        await services.send_message(user=user, chat=chat, text="hi")
    assert (refused.value.status, refused.value.retry_after_s) == (503, 30)
    assert await written() == before
    assert set(server.ask("KEYS", "*")) == keys


async def test_the_api_says_so_and_when_to_come_again(api: Api, store: MemoryStore) -> None:
    store.faults.full = True
    reply = await api.post("/api/responses", {"model": "fast", "input": "hi"})
    assert "nothing was saved" in is_problem(reply, 503)["detail"]
    assert reply.headers["Retry-After"] == "30"


async def test_what_was_accepted_before_is_answered_again(user: User, store: MemoryStore) -> None:
    first = await services.create_response(user=user, question=HI, idempotency_key="k")
    store.faults.full = True
    again = await services.create_response(user=user, question=HI, idempotency_key="k")
    assert again.pk == first.pk


async def test_nothing_is_stopped_for_a_message_that_a_full_store_refuses(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    chat.double_text = Chat.DoubleText.INTERRUPT
    first = await services.send_message(user=user, chat=chat, text="one")
    store.faults.full = True
    with pytest.raises(NoRoom):
        await services.send_message(user=user, chat=chat, text="two")
    row = await Response.objects.aget(pk=first.response.pk)
    assert row.stop_requested_at is None


@pytest.fixture
def full_after_commit(server: PrivateValkey, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of the memory goes between the reservation and `create`."""
    write = writing.write

    async def write_and_fill(draft: Draft) -> Written:
        done = await write(draft)
        fill(server)
        return done

    monkeypatch.setattr(asking, "write", write_and_fill)


@pytest.mark.usefixtures("full_after_commit")
async def test_what_create_refuses_is_made_by_the_first_sweep_after_there_is_room(
    user: User, server: PrivateValkey
) -> None:
    sweep = Sweep()
    await sweep()
    row = await services.create_response(user=user, question=HI)
    await sweep()
    assert await runtime.store().tails([row.pk]) == [None]
    empty(server)
    await sweep()
    (tail,) = await runtime.store().tails([row.pk])
    assert tail is not None
    assert tail.seq == 1


@pytest.mark.usefixtures("full_after_commit")
async def test_what_create_refused_can_be_stopped_at_once(
    user: User, server: PrivateValkey
) -> None:
    """It never had a log, so nothing was opened (PROTOCOL 6.4)."""
    row = await services.create_response(user=user, question=HI)
    stopping = await services.cancel(response=row, by=user, reason=StopReason.USER)
    assert not stopping.cancelling
    ended = await Response.objects.aget(pk=row.pk)
    assert (ended.status, ended.reason) == ("cancelled", "user")
    empty(server)
    await Sweep()()
    assert await runtime.store().tails([row.pk]) == [None]


async def test_a_log_that_this_process_does_not_owe_is_not_judged_by_a_full_store(
    user: User, row: Response, store: MemoryStore
) -> None:
    """Its writer may be alive and about to restore it."""
    store.faults.full = True
    with pytest.raises(StoreRefused):
        await services.cancel(response=row, by=user, reason=StopReason.USER)
    assert (await Response.objects.aget(pk=row.pk)).status == "queued"


async def test_a_row_that_has_to_wait_for_room_keeps_no_other_from_its_repair(
    user: User, row: Response, store: MemoryStore
) -> None:
    other = await sync_to_async(make_row)(user)
    await submit(other)
    scribe = await scribe_of(store, other.pk)
    store.faults.fail("cancel")
    with pytest.raises(StoreUnavailable):
        await services.cancel(response=other, by=user, reason=StopReason.USER)
    store.faults.full = True
    await Sweep()()  # the first one makes every missing log, and cannot make that of `row`
    assert scribe.lease is not None
    assert (await store.renew(scribe.lease)).stop_reason == "user"
