"""Reasoning between tags, taken out of the text of any dialect (corpus rule 8).

Wraps a decoder and is one again, so a model that writes its tags into its text looks like one whose
provider tells the two apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from relay.events import Event, ReasoningDelta, TextDelta

if TYPE_CHECKING:
    from relay.dialects.dialect import Decoder, Finish
    from relay.wire.think_tags import ThinkTagSplitter


class ThinkTags:
    """Text between the tags becomes reasoning. Held text leaves at the end."""

    def __init__(self, inner: Decoder, splitter: ThinkTagSplitter) -> None:
        self._inner = inner
        self._splitter = splitter

    @property
    def over(self) -> bool:
        return self._inner.over

    @property
    def finishing(self) -> bool:
        return self._inner.finishing

    @property
    def counted_output_ids(self) -> int | None:
        return self._inner.counted_output_ids

    def feed(self, data: bytes) -> list[Event]:
        return self._split(self._inner.feed(data))

    def finish(self, clean: bool) -> Finish:
        finish = self._inner.finish(clean)
        return replace(finish, events=self._split(finish.events) + self._held())

    def abandon(self) -> list[Event]:
        return self._split(self._inner.abandon()) + self._held()

    def _split(self, events: list[Event]) -> list[Event]:
        split: list[Event] = []
        for event in events:
            if isinstance(event, TextDelta):
                split += _deltas(*self._splitter.feed(event.delta), event.part)
            else:
                split.append(event)
        return split

    def _held(self) -> list[Event]:
        return _deltas(*self._splitter.finish())


def _deltas(reasoning: str, text: str, part: int = 0) -> list[Event]:
    deltas: list[Event] = []
    if reasoning:
        deltas.append(ReasoningDelta(delta=reasoning, part=part))
    if text:
        deltas.append(TextDelta(delta=text, part=part))
    return deltas
