"""Which part of a long chat a page shows, and what it says of messages that a model is not told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from chatapp import services
from chatapp.templatetags.words import left_out

if TYPE_CHECKING:
    from django.http import HttpRequest

    from chatapp.models import Chat


@dataclass(frozen=True, slots=True)
class Place:
    """By positions of messages; neither: the end."""

    before: int | None = None
    at: int | None = None

    @classmethod
    def of(cls, request: HttpRequest) -> Self:
        """From `?before=` and `?at=`."""
        return cls(_position(request, "before"), _position(request, "at"))


END: Final = Place()


def _position(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    # What no column holds is no position, and PostgreSQL would say so with an error.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def was_left_out(shown: services.Window) -> tuple[int, str] | None:
    """What the last question left out: the sentence, and before which message it stands.

    None where nothing was, or where the place is on another page of the chat.
    """
    if shown.left is None:
        return None
    told = [message.position >= shown.left.shown_from for message in shown.messages]
    if True not in told or (told[0] and shown.older is not None):
        return None
    return told.index(True), left_out(shown.left.count, shown.left.model, "was")


async def will_leave_out(chat: Chat, model: str) -> str:
    """What the next message will leave out; empty for nothing."""
    ahead = await services.outlook(chat=chat, model=model)
    return left_out(ahead.left_out, ahead.model, "will") if ahead.left_out else ""
