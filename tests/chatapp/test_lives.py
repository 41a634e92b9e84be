"""What a page from the server says of an answer besides its words, before and after its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatapp.services.settling import record
from chatapp.templatetags.words import table
from relay import End
from relay import events as ev
from tests.chatapp.pages import Browser, asked, writing

if TYPE_CHECKING:
    from chatapp.models import Chat, User
    from relay import MemoryStore


@pytest.fixture
def ann(user: User) -> Browser:
    return Browser(user)


async def test_after_a_fallback_the_answer_names_who_answered_and_the_box_who_was_asked(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    response = await asked(ann, chat)
    scribe = await writing(store, response)
    await scribe.tell(ev.Notice(code="fallback", message="Another one answers.", model="other"))
    await scribe.say("Tides.")
    said = table()["instead"].format(asked=response.model, model="other")
    page = await ann.get(f"/chats/{chat.pk}/")
    assert said in page.text
    await scribe.end(End.finished("stop"))
    await record(response.pk)
    page = await ann.get(f"/chats/{chat.pk}/")
    assert said in page.text
    assert f'data-asked="{response.model}"' in page.html


async def test_a_notice_with_a_measure_comes_with_its_bar(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    scribe = await writing(store, await asked(ann, chat))
    bar = 'max="1731" value="384"'
    assert bar not in (await ann.get(f"/chats/{chat.pk}/")).html
    notice = ev.Notice(code="reading_prompt", message="Reading, 384", done=384, total=1731)
    await scribe.tell(notice)
    page = await ann.get(f"/chats/{chat.pk}/")
    assert bar in page.html
    assert "Reading, 384" in page.text
    await scribe.say("Tides.")
    assert bar not in (await ann.get(f"/chats/{chat.pk}/")).html


async def test_figures_are_in_the_page_when_the_answer_has_ended(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    response = await asked(ann, chat)
    scribe = await writing(store, response, "Tides.")
    assert response.pk not in (await ann.get(f"/chats/{chat.pk}/")).text
    usage = ev.UsageCount(input_tokens=1234, output_tokens=5)
    await scribe.end(End.finished("stop"), usage=usage)
    await record(response.pk)
    text = (await ann.get(f"/chats/{chat.pk}/")).text
    assert "1,234" in text
    assert response.pk in text
    assert table()["figures"]["end"]["stop"] in text
