"""The texts of an answer as events, half characters joined (corpus rule 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relay.events import Event, ReasoningDelta, RefusalDelta, TextDelta
from relay.wire.surrogates import SurrogateJoiner

if TYPE_CHECKING:
    from collections.abc import Iterator

TextKind = type[TextDelta] | type[ReasoningDelta] | type[RefusalDelta]


class AnswerTexts:
    """Text leaves as it arrives; only half a character waits for its other half."""

    def __init__(self) -> None:
        self.output = False
        """Any text or tool call has come."""
        # Joiners per kind of text, made once strict decoding has failed: they cost time, and text
        # that msgspec accepts has no half characters.
        self.halves: dict[tuple[TextKind, int], SurrogateJoiner] | None = None

    def expect_halves(self) -> None:
        """From now on texts may hold half characters."""
        if self.halves is None:
            self.halves = {}

    def add_text(self, kind: TextKind, text: str, events: list[Event], part: int = 0) -> None:
        if self.halves is not None:
            text = self.halves.setdefault((kind, part), SurrogateJoiner()).feed(text)
        if text:
            self.output = True
            events.append(kind(delta=text, part=part))

    def held_text(self) -> Iterator[Event]:
        """Half characters that will never be whole."""
        for (kind, part), joiner in (self.halves or {}).items():
            if rest := joiner.finish():
                yield kind(delta=rest, part=part)
