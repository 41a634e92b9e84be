"""No name of a chat or a file looks like another one: `photo[U+202E]gpj.exe` is no picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatapp import services
from chatapp.attached import parts_of
from chatapp.named import DIRECTIONS
from tests.chatapp.pages import asked

if TYPE_CHECKING:
    from chatapp.models import Chat, User
    from relay import MemoryStore
    from tests.chatapp.pages import Browser

DISGUISED = "photo\u202egpj.exe"
FILE = f"Attached: {DISGUISED} (1 characters)\n~~~~\nx\n~~~~"


async def test_a_title_is_kept_without_marks_whoever_gives_it(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    await services.send_message(user=user, chat=chat, text=f"\u2066{DISGUISED}\u2069 is what?")
    await chat.arefresh_from_db()
    assert chat.title == "photogpj.exe is what?"
    await services.update_chat(chat=chat, title=f"\u2067{DISGUISED}")
    await chat.arefresh_from_db()
    assert chat.title == "photogpj.exe"
    with pytest.raises(services.BadInput):
        await services.update_chat(chat=chat, title="\u202e \u2069")


async def test_a_message_of_nothing_but_marks_has_a_title(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    await services.send_message(user=user, chat=chat, text="\u202e\u2066")
    await chat.arefresh_from_db()
    assert chat.title == "…"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (f"What is\nthis?\n\n{FILE}", "What is this?"),
        (f"{FILE}\n\nWhat is this?", "What is this?"),
        (FILE, "photogpj.exe"),
        ("Attached: nothing (1 characters)", "Attached: nothing (1 characters)"),
    ],
)
async def test_a_chat_is_named_after_what_was_written_else_after_the_file(
    text: str, title: str, user: User, chat: Chat, store: MemoryStore
) -> None:
    await services.send_message(user=user, chat=chat, text=text)
    await chat.arefresh_from_db()
    assert chat.title == title


async def test_marks_that_turn_no_letter_stay(user: User, chat: Chat) -> None:
    """RLM: an Arabic title may end in a full stop on its own side."""
    await services.update_chat(chat=chat, title="عن C++\u200f.")
    assert chat.title == "عن C++\u200f."


async def test_what_is_attached_is_named_plainly_in_the_page_and_in_a_file(
    ann: Browser, chat: Chat
) -> None:
    """The message itself is what was sent: the model is told of it letter by letter."""
    await asked(ann, chat, FILE)
    page = await ann.get(f"/chats/{chat.pk}/")
    assert '<strong data-part="name">photogpj.exe</strong>' in page.html
    assert [part.name for part in parts_of(FILE)] == ["photogpj.exe"]
    await chat.arefresh_from_db()
    exported = await services.as_markdown(chat=chat)
    assert "Attached: photogpj.exe (1 characters)\n~~~~\nx\n~~~~" in exported
    assert not DIRECTIONS.search(exported)


async def test_words_that_are_looked_for_turn_nothing_around_them(ann: Browser) -> None:
    page = await ann.get("/chats/?q=%E2%80%AEtxet")
    assert "Chats with “txet”" in page.text
    assert "<title>txet · " in page.html
