"""The HTML of ended answers is made once, and goes with its chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from asgiref.sync import async_to_sync

from chatapp import services
from chatapp.models import Message, MessageHtml
from chatapp.rendering import html_of, kept, to_html
from chatapp.services.settling import record
from relay.generate import End
from tests.chatapp.pages import Browser, asked, writing

if TYPE_CHECKING:
    from chatapp.models import Chat, User
    from relay import MemoryStore

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of which HTML was made."""
    texts: list[str] = []

    def counting(text: str) -> str:
        texts.append(text)
        return to_html(text)

    monkeypatch.setattr(kept, "to_html", counting)
    return texts


async def a_message(chat: Chat, text: str) -> Message:
    return await Message.objects.acreate(chat=chat, role=Message.Role.USER, text=text, position=900)


async def test_an_ended_answer_is_read_once(chat: Chat, made: list[str]) -> None:
    message = await a_message(chat, "*a*")
    for _ in range(3):
        assert await html_of({message.pk: "*a*"}, {message.pk}) == {message.pk: "<p><em>a</em></p>"}
    assert made == ["*a*"]


async def test_a_running_answer_is_not_kept(chat: Chat, made: list[str]) -> None:
    message = await a_message(chat, "")
    assert await html_of({message.pk: "*a"}, set()) == {message.pk: "<p>*a</p>"}
    assert await html_of({message.pk: "*a*"}, set()) == {message.pk: "<p><em>a</em></p>"}
    assert not await MessageHtml.objects.aexists()


async def test_html_of_other_rules_is_made_anew(chat: Chat, made: list[str]) -> None:
    message = await a_message(chat, "a")
    await MessageHtml.objects.acreate(message=message, version="older", html="<p>old</p>")
    for _ in range(2):
        assert await html_of({message.pk: "a"}, {message.pk}) == {message.pk: "<p>a</p>"}
    assert made == ["a"]


async def test_a_message_that_is_gone_meanwhile_is_shown_and_not_kept(chat: Chat) -> None:
    message = await a_message(chat, "a")
    pk = message.pk
    await message.adelete()
    assert await html_of({pk: "a"}, {pk}) == {pk: "<p>a</p>"}
    assert not await MessageHtml.objects.aexists()


async def test_a_page_shows_prose_and_what_was_kept_goes_with_the_chat(
    ann: Browser, user: User, chat: Chat, store: MemoryStore, made: list[str]
) -> None:
    response = await asked(ann, chat)
    scribe = await writing(store, response, "## Tides\n\n- *slow* rise <of> the sea\n")
    assert "<em>slow</em> rise &lt;of&gt;" in (await ann.get(f"/chats/{chat.pk}/")).html
    assert not await MessageHtml.objects.aexists()
    await scribe.end(End.finished("stop"))
    await record(response.pk)
    for _ in range(2):
        page = await ann.get(f"/chats/{chat.pk}/")
        assert '<h4>Tides</h4><ul dir="auto"><li><em>slow</em> rise' in page.html
    assert len(made) == 2
    assert await MessageHtml.objects.acount() == 1
    await services.delete_chat(chat=chat, by=user)
    assert not await MessageHtml.objects.aexists()


async def test_a_text_that_was_dropped_does_not_come_back_as_html(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention came between the page's look at the text and its HTML."""
    message = await a_message(chat, "*a*")

    def dropped_meanwhile(text: str) -> str:
        async_to_sync(Message.objects.filter(pk=message.pk).aupdate)(text="")
        return to_html(text)

    monkeypatch.setattr(kept, "to_html", dropped_meanwhile)
    assert await html_of({message.pk: "*a*"}, {message.pk})
    assert not await MessageHtml.objects.aexists()
