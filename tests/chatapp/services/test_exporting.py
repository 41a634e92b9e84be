"""What a file of a chat says to whoever opens it elsewhere."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from chatapp import services

if TYPE_CHECKING:
    from chatapp.models import Chat


async def test_a_title_is_text_in_a_markdown_file(chat: Chat) -> None:
    chat.title = "<img src=x onerror=y> **bold** [a](b) `c` $x$ a\\b &amp;"
    await chat.asave()
    exported = await services.as_markdown(chat=chat)
    heading = MarkdownIt("commonmark").render(exported.splitlines()[0])
    assert heading == f"<h1>{html.escape(chat.title)}</h1>\n"
