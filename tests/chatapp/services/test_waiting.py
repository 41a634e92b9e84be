"""What waits can be said otherwise, until its answer has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chatapp import services
from chatapp.models import AuditEvent, Chat, Message, Response, User
from chatapp.services import BadInput, NotWaiting, TooLarge
from relay import GenerationRequest, StopReason
from tests.chatapp.conftest import is_problem
from tests.chatapp.pages import asked
from tests.chatapp.services.test_double_text import answer, queueing, say, states

if TYPE_CHECKING:
    from relay import MemoryStore
    from tests.chatapp.conftest import Api
    from tests.chatapp.pages import Browser

__all__ = ["queueing"]

pytestmark = pytest.mark.usefixtures("store")


async def questions(chat: Chat) -> list[str]:
    rows = Message.objects.filter(chat=chat, role="user").order_by("position")
    return [message.text async for message in rows]


async def last_question(chat: Chat) -> Message:
    message = await Message.objects.filter(chat=chat, role="user").alast()
    assert message is not None
    return message


async def test_what_waits_is_asked_in_its_last_words(
    queueing: Chat, user: User, store: MemoryStore
) -> None:
    first, second = await say(queueing, "one"), await say(queueing, "two")
    message = await last_question(queueing)
    for _ in range(2):  # a repeat changes nothing
        await services.rewrite(message=message, by=user, text="two, but better")
    assert await questions(queueing) == ["one", "two, but better"]
    assert await AuditEvent.objects.filter(action="rewritten").acount() == 1
    assert await states(queueing) == ["queued", "waits"]
    await answer(store, first, "eins")
    await second.arefresh_from_db()
    told = GenerationRequest.from_json(second.request).messages
    assert told[-1] == {"role": "user", "content": "two, but better"}


async def test_what_has_begun_was_removed_or_is_an_answer_stays_as_it_is(
    queueing: Chat, user: User
) -> None:
    await say(queueing, "one")
    begun = await last_question(queueing)
    removed = await say(queueing, "two")
    message = await last_question(queueing)
    await services.cancel(response=removed, by=user, reason=StopReason.USER)
    for which in (begun, message):
        with pytest.raises(NotWaiting):
            await services.rewrite(message=which, by=user, text="something else")
    reply = await Message.objects.filter(role="assistant").afirst()
    assert reply is not None
    with pytest.raises(BadInput, match="this one is an answer"):
        await services.rewrite(message=reply, by=user, text="something else")
    assert await questions(queueing) == ["one", "two"]


async def test_what_could_not_be_sent_cannot_be_made_of_it(
    queueing: Chat, user: User, settings: Any
) -> None:
    from dataclasses import replace

    settings.RELAY = replace(settings.RELAY, max_input_bytes=20)
    await say(queueing, "one")
    await say(queueing, "two")
    message = await last_question(queueing)
    with pytest.raises(BadInput):
        await services.rewrite(message=message, by=user, text="  ")
    with pytest.raises(TooLarge):
        await services.rewrite(message=message, by=user, text="x" * 21)
    assert await questions(queueing) == ["one", "two"]


async def test_the_api_changes_it_and_says_when_it_is_too_late(api: Api, queueing: Chat) -> None:
    first = (await api.post(f"/api/chats/{queueing.pk}/messages", {"text": "one"})).json()
    second = (await api.post(f"/api/chats/{queueing.pk}/messages", {"text": "two"})).json()
    reply = await api.patch(f"/api/messages/{second['message_id']}", {"text": "zwei"})
    assert (reply.status_code, reply.json()["text"]) == (200, "zwei")
    late = await api.patch(f"/api/messages/{first['message_id']}", {"text": "eins"})
    assert "does not wait any more" in is_problem(late, 409)["detail"]
    assert await questions(queueing) == ["one", "zwei"]


async def test_without_scripts_it_is_a_form_at_the_message(ann: Browser, queueing: Chat) -> None:
    await asked(ann, queueing)
    page = await ann.post(f"/chats/{queueing.pk}/send", text="And the moon?")
    assert page.html.count("data-waits") == 1
    message = await last_question(queueing)
    path = f"/messages/{message.pk}/rewrite"
    assert f'formaction="{path}"' in page.html
    page = await ann.post(path, text="And the sun?")
    assert "And the sun?" in page.text
    assert "And the moon?" not in page.text
    waiting = await Response.objects.aget(message__parent=message)
    await services.cancel(response=waiting, by=await User.objects.aget(), reason=StopReason.USER)
    page = await ann.post(path, text="Too late")
    assert page.status == 409
    assert "This message does not wait any more" in page.text
    assert "Too late" in page.html, "given back in its form"


async def test_a_chat_begun_in_the_page_queues_and_its_rule_is_chosen_at_the_box(
    ann: Browser, store: MemoryStore
) -> None:
    await ann.post("/chats/new", text="one")
    chat = await Chat.objects.aget()
    assert chat.double_text == "queue"
    page = await ann.post(f"/chats/{chat.pk}/send", text="two", double_text="interrupt")
    await chat.arefresh_from_db()
    assert chat.double_text == "interrupt"
    assert await states(chat) == ["superseded", "queued"]
    assert '<option value="interrupt" selected>' in page.html
    assert 'value="reject"' not in page.html
    await ann.post(f"/chats/{chat.pk}/send", text="three", double_text="nonsense")
    await chat.arefresh_from_db()
    assert chat.double_text == "interrupt"


async def test_who_writes_while_it_answers_is_not_loaded_anew_without_scripts(
    ann: Browser, chat: Chat
) -> None:
    await asked(ann, chat)
    path = f"/chats/{chat.pk}/"
    assert "http-equiv" in (await ann.get(path)).html
    assert "http-equiv" not in (await ann.get(f"{path}?write=1")).html
