"""Asking: one transaction, safe to repeat, with the conversation that the model is shown."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatapp import services
from chatapp.finalize import Records
from chatapp.middleware.group_commit import commit
from chatapp.models import AuditEvent, Chat, Message, Response, User
from chatapp.services import ChatBusy, NotRetryable, Question
from chatapp.services.writing import Draft, write_or_find
from relay import Disconnect, GenerationRequest, Status, StopReason, conclude
from tests.chatapp.conftest import make_row, scribe_of, talk

if TYPE_CHECKING:
    from relay import MemoryStore


def question(text: str = "hello", **more: Any) -> Question:
    given: dict[str, Any] = {"model": "fast", "messages": [{"role": "user", "content": text}]}
    return Question(**(given | more))


def told(response: Response) -> list[str]:
    """What the model is shown, as `role: text`."""
    messages = GenerationRequest.from_json(response.request).messages
    return [f"{message['role']}: {message['content']}" for message in messages]


async def answer(store: MemoryStore, response: Response, text: str) -> None:
    scribe = await scribe_of(store, response.pk)
    await scribe.say(text)
    await scribe.end()
    await Records().finalize(await conclude(store, response.pk))


async def test_creating_leaves_an_audit_entry_without_content(
    user: User, store: MemoryStore
) -> None:
    response = await services.create_response(user=user, question=question("secret"))
    (event,) = [event async for event in AuditEvent.objects.all()]
    assert (event.action, event.actor, event.username) == ("created", "ann", "ann")
    assert (event.response_id, event.model, event.status) == (response.pk, "fast", "queued")
    assert "secret" not in str(event.detail)


def test_a_question_costs_three_queries(user: User) -> None:
    draft = _draft(user)
    with CaptureQueriesContext(connection) as queries:
        commit([partial(write_or_find, draft)])
    statements = [query["sql"].split()[0] for query in queries]
    # That its person is not erased, the row, the audit entry; what else runs, the store has said.
    assert statements == ["BEGIN", "SELECT", "INSERT", "INSERT", "COMMIT"]


def test_a_message_costs_nine_queries_however_long_the_chat_is(user: User, chat: Chat) -> None:
    talk(chat, *["x"] * 40)
    draft = _draft(user, chat=chat, text="hi")
    with CaptureQueriesContext(connection) as queries:
        write_or_find(draft)
    statements = [query["sql"].split()[0] for query in queries]
    assert statements.count("SELECT") == 4  # not erased, running, last position, conversation
    assert statements.count("INSERT") == 4  # row, both messages, audit
    assert statements.count("UPDATE") == 1  # the chat


def _draft(user: User, **more: Any) -> Draft:
    request = GenerationRequest(response_id="", created_at="", model="fast", messages=[])
    asked_at = timezone.now()
    return Draft(user=user, request=request, request_hash="0" * 64, asked_at=asked_at, **more)


async def test_a_conversation_is_told_in_order(user: User, chat: Chat, store: MemoryStore) -> None:
    first = await services.send_message(user=user, chat=chat, text="one")
    assert told(first.response) == ["user: one"]
    assert (first.message.text, first.message.position) == ("one", 1)
    await answer(store, first.response, "eins")
    second = await services.send_message(user=user, chat=chat, text="two")
    assert told(second.response) == ["user: one", "assistant: eins", "user: two"]
    assert [m.text async for m in chat.messages.order_by("position")] == ["one", "eins", "two", ""]


async def test_the_oldest_turns_are_left_out_of_a_long_conversation(
    user: User, chat: Chat, store: MemoryStore, settings: Any
) -> None:
    settings.RELAY = dataclasses.replace(settings.RELAY, max_input_bytes=10)
    await sync_to_async(talk)(chat, "aaaa", "bbbb", "cccc", "dddd")
    sent = await services.send_message(user=user, chat=chat, text="ee")
    assert told(sent.response) == ["user: cccc", "assistant: dddd", "user: ee"]


async def test_a_null_character_is_stored_as_one_that_postgresql_can_keep(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    sent = await services.send_message(user=user, chat=chat, text="a\0b")
    assert "\0" not in sent.message.text
    assert "\0" not in sent.response.request
    assert told(sent.response) == ["user: a\0b"]
    await answer(store, sent.response, "c\0d")
    texts = [m.text async for m in chat.messages.order_by("position")]
    assert texts == ["a\N{REPLACEMENT CHARACTER}b", "c\N{REPLACEMENT CHARACTER}d"]
    row = await Response.objects.aget(pk=sent.response.pk)
    assert "\0" not in row.fold
    assert (await services.snapshot(row)).text == "c\0d"


async def test_a_chat_takes_its_title_from_its_first_message(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    before = chat.updated_at
    await services.send_message(user=user, chat=chat, text="What  is\ntea? " + "x" * 100)
    await chat.arefresh_from_db()
    assert chat.title.startswith("What is tea? xxx")
    assert len(chat.title) == 60
    assert chat.updated_at > before


async def test_a_message_is_answered_with_the_patience_of_a_page(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    sent = await services.send_message(user=user, chat=chat, text="hi")
    assert (sent.response.cancel_after_s, sent.response.leave_after_s) == (300, 20)
    request = GenerationRequest.from_json(sent.response.request)
    assert request.on_disconnect == Disconnect(cancel_after_s=300, leave_after_s=20)


async def test_the_same_message_twice_is_one_message(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    first = await services.send_message(user=user, chat=chat, text="hi", idempotency_key="k")
    again = await services.send_message(user=user, chat=chat, text="hi", idempotency_key="k")
    assert (first.response.pk, first.message.pk) == (again.response.pk, again.message.pk)
    assert await Message.objects.acount() == 2


async def test_a_key_is_free_again_after_a_day(user: User, store: MemoryStore) -> None:
    first = await services.create_response(user=user, question=question("one"), idempotency_key="k")
    await Response.objects.filter(pk=first.pk).aupdate(
        created_at=timezone.now() - timedelta(hours=25)
    )
    second = await services.create_response(
        user=user, question=question("two"), idempotency_key="k"
    )
    again = await services.create_response(user=user, question=question("two"), idempotency_key="k")
    assert first.pk != second.pk == again.pk


async def test_two_people_may_use_the_same_key(
    user: User, stranger: User, store: MemoryStore
) -> None:
    mine = await services.create_response(user=user, question=question(), idempotency_key="k")
    theirs = await services.create_response(user=stranger, question=question(), idempotency_key="k")
    assert mine.pk != theirs.pk


async def test_the_constraint_stops_what_the_look_before_missed(
    user: User, chat: Chat, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on PostgreSQL, where two transactions may both find the chat idle."""
    await services.send_message(user=user, chat=chat, text="one")
    looks = 0
    from chatapp.services import writing

    real = writing._must_wait

    def blind_at_first(draft: Draft, chat: Chat) -> bool:
        nonlocal looks
        looks += 1
        if looks > 1:
            return real(draft, chat)
        return False

    monkeypatch.setattr(writing, "_must_wait", blind_at_first)
    with pytest.raises(ChatBusy):
        await services.send_message(user=user, chat=chat, text="two")
    assert await Message.objects.acount() == 2


