"""Record, page and API of a log that a worker of another version wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chatapp.services.settling import record
from chatapp.templatetags import words
from tests.chatapp.pages import Browser, asked, writing

if TYPE_CHECKING:
    from chatapp.models import Chat
    from relay import MemoryStore
    from tests.chatapp.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)

VERSIONS = json.loads((Path(__file__).parents[1] / "fixtures" / "versions.json").read_text())


@pytest.mark.parametrize("version", ["newer", "older"])
async def test_record_page_and_api_tell_what_this_version_knows(
    ann: Browser, api: Api, chat: Chat, store: MemoryStore, version: str
) -> None:
    expected: dict[str, Any] = VERSIONS[version]["snapshot"]
    response = await asked(ann, chat)
    scribe = await writing(store, response)
    await scribe.repeat(VERSIONS[version]["events"])
    told = (await api.get(f"/api/responses/{response.pk}")).json()
    assert (told["status"], told["reason"]) == (expected["status"], expected["reason"])
    assert (told["text"], told["finish_reason"]) == (expected["text"], expected["finish_reason"])
    before = (await ann.get(f"/chats/{chat.pk}/")).text
    await record(response.pk)
    await response.arefresh_from_db()
    assert (response.status, response.reason) == (expected["status"], expected["reason"] or "")
    page = await ann.get(f"/chats/{chat.pk}/")
    assert expected["text"] in page.text
    end = words.table()["ends"][expected["status"]]["*"]
    assert end["label"] in page.text
    assert end["happened"] in page.text
    assert page.text == before, "the page says the same of the log and of the record"
