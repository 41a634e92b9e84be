"""Which part of a chat a page shows: its end, or what is around a place further up."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from django.db.models import Q

from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Chat, Message, MessageQuerySet, Response

TURNS: Final = 40
"""Messages of one page. Twenty exchanges are more than anybody reads again at once, and render in
a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Left:
    """What the last question left out, to fit its model."""

    count: int
    shown_from: int
    model: str


@dataclass(frozen=True, slots=True)
class Window:
    messages: list[Message]
    """Oldest first, each with its response."""
    older: int | None
    """The position before which there is more; None: this is the beginning."""
    newer: bool
    """There is more behind it."""
    left: Left | None


async def window(*, chat: Chat, before: int | None = None, at: int | None = None) -> Window:
    """The end of the chat, what comes before a position, or what is around one.

    Raises RecordUnavailable.
    """
    return await _window(chat, before, at)


@on_database_thread
def _window(chat: Chat, before: int | None, at: int | None) -> Window:
    with database_errors():
        shown = shown_of(chat).select_related("response")
        behind: list[Message] = []
        if at is not None:
            behind = list(shown.filter(position__gte=at).order_by("position")[: TURNS // 2 + 1])
            before = at
        newer = before is not None if at is None else len(behind) > TURNS // 2
        behind = behind[: TURNS // 2]
        if newer and behind and _is_answer(behind[-1]):
            behind += _rest_of_answer(shown.filter(position__gt=behind[-1].position))
        upto = (shown if before is None else shown.before(before)).order_by("-position")
        wanted = TURNS - min(len(behind), TURNS // 2)
        ahead = list(upto[: wanted + 1])
        while len(ahead) > wanted and _is_answer(ahead[wanted - 1]) and _is_answer(ahead[wanted]):
            wanted += 1  # one goes on with the other: to a person they are one answer
            ahead += upto[wanted : wanted + 1]
        older = ahead[wanted - 1].position if len(ahead) > wanted else None
        return Window([*reversed(ahead[:wanted]), *behind], older, newer, _left(chat))


def _rest_of_answer(following: MessageQuerySet) -> list[Message]:
    """What goes on with an answer, up to the next question; from what follows the answer."""
    return list(takewhile(_is_answer, following.order_by("position").iterator(chunk_size=8)))


def _is_answer(message: Message) -> bool:
    return message.role == Message.Role.ASSISTANT


def shown_of(chat: Chat) -> MessageQuerySet:
    """What a person sees of it, without order."""
    return Message.objects.path_to(chat.current_id)


def _left(chat: Chat) -> Left | None:
    rows = Response.objects.filter(~Q(left_out=0), message=chat.current_id)
    columns = ("left_out", "shown_from", "model")
    row = rows.values_list(*columns).first()
    return Left(*row) if row else None
