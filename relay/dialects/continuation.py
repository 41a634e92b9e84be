"""Asking a model to go on with an answer that broke off, and taking off what it repeats.

An upstream that `prefills` writes on behind a last message of the assistant. All others would take
it for something that was said, and begin anew: they are asked in words, see relay/wire/joint.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from relay.dialects.dialect import DecoderAround
from relay.events import Event, TextDelta
from relay.wire.joint import Joint, anchor_of

if TYPE_CHECKING:
    from relay.config import ModelConfig
    from relay.dialects.dialect import Decoder, Dialect, Finish
    from relay.request import GenerationRequest

WISH: Final = (
    "Your last message broke off before its end. Write the rest of it: begin with its last words, "
    "exactly as they stand there, and go on from them in the same language and format. Do not "
    "greet, do not remark on this, do not start again. Its last words:\n{words}"
)


def writes_on(dialect: Dialect, model: ModelConfig) -> bool:
    """Whether it goes on behind the text itself; engines refuse that to models that think first."""
    return dialect.prefills and model.think_tags is None


def told(request: GenerationRequest, dialect: Dialect, model: ModelConfig) -> GenerationRequest:
    """The request as this upstream understands it. PROTOCOL 14.2"""
    if not request.continues or writes_on(dialect, model):
        return request
    wish = {"role": "user", "content": WISH.format(words=anchor_of(beginning_of(request)))}
    return msgspec.structs.replace(request, messages=[*request.messages, wish])


def beginning_of(request: GenerationRequest) -> str:
    """The text that is to be gone on with; empty where the request has none."""
    texts = [
        message.get("content")
        for message in request.messages
        if message.get("role") == "assistant" and isinstance(message.get("content"), str)
    ]
    return str(texts[-1]) if texts else ""


class JointScan(DecoderAround):
    """A decoder whose text begins where `joint` says. Its first part alone can be a repetition."""

    def __init__(self, inner: Decoder, joint: Joint) -> None:
        super().__init__(inner)
        self._joint = joint
        self._part = 0

    def feed(self, data: bytes) -> list[Event]:
        return self._scan(self._inner.feed(data))

    def finish(self, clean: bool) -> Finish:
        finish = self._inner.finish(clean)
        return replace(finish, events=self._last(finish.events))

    def abandon(self) -> list[Event]:
        return self._last(self._inner.abandon())

    def _scan(self, events: list[Event]) -> list[Event]:
        shown: list[Event] = []
        for event in events:
            if not isinstance(event, TextDelta):
                shown.append(event)
                continue
            self._part = event.part
            if text := self._joint.feed(event.delta):
                shown.append(msgspec.structs.replace(event, delta=text))
        return shown

    def _last(self, events: list[Event]) -> list[Event]:
        """The last events, with what was held behind the last of the texts, before all others."""
        texts = [n for n, event in enumerate(events, start=1) if isinstance(event, TextDelta)]
        end = texts[-1] if texts else 0
        held = self._scan(events[:end])
        if text := self._joint.finish():
            held.append(TextDelta(delta=text, part=self._part))
        return [*held, *events[end:]]
