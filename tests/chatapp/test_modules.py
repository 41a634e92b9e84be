"""The head of a page names what its scripts import."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from chatapp.templatetags.modules import imported_by, imports_of
from tests.chatapp.pages import Browser, asked

if TYPE_CHECKING:
    from chatapp.models import Chat, User
    from relay import MemoryStore


def test_all_levels_are_found_once_and_what_comes_later_is_not() -> None:
    found = imported_by(("chat/page.js",))
    assert len(found) == len({*found})
    assert {"chat/answer.js", "chat/fold.js", "chat/markdown/rules.js", "vendor/markdown.js"} <= {
        *found
    }
    assert found.index("chat/answer.js") < found.index("chat/markdown/rules.js")
    assert not {"chat/page.js", "vendor/highlight.js", "vendor/maths.js"} & {*found}


def test_each_has_a_link() -> None:
    links = str(imports_of("chat/keys.js", "chat/older.js"))
    assert links.count("modulepreload") == len(imported_by(("chat/keys.js", "chat/older.js"))) > 2


async def test_a_chat_names_them_before_its_scripts(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    ann = Browser(user)
    await asked(ann, chat)
    head = (await ann.get(f"/chats/{chat.pk}/")).html.partition("</head>")[0]
    preloads = re.findall(r'modulepreload" href="[^"]*/(\w+)(?:\.\w+)?\.js"', head)
    assert {"answer", "rules", "markdown", "fold"} <= {*preloads}
    assert head.index("modulepreload") < head.index('type="module"')