async def test_a_failed_answer_is_tried_again_once(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    sent = await services.send_message(user=user, chat=chat, text="one")
    await services.cancel(response=sent.response, by=user, reason=StopReason.USER)
    failed = await Response.objects.aget(pk=sent.response.pk)
    again = await services.retry(response=failed, by=user)
    repeat = await services.retry(response=failed, by=user)
    assert again.pk == repeat.pk != failed.pk
    assert told(again) == ["user: one"]
    assert (again.retry_of_id, again.chat_id) == (failed.pk, chat.pk)
    await answer(store, again, "eins")
    following = await services.send_message(user=user, chat=chat, text="two")
    assert told(following.response) == ["user: one", "assistant: eins", "user: two"]


async def test_an_answer_outside_a_chat_is_tried_again(user: User, store: MemoryStore) -> None:
    row = await sync_to_async(make_row)(user, status=Status.FAILED, ended_at=timezone.now())
    again = await services.retry(response=row, by=user)
    assert told(again) == ["user: hello"]


async def test_a_complete_answer_is_not_tried_again(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    sent = await services.send_message(user=user, chat=chat, text="one")
    with pytest.raises(NotRetryable):
        await services.retry(response=sent.response, by=user)
    await answer(store, sent.response, "eins")
    await sent.response.arefresh_from_db()
    with pytest.raises(NotRetryable):
        await services.retry(response=sent.response, by=user)


async def test_an_answer_that_the_conversation_left_behind_is_tried_again_beside_it(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    first = await services.send_message(user=user, chat=chat, text="one")
    await services.cancel(response=first.response, by=user, reason=StopReason.USER)
    second = await services.send_message(user=user, chat=chat, text="two")
    await answer(store, second.response, "zwei")
    again = await services.retry(
        response=await Response.objects.aget(pk=first.response.pk), by=user
    )
    assert told(again) == ["user: one"]
    beside = await Message.objects.aget(response=again)
    assert beside.parent_id == first.answer.parent_id == first.message.pk
    await chat.arefresh_from_db()
    assert chat.current_id == beside.pk
