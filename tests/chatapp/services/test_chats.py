"""Chats: their settings, the grace of a deletion, and what of a long one a model is shown."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from chatapp import services
from chatapp.models import Chat, Response, User
from chatapp.services import BadInput
from chatapp.services.repair import Sweep
from chatapp.services.settling import record
from relay import GenerationRequest, Status
from tests.chatapp.conftest import MODELS, scribe_of, talk

if TYPE_CHECKING:
    from relay import MemoryStore

SMALL = """
[models.small]
dialect = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
upstream_model = "small-1"
context_tokens = 400
max_output_tokens = 100
"""


@pytest.fixture
def small(tmp_path: Path, settings: Any) -> str:
    """A model that reads three hundred tokens beside its answer."""
    path = tmp_path / "small.toml"
    path.write_text(MODELS + SMALL)
    settings.RELAY_MODELS = str(path)
    return "small"


def asked(response: Response) -> GenerationRequest:
    return GenerationRequest.from_json(response.request)


async def fill(chat: Chat, turns: int, size: int = 350) -> None:
    """Exchanges of a hundred tokens a message, by the estimate."""
    texts = [f"{n:03}" + "x" * (size - 3) for n in range(1, turns + 1)]
    await sync_to_async(talk)(chat, *texts)


async def test_a_chats_settings_go_with_its_messages(user: User, store: MemoryStore) -> None:
    chat = await services.start_chat(
        user=user, system_prompt=" Be brief. ", temperature=0.25, max_output_tokens=50
    )
    request = asked((await services.send_message(user=user, chat=chat, text="hi")).response)
    assert (request.instructions, request.temperature) == ("Be brief.", 0.25)
    assert request.max_output_tokens == 50
    await services.update_chat(chat=chat, temperature=None, system_prompt="")
    await chat.arefresh_from_db()
    assert (chat.temperature, chat.system_prompt, chat.max_output_tokens) == (None, "", 50)


async def test_what_a_model_cannot_do_is_refused_and_nothing_changes(
    user: User, store: MemoryStore, small: str
) -> None:
    chat = await services.start_chat(user=user, model=small)
    for settings, said in (
        ({"max_output_tokens": 101}, "between 1 and 100"),
        ({"max_output_tokens": 0}, "between 1 and 100"),
        ({"temperature": 2.5}, "between 0 and 2"),
        ({"system_prompt": "x" * 800}, "more than half of the 400 tokens"),
    ):
        with pytest.raises(BadInput, match=said):
            await services.update_chat(chat=chat, **settings)
        await chat.arefresh_from_db()
        assert (chat.max_output_tokens, chat.temperature, chat.system_prompt) == (None, None, "")


async def test_the_record_says_what_was_left_out_and_so_does_the_outlook_before(
    user: User, store: MemoryStore, small: str
) -> None:
    chat = await services.start_chat(user=user, model=small, system_prompt="Be brief.")
    await fill(chat, 6)
    outlook = await services.outlook(chat=chat, text="and now?")
    assert (outlook.left_out, outlook.shown_from) == (4, 5)
    assert (await services.outlook(chat=chat, model="fast", text="and now?")).left_out == 0
    response = (await services.send_message(user=user, chat=chat, text="and now?")).response
    request = asked(response)
    assert [message["content"][:3] for message in request.messages] == ["005", "006", "and"]
    assert request.instructions == "Be brief."
    await response.arefresh_from_db()
    assert (response.left_out, response.shown_from) == (4, 5)


async def test_a_message_that_waited_is_fitted_when_it_begins(
    user: User, store: MemoryStore, small: str
) -> None:
    chat = await services.start_chat(user=user, model=small, double_text="queue")
    await fill(chat, 2)
    first = (await services.send_message(user=user, chat=chat, text="one")).response
    second = (await services.send_message(user=user, chat=chat, text="two")).response
    scribe = await scribe_of(store, first.pk)
    await scribe.say("y" * 700)
    await scribe.end()
    await record(first.pk)
    await second.arefresh_from_db()
    assert second.waits is False
    assert asked(second).messages[-1]["content"] == "two"
    assert second.left_out == 2
    assert second.shown_from == 3


async def test_a_retry_keeps_what_was_left_out(user: User, store: MemoryStore, small: str) -> None:
    chat = await services.start_chat(user=user, model=small)
    await fill(chat, 6)
    first = (await services.send_message(user=user, chat=chat, text="x")).response
    await Response.objects.filter(pk=first.pk).aupdate(
        status=Status.FAILED, ended_at=timezone.now()
    )
    await first.arefresh_from_db()
    again = await services.retry(response=first, by=user)
    assert (again.left_out, again.shown_from) == (first.left_out, first.shown_from) == (4, 5)


async def test_a_deleted_chat_is_hidden_can_be_brought_back_and_then_goes(
    user: User, store: MemoryStore, chat: Chat
) -> None:
    response = (await services.send_message(user=user, chat=chat, text="secret")).response
    await services.hide_chat(chat=chat)
    assert not await Chat.objects.visible_to(user).aexists()
    sweep = Sweep()
    await sweep()
    assert await Chat.objects.filter(pk=chat.pk).aexists(), "not before its grace is over"
    await Chat.objects.aupdate(current=None)  # named, and nothing was said yet
    assert await services.restore_chat(user=user, chat_id=chat.pk)
    assert await Chat.objects.visible_to(user).aexists()
    await services.hide_chat(chat=chat)
    late = timezone.now() - services.GRACE - timedelta(seconds=1)
    await Chat.objects.aupdate(deleted_at=late)
    assert not await services.restore_chat(user=user, chat_id=chat.pk)
    await sweep()
    await sweep()
    assert not await Chat.objects.filter(pk=chat.pk).aexists()
    await response.arefresh_from_db()
    assert (response.status, response.reason) == ("cancelled", "user")
    assert "secret" not in json.dumps([response.request, response.fold])


async def test_somebody_elses_deleted_chat_is_not_brought_back(
    user: User, stranger: User, chat: Chat, store: MemoryStore
) -> None:
    await services.hide_chat(chat=chat)
    assert not await services.restore_chat(user=stranger, chat_id=chat.pk)
    assert not await Chat.objects.visible_to(user).aexists()


async def test_pinned_chats_come_first_and_pages_meet(user: User, transactional_db: None) -> None:
    now = timezone.now()
    chats = [
        await Chat.objects.acreate(user=user, model="fast", title=str(n), updated_at=now)
        for n in range(6)  # all at the same moment
    ]
    await services.update_chat(chat=chats[0], pinned=True)
    listed = [chat async for chat in Chat.objects.listed_for(user)]
    assert listed[0].pk == chats[0].pk
    rest = [chat async for chat in Chat.objects.listed_for(user).older_than(listed[2])]
    assert rest == listed[3:]
