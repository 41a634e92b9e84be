"""What of a long conversation a model is shown. Pure: no database, no clock.

The oldest turns are left out first, in whole exchanges; the system prompt stays, and the last
question always goes, even if it is too long by itself: then the provider says so. What was left
out is part of the record (`Response.left_out`) and shown at its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from relay import ModelConfig

MARKS_TOKENS: Final = 5
"""What a chat template writes around each message: its role and where it begins and ends."""
ANSWER_SHARE: Final = 4
"""An answer without a limit is left a quarter of the context, and one with a limit half at most:
models that may write as much as they read would be shown nothing."""


class Shown(NamedTuple):
    """A picture, as far as room for it goes."""

    id: int
    size_bytes: int
    tokens: int


class Turn(NamedTuple):
    position: int
    role: str
    text: str
    pictures: tuple[Shown, ...] = ()

    @property
    def size_bytes(self) -> int:
        pictures = sum(picture.size_bytes for picture in self.pictures)
        return len(self.text.encode("utf-8", "replace")) + pictures


@dataclass(frozen=True, slots=True)
class Room:
    """How much a question may say."""

    tokens: int | None
    """None: the models file does not say how much the model takes."""
    size_bytes: int
    """Of UTF-8 (`max_input_bytes`)."""


@dataclass(frozen=True, slots=True)
class Fitted:
    turns: list[Turn]
    """Oldest first."""
    left_out: int
    """How many older ones there are."""

    @property
    def shown_from(self) -> int:
        """Position of the oldest turn that is shown; 0 where nothing was left out."""
        return self.turns[0].position if self.left_out and self.turns else 0


def room_for(
    model: ModelConfig | None, *, max_output_tokens: int | None, max_input_bytes: int
) -> Room:
    """`context_tokens` less what the answer may take."""
    size_bytes = max_input_bytes or 1 << 30
    if model is None or model.context_tokens is None:
        return Room(None, size_bytes)
    limits = [n for n in (max_output_tokens, model.max_output_tokens) if n is not None]
    context = model.context_tokens
    answer = min(*limits, context // 2) if limits else context // ANSWER_SHARE
    return Room(context - answer, size_bytes)


def fit(
    turns: Sequence[Turn], room: Room, *, instructions: str, count: Callable[[str], int]
) -> Fitted:
    """The newest turns that there is room for.

    Args:
        turns: oldest first; the last one goes in any case.
        instructions: the system prompt; empty: none.
        count: a text's tokens.
    """
    tokens_left, bytes_left = room.tokens, room.size_bytes
    if tokens_left is not None and _surely_fits(turns, instructions, tokens_left):
        tokens_left = None
    if tokens_left is not None and instructions:
        tokens_left -= count(instructions) + MARKS_TOKENS
    first = len(turns)
    for turn in reversed(turns):
        bytes_left -= turn.size_bytes
        if tokens_left is not None:
            seen = sum(picture.tokens for picture in turn.pictures)
            tokens_left -= count(turn.text) + seen + MARKS_TOKENS
        if first < len(turns) and (bytes_left < 0 or (tokens_left is not None and tokens_left < 0)):
            break
        first -= 1
    if first:
        # An answer without its question is worse than none, and some providers refuse to begin so.
        last = len(turns) - 1
        while first < last and turns[first].role != "user":
            first += 1
    return Fitted(list(turns[first:]), first)


def _surely_fits(turns: Sequence[Turn], instructions: str, room_tokens: int) -> bool:
    """No token is less than a byte, so most chats need no counting."""
    size = len(instructions.encode("utf-8", "replace")) + MARKS_TOKENS
    for turn in turns:
        seen = sum(picture.tokens for picture in turn.pictures)
        size += len(turn.text.encode("utf-8", "replace")) + seen + MARKS_TOKENS
        if size > room_tokens:
            return False
    return True
