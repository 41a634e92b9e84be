"""A long text beside a message is part of its text, and a page shows it folded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chatapp.attached import Part, parts_of
from chatapp.models import Message
from tests.chatapp.pages import asked

if TYPE_CHECKING:
    from chatapp.models import Chat
    from tests.chatapp.pages import Browser

CASES = json.loads((Path(__file__).parents[1] / "fixtures" / "attached.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_it_is_read_as_the_page_reads_it(case: dict[str, Any]) -> None:
    found = [[part.name, part.text] for part in parts_of(case["text"])]
    assert found == case["parts"]


async def test_a_page_without_scripts_shows_it_folded(ann: Browser, chat: Chat) -> None:
    long = "\n".join(f"line {n} <b>" for n in range(3000))
    text = f"Look:\n\nAttached: log.txt ({len(long)} characters)\n~~~~\n{long}\n~~~~"
    await asked(ann, chat, text)
    page = await ann.get(f"/chats/{chat.pk}/")
    assert page.html.count('<details class="attached"') == 3, "two are templates for scripts"
    assert f"log.txt {len(long):,} characters, 3,000 lines line 0 <b>" in page.text
    assert "line 2999 &lt;b&gt;" in page.html
    assert await Message.objects.filter(text=text).aexists()


def test_a_line_feed_at_the_end_begins_no_line() -> None:
    assert [Part(text).lines for text in ("", "one", "one\n", "one\ntwo\n", "\n\n")] == [
        1,
        1,
        1,
        2,
        2,
    ]
