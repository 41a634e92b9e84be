"""Names of chats: asked for once, in the background, and never over a person's own."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from chatapp import runtime, services
from chatapp.models import AuditEvent, Chat, User
from chatapp.services import Titles, incidents, titles
from chatapp.services.titles import title_in
from relay import ErrorKind, GenerationRequest, ModelConfig, TextDelta, UpstreamError
from tests.chatapp.test_chat_views import make

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay import MemoryStore

pytestmark = pytest.mark.django_db(transaction=True)


class Provider:
    """Says this, or fails; remembers what it was asked."""

    def __init__(self, said: str | Exception) -> None:
        self.said = said
        self.asked: list[GenerationRequest] = []

    @asynccontextmanager
    async def open(self, request: GenerationRequest, model: ModelConfig) -> AsyncIterator[Any]:
        self.asked.append(request)
        if isinstance(self.said, Exception):
            raise self.said
        yield self._events(self.said)

    async def _events(self, said: str) -> AsyncIterator[list[TextDelta]]:
        yield [TextDelta(part=0, delta=said)]


def naming(provider: Any) -> Titles:
    return Titles(provider)


async def answered(user: User, title: str = "") -> Chat:
    chat = await sync_to_async(make)(user, "How do tides work?", "The moon.", title=title)
    await Chat.objects.filter(pk=chat.pk).aupdate(updated_at=timezone.now())
    return chat


async def test_a_chat_is_named_once_after_its_first_answer(user: User) -> None:
    empty = await sync_to_async(make)(user, "not answered yet")
    chat = await answered(user)
    provider = Provider('"Tides and the moon."\n')
    for _ in range(2):
        await naming(provider)()
    await chat.arefresh_from_db()
    assert (chat.title, chat.titled_by) == ("Tides and the moon", "model")
    (asked,) = provider.asked
    assert "How do tides work?" in asked.messages[0]["content"]
    assert (asked.max_output_tokens, asked.model) == (titles.TITLE_TOKENS, "fast")
    entry = await AuditEvent.objects.aget(action="titled")
    assert (entry.username, entry.model, entry.detail["done"]) == ("ann", "fast", True)
    await empty.arefresh_from_db()
    assert empty.titled_by == "words"


@pytest.mark.parametrize(
    "said",
    [
        UpstreamError(ErrorKind.OVERLOADED, "busy"),
        TimeoutError(),
        "",
        "   \n",
        "Sure! Here is a name for the conversation that you have shown me, and I will explain it "
        "at some length.",
    ],
)
async def test_a_failure_keeps_the_first_words_and_is_not_repeated(
    user: User, said: str | Exception
) -> None:
    chat = await answered(user)
    provider = Provider(said)
    for _ in range(2):
        await naming(provider)()
    await chat.arefresh_from_db()
    assert (chat.title, chat.titled_by) == ("How do tides work?", "nobody")
    assert len(provider.asked) == 1


async def test_a_persons_own_name_wins_also_while_the_model_thinks(
    user: User, store: MemoryStore
) -> None:
    own = await services.start_chat(user=user, title="Mine")
    chat = await answered(user)

    class Slow(Provider):
        async def _events(self, said: str) -> AsyncIterator[list[TextDelta]]:
            await services.update_chat(chat=chat, title="Renamed meanwhile")
            yield [TextDelta(part=0, delta=said)]

    await naming(Slow("The model's"))()
    for row, title in ((own, "Mine"), (chat, "Renamed meanwhile")):
        await row.arefresh_from_db()
        assert (row.title, row.titled_by) == (title, "person")


async def test_a_name_is_told_to_open_pages(user: User) -> None:
    chat = await answered(user)
    before = runtime.now()
    await naming(Provider("Tides"))()
    [(_, change)] = await services.changed_chats(users=[user.pk], since=before)
    assert (change.id, change.title, change.titled_by) == (str(chat.pk), "Tides", "model")
    assert change.at >= services.cursor(before)


async def test_two_processes_ask_once(user: User) -> None:
    await answered(user)
    provider = Provider("Tides")
    await asyncio.gather(naming(provider)(), naming(provider)())
    assert len(provider.asked) == 1


async def test_who_names_them_is_a_setting(user: User, settings: Any) -> None:
    chat = await answered(user)
    provider = Provider("Tides")
    settings.TITLES = False
    await naming(provider)()
    assert provider.asked == []
    settings.TITLES, settings.TITLE_MODEL = True, "other"
    await Chat.objects.filter(pk=chat.pk).aupdate(updated_at=timezone.now() - timedelta(days=1))
    await naming(provider)()
    assert provider.asked == [], "an old chat keeps its name"
    await Chat.objects.filter(pk=chat.pk).aupdate(updated_at=timezone.now())
    await naming(provider)()
    assert [request.model for request in provider.asked] == ["other"]


@pytest.mark.parametrize(("state", "named_by"), [("off", []), ("fallback", ["other"])])
@pytest.mark.usefixtures("with_fallback")
async def test_a_model_that_is_switched_names_nothing(
    user: User, state: str, named_by: list[str]
) -> None:
    await sync_to_async(incidents.switch)("fast", state=state, text="", by="root")
    chat = await answered(user)
    provider = Provider("Tides")
    await naming(provider)()
    assert [request.model for request in provider.asked] == named_by
    await chat.arefresh_from_db()
    assert chat.titled_by == ("model" if named_by else "nobody")


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Tides and the moon", "Tides and the moon"),
        ('"Tides"', "Tides"),
        ("# **Title: Tides**", "Tides"),
        ("„Ebbe und Flut“", "Ebbe und Flut"),
        ("潮の満ち引き。", "潮の満ち引き。"),
        ("\n\nTides\nand more", "Tides"),
        ("word " * 15, "word " * 11 + "word…"),
        ("photo\u202egpj.exe", "photogpj.exe"),
        ("\u2066صورة\u2069", "صورة"),
        ("...", ""),
        ("x" * 101, ""),
    ],
)
def test_a_name_is_found_in_what_a_model_says(said: str, title: str) -> None:
    assert title_in(said) == title
