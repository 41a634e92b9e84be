"""Pictures of messages: kept with their chat, and told to models that see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from chatapp import pictures
from chatapp.models import Chat, Picture
from chatapp.services.fitting import Shown, Turn
from chatapp.shown import UNSEEN, reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from relay import ModelConfig

SEES: Final = "images"
"""In `supports` of the models file."""


def sees(model: ModelConfig | None) -> bool:
    return model is not None and SEES in model.supports


def keep(chat: Chat, drawings: Iterable[pictures.Drawing]) -> tuple[dict[str, int], ...]:
    """In a transaction: as `Message.pictured` has them."""
    kept = []
    for one in drawings:
        row = Picture.objects.create(
            chat=chat,
            media_type=one.media_type,
            width=one.width,
            height=one.height,
            data=one.data,
        )
        size = {"width": one.width, "height": one.height, "bytes": len(one.data)}
        kept.append({"id": row.pk, **size})
    return tuple(kept)


def rooms_of(pictured: Sequence[dict[str, int]]) -> tuple[Shown, ...]:
    return tuple(
        Shown(one["id"], one["bytes"], pictures.estimated_tokens(one["width"], one["height"]))
        for one in pictured
    )


def messages_of(turns: Iterable[Turn], model: ModelConfig | None) -> list[dict[str, Any]]:
    """As a stored request has them."""
    return [_message(turn, seen=sees(model)) for turn in turns]


def _message(turn: Turn, *, seen: bool) -> dict[str, Any]:
    """Pictures before the words about them, as providers advise."""
    content: Any = turn.text
    if turn.pictures and seen:
        words = [{"type": "text", "text": turn.text}] if turn.text.strip() else []
        content = [*(reference(picture.id) for picture in turn.pictures), *words]
    elif turn.pictures:
        content = "\n\n".join([*(UNSEEN for _ in turn.pictures), turn.text]).strip()
    return {"role": turn.role, "content": content}
