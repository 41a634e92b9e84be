"""Forms without scripts: a message is sent once, and none is lost that was not taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import AsyncClient

from chatapp.models import Chat, Message, Response, User
from chatapp.templatetags import words
from relay.generate import End
from relay.states import Interruption
from tests.chatapp.pages import Browser, asked, finished

if TYPE_CHECKING:
    from relay import MemoryStore

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_form_without_its_token_changes_nothing(user: User, chat: Chat) -> None:
    client = AsyncClient(enforce_csrf_checks=True)
    await client.aforce_login(user)
    reply = await client.post(f"/chats/{chat.pk}/send", {"text": "hi"})
    assert reply.status_code == 403
    assert "Nothing was sent" in reply.content.decode()
    assert not await Message.objects.aexists()


async def test_a_form_sent_after_the_session_ended_leads_back_to_its_page(
    ann: Browser, user: User, chat: Chat
) -> None:
    response = await asked(ann, chat)
    nobody = Browser(None)
    for path in ("/chats/new", f"/chats/{chat.pk}/send", f"/responses/{response.pk}/stop"):
        reply: Any = await nobody.client.post(path)
        assert reply.status_code == 302
        assert reply.headers["Location"] == f"/account/login/?next={path}"
        assert (await ann.client.get(path)).status_code == 302
    await response.arefresh_from_db()
    assert response.stop_requested_at is None


async def test_what_was_written_when_the_session_ended_comes_back_to_whoever_wrote_it(
    ann: Browser, user: User, chat: Chat
) -> None:
    await asked(ann, chat)
    question = await Message.objects.aget(chat=chat, role="user")
    before = await Message.objects.acount()
    nobody = Browser(None)
    for path in ("/chats/new", f"/chats/{chat.pk}/send", f"/messages/{question.pk}/edit"):
        page = await nobody.post(path, text="<b>My</b> long\nmessage")
        assert page.status == 403
        assert "&lt;b&gt;My&lt;/b&gt; long\nmessage</textarea>" in page.html
        assert f'href="/account/login/?next={path}"' in page.html, "and not in an address"
    assert await Message.objects.acount() == before
    page = await nobody.post("/account/login/", login="ann", password="correct horse")
    assert "long\nmessage" not in page.html, "not even the next one who signs in sees it"


async def test_a_form_whose_token_is_old_gives_back_what_was_written(user: User) -> None:
    client = AsyncClient(enforce_csrf_checks=True)
    await client.aforce_login(user)
    reply = await client.post("/chats/new", {"text": "My long message"})
    assert reply.status_code == 403
    assert "My long message</textarea>" in reply.content.decode()


async def test_the_first_message_makes_a_chat_that_is_listed_by_it(ann: Browser) -> None:
    page = await ann.post("/chats/new", text="How do tides work?", model="other", key="k1")
    chat = await Chat.objects.aget()
    assert page.status == 200
    assert f'href="/chats/{chat.pk}/" aria-current="page"' in page.html
    assert "How do tides work?" in page.text
    assert (await Response.objects.aget()).model == "other"


async def test_a_form_sent_twice_is_one_message(ann: Browser) -> None:
    for _ in range(2):
        await ann.post("/chats/new", text="hi", key="k1")
    assert await Chat.objects.acount() == 1
    chat = await Chat.objects.aget()
    await Response.objects.aupdate(status="failed", ended_at=chat.created_at)
    for _ in range(2):
        await ann.post(f"/chats/{chat.pk}/send", text="and now?", key="k2")
    assert await Response.objects.acount() == 2


async def test_a_form_of_the_back_button_with_another_text_is_another_message(
    ann: Browser, chat: Chat
) -> None:
    await ann.post(f"/chats/{chat.pk}/send", text="one", key="k")
    await Response.objects.aupdate(status="failed", ended_at=chat.created_at)
    page = await ann.post(f"/chats/{chat.pk}/send", text="two", key="k")
    assert page.status == 200
    assert await Response.objects.acount() == 2


async def test_a_retry_takes_the_place_of_the_answer(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    response = await asked(ann, chat)
    await finished(store, response, End.interrupted(Interruption.WORKER_LOST), "Half an answer")
    page = await ann.post(f"/responses/{response.pk}/retry")
    again = await Response.objects.aget(retry_of=response)
    assert page.status == 200
    assert f'data-answer="{again.pk}"' in page.html
    assert f'data-answer="{response.pk}"' not in page.html
    assert "Half an answer" not in page.text


async def test_stop_ends_a_queued_answer_and_says_so(ann: Browser, chat: Chat) -> None:
    response = await asked(ann, chat)
    page = await ann.post(f"/responses/{response.pk}/stop")
    assert "Stopped You stopped this answer. Nothing had been written." in page.text
    await response.arefresh_from_db()
    assert (response.status, response.reason, response.stop_by) == ("cancelled", "user", "ann")


async def test_a_stop_that_cannot_be_stored_is_not_called_stopped(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    response = await asked(ann, chat)
    store.faults.fail("cancel")
    page = await ann.post(f"/responses/{response.pk}/stop", text="typed meanwhile")
    assert page.status == 503
    assert words.trouble("stop", 503) in page.text
    assert page.box == "typed meanwhile"


TYPED = '  Two lines\nof <text> & "more"\n'


@pytest.mark.parametrize("where", ["home", "chat"])
async def test_a_send_while_redis_is_away_loses_nothing_and_writes_nothing(
    ann: Browser, chat: Chat, store: MemoryStore, where: str
) -> None:
    store.faults.fail("reserve")
    path = "/chats/new" if where == "home" else f"/chats/{chat.pk}/send"
    page = await ann.post(path, text=TYPED, model="other", key="k")
    assert page.status == 503
    assert page.headers["Retry-After"] == "5"
    assert words.trouble("send", 503) in page.text
    assert page.box == TYPED
    assert '<option value="other" selected' in page.html
    assert not await Message.objects.aexists()
    page = await ann.post(path, text=TYPED, key=page.key)
    assert (page.status, page.box) == (200, "")
    assert await Message.objects.filter(text=TYPED).aexists()


async def test_a_send_to_a_full_redis_keeps_the_text_in_the_box(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    """PROTOCOL 3.6"""
    store.faults.full = True
    page = await ann.post(f"/chats/{chat.pk}/send", text=TYPED, key="k")
    assert (page.status, page.headers["Retry-After"], page.box) == (503, "30", TYPED)
    assert words.trouble("send", 503) in page.text
    assert not await Message.objects.aexists()


async def test_a_chat_whose_first_message_was_not_taken_is_not_listed(
    ann: Browser, store: MemoryStore
) -> None:
    store.faults.fail("reserve")
    page = await ann.post("/chats/new", text="hi")
    assert "Your chats will be listed here." in page.text


@pytest.mark.parametrize(
    ("text", "model", "status", "sentence"),
    [
        ("", "", 422, "the text is empty"),
        ("hi", "none", 422, "There is no model 'none'."),
        ("x" * 200, "", 413, "at most 100 bytes"),
    ],
)
async def test_bad_input_is_told_and_given_back(
    ann: Browser, chat: Chat, settings: Any, text: str, model: str, status: int, sentence: str
) -> None:
    from dataclasses import replace

    settings.RELAY = replace(settings.RELAY, max_input_bytes=100)
    page = await ann.post(f"/chats/{chat.pk}/send", text=text, model=model)
    assert page.status == status
    assert sentence in page.text
    assert words.table()["send"]["kept"] in page.text
    assert page.box == text
    assert not await Message.objects.aexists()


async def test_a_second_send_to_a_chat_that_is_answering_is_refused_and_kept(
    ann: Browser, chat: Chat
) -> None:
    await asked(ann, chat)
    page = await ann.post(f"/chats/{chat.pk}/send", text="and another thing")
    assert page.status == 409
    assert words.trouble("send", 409) in page.text
    assert page.box == "and another thing"


async def test_without_scripts_a_queued_message_is_seen_and_can_be_removed(
    ann: Browser, chat: Chat
) -> None:
    await Chat.objects.filter(pk=chat.pk).aupdate(double_text="queue")
    await asked(ann, chat)
    page = await ann.post(f"/chats/{chat.pk}/send", text="And what of the moon?")
    assert page.status == 200
    assert page.text.count(words.table()["state"]["queued"]) == 2
    assert page.text.count("Remove") == 1, "of what waits; what runs has Stop"
    assert 'data-part="send" hidden' not in page.html
    waiting = await Response.objects.aget(waits=True)
    page = await ann.post(f"/responses/{waiting.pk}/stop")
    assert page.text.count("Remove") == 0
    assert (await Response.objects.aget(pk=waiting.pk)).status == "cancelled"


async def test_a_full_queue_says_so_and_keeps_the_text(ann: Browser, chat: Chat) -> None:
    await Chat.objects.filter(pk=chat.pk).aupdate(double_text="queue")
    for n in range(6):
        await ann.post(f"/chats/{chat.pk}/send", text=f"message {n}")
    page = await ann.post(f"/chats/{chat.pk}/send", text="one too many")
    assert (page.status, page.box) == (429, "one too many")
    assert "5 messages wait in this chat already." in page.text
    assert "Then send again." in page.text


MORE = {"system_prompt": "Be brief.", "temperature": "0.5", "max_output_tokens": "99"}


async def test_what_stands_beside_the_box_is_kept_with_the_chat(ann: Browser) -> None:
    await ann.post("/chats/new", text="hi", leaving="keep", **MORE)
    chat = await Chat.objects.aget()
    assert (chat.system_prompt, chat.temperature, chat.max_output_tokens) == ("Be brief.", 0.5, 99)
    assert chat.double_text == "queue"
    assert (await Response.objects.aget()).cancel_after_s is None
    page = await ann.post(
        f"/chats/{chat.pk}/send", text="on", leaving="stop", **MORE | {"temperature": ""}
    )
    await chat.arefresh_from_db()
    assert (chat.system_prompt, chat.temperature, chat.max_output_tokens) == ("Be brief.", None, 99)
    assert (await Response.objects.aget(waits=True)).cancel_after_s is not None
    assert "Be brief." in page.html
    assert chat.title == "hi"


async def test_what_cannot_be_set_is_told_and_given_back_with_the_text(
    ann: Browser, chat: Chat
) -> None:
    page = await ann.post(f"/chats/{chat.pk}/send", text="hi", **MORE | {"temperature": "warm"})
    assert (page.status, page.box) == (422, "hi")
    assert "The temperature must be a number, or empty." in page.text
    assert 'value="warm"' in page.html
    assert "Be brief." in page.html
    await chat.arefresh_from_db()
    assert chat.system_prompt == ""
    assert not await Message.objects.aexists()
