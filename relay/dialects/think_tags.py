"""Reasoning between tags, taken out of the text of any dialect (corpus rule 8).

Wraps a decoder and is one again, so a model that writes its tags into its text looks like one whose
provider tells the two apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from relay.dialects.dialect import DecoderAround
from relay.events import Event, ReasoningDelta, TextDelta

if TYPE_CHECKING:
    from relay.dialects.dialect import Decoder, Finish
    from relay.wire.think_tags import ThinkTagSplitter


class ThinkTags(DecoderAround):
    """Text between the tags becomes reasoning. Held text leaves at the end."""

    def __init__(self, inner: Decoder, splitter: ThinkTagSplitter) -> None:
        super().__init__(inner)
        self._splitter = splitter
        self._part = 0  # of what the splitter holds

    def feed(self, data: bytes) -> list[Event]:
        return self._split(self._inner.feed(data))

    def finish(self, clean: bool) -> Finish:
        finish = self._inner.finish(clean)
        return replace(finish, events=self._last(finish.events))

    def abandon(self) -> list[Event]:
        return self._last(self._inner.abandon())

    def _split(self, events: list[Event]) -> list[Event]:
        split: list[Event] = []
        for event in events:
            if isinstance(event, TextDelta):
                self._part = event.part
                split += _deltas(*self._splitter.feed(event.delta), event.part)
            else:
                split.append(event)
        return split

    def _last(self, events: list[Event]) -> list[Event]:
        """The last events, with what was held behind the last of the texts, before all others."""
        texts = [n for n, event in enumerate(events, start=1) if isinstance(event, TextDelta)]
        end = texts[-1] if texts else 0
        split = self._split(events[:end])
        held = _deltas(*self._splitter.finish(), self._part)
        return [*split, *held, *events[end:]]


def _deltas(reasoning: str, text: str, part: int) -> list[Event]:
    deltas: list[Event] = []
    if reasoning:
        deltas.append(ReasoningDelta(delta=reasoning, part=part))
    if text:
        deltas.append(TextDelta(delta=text, part=part))
    return deltas
