"""The list of a person's chats, page by page, and looking for words in them.

A search is a scan over the person's own messages, by the index from chat to message: 20 MB of text
take half a second on a busy machine, on SQLite as on PostgreSQL (DECISIONS 46). Every word must be
found, in the title or in one message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final, NamedTuple

from django.db.models import OuterRef, Q, Subquery
from django.utils import timezone

from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Chat, Message, Response
from chatapp.services.chats import GRACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet

    from chatapp.models import User

PAGE: Final = 50
"""Chats of one page of the list: more than a screen shows."""
FOUND: Final = 50
"""Chats of one search; who finds more looks for too little."""
MAX_WORDS: Final = 8
MAX_QUERY_CHARS: Final = 200
AROUND_CHARS: Final = 60
"""Before the place that was found, and twice that behind it: two lines of a phone."""


@dataclass(frozen=True, slots=True)
class ChatPage:
    """`running_id` of each chat is its answer that is being written, or None."""

    chats: list[Chat]
    more: bool
    """There are older ones."""
    deleted: list[Chat]
    """Those that can still be brought back, the last first."""


class Piece(NamedTuple):
    text: str
    marked: bool


@dataclass(frozen=True, slots=True)
class Found:
    chat: Chat
    title: list[Piece]
    message_id: int | None
    position: int | None
    """Of the newest message with all words; None: only the title has them."""
    place: list[Piece]
    """Of that message."""
    hidden: bool = False
    """That message stands on a branch that is not shown."""


async def list_chats(*, user: User, after: Chat | None = None) -> ChatPage:
    """Pinned ones first, then the newest. Raises RecordUnavailable."""
    return await _list(user, after)


async def search(*, user: User, query: str) -> list[Found]:
    """The person's chats with these words, the newest first; none for no words.

    Raises RecordUnavailable.
    """
    words = words_of(query)
    return await _search(user, words) if words else []


def words_of(query: str) -> list[str]:
    """What is looked for, each word once; of a very long query the beginning."""
    return list(dict.fromkeys(query[:MAX_QUERY_CHARS].split()))[:MAX_WORDS]


def pieces(text: str, words: Sequence[str]) -> list[Piece]:
    """The text cut at what was found."""
    parts = re.split(f"({'|'.join(map(re.escape, words))})", text, flags=re.IGNORECASE)
    # What is found stands at the odd places.
    return [Piece(part, bool(n % 2)) for n, part in enumerate(parts) if part]


def excerpt(text: str, words: Sequence[str]) -> list[Piece]:
    """A line or two around the first place where a word stands."""
    flat = " ".join(text.split())
    found = re.search("|".join(map(re.escape, words)), flat, flags=re.IGNORECASE)
    at = found.start() if found else 0
    begin = flat.rfind(" ", 0, max(0, at - AROUND_CHARS)) + 1 if at > AROUND_CHARS else 0
    end = at + 2 * AROUND_CHARS
    if end < len(flat):
        space = flat.rfind(" ", at, end)
        end = space if space > at else end  # a language without spaces is cut anywhere
    cut = flat[begin:end]
    return pieces(("… " if begin else "") + cut + (" …" if end < len(flat) else ""), words)


@on_database_thread
def _list(user: User, after: Chat | None) -> ChatPage:
    with database_errors():
        chats = Chat.objects.listed_for(user)
        if after is None:
            page = list(_running(chats.filter(~Q(pinned_at=None))))
            rest = chats.filter(pinned_at=None)
        else:
            page, rest = [], chats.older_than(after)
        others = list(_running(rest[: PAGE + 1]))
        deleted = Chat.objects.deleted_since(user, timezone.now() - GRACE)
        return ChatPage(
            page + others[:PAGE],
            len(others) > PAGE,
            [] if after is not None else list(deleted.exclude(title="")[:3]),
        )


def _running(chats: QuerySet[Chat]) -> QuerySet[Chat]:
    running = Response.objects.begun().filter(chat=OuterRef("pk")).values("pk")[:1]
    return chats.annotate(running_id=Subquery(running))


@on_database_thread
def _search(user: User, words: list[str]) -> list[Found]:
    with database_errors():
        said = Message.objects.filter(_all("text", words), chat=OuterRef("pk"))
        newest = said.order_by("-position").values("pk")[:1]
        chats = Chat.objects.visible_to(user).annotate(message_id=Subquery(newest))
        hits = list(
            _running(chats)
            .filter(_all("title", words) | Q(message_id__isnull=False))
            .exclude(title="")[:FOUND]
        )
        ids = [chat.message_id for chat in hits]  # type: ignore[attr-defined]
        messages = Message.objects.in_bulk([pk for pk in ids if pk is not None])
        paths = Message.objects.on_paths_to([chat.current_id for chat in hits])
        shown = set(paths.filter(pk__in=messages).values_list("pk", flat=True))
    return [
        _found(chat, messages.get(pk), words, hidden=pk is not None and pk not in shown)
        for chat, pk in zip(hits, ids, strict=True)
    ]


def _all(field: str, words: list[str]) -> Q:
    return reduce(and_, [Q(**{f"{field}__{_lookup(word)}": _pattern(word)}) for word in words])


def _lookup(word: str) -> str:
    # SQLite's LIKE takes É and é for two letters; a regular expression knows better, and takes
    # six times as long. It is nothing but the escaped word.
    return "icontains" if word.isascii() else "iregex"


def _pattern(word: str) -> str:
    return word if word.isascii() else re.escape(word)


def _found(chat: Chat, message: Message | None, words: list[str], *, hidden: bool) -> Found:
    return Found(
        chat,
        pieces(chat.title, words),
        message.pk if message else None,
        message.position if message else None,
        excerpt(message.text, words) if message else [],
        hidden,
    )
