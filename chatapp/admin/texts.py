"""Who is shown what was said: some at once, some when they ask; the audit trail knows of each.

Every page of admin that could show a text asks here, and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from chatapp import audit
from chatapp.services import story

if TYPE_CHECKING:
    from django.http import HttpRequest

    from chatapp.models import Chat, Message, Response


def shown_at_once(request: HttpRequest) -> bool:
    return request.user.has_perm("chatapp.read_text")


def may_ask_for_text(request: HttpRequest) -> bool:
    return shown_at_once(request) or request.user.has_perm("chatapp.show_text")


@transaction.atomic
def chat_told(chat: Chat, *, actor: str, most: int) -> list[Message]:
    """The last messages of `chat`, oldest first, having noted that `actor` reads them."""
    audit.chat_read(chat, actor=actor)
    newest = chat.messages.select_related("response").order_by("-position")
    wanted = ("position", "parent_id", "role", "text", "response__id", "created_at", "chat_id")
    return list(reversed(newest.only(*wanted)[:most]))


@transaction.atomic
def told(row: Response, *, actor: str, how: str) -> story.Texts:
    """The texts of `row`, having noted that `actor` reads them."""
    audit.text_read(row, actor=actor, how=how)
    return story.texts(row)
