"""Understanding the OpenAI chat dialect: a completion's frames in, events out (corpus rules 2-11).

A finish reason or `[DONE]` is its end. Nearly every chunk is text and nothing else, and takes a
short way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from relay.dialects.dialect import Dialect
from relay.dialects.finish_reasons import with_calls
from relay.dialects.openai_chat_answer import Answer
from relay.dialects.openai_chat_chunk import (
    chunk_from,
    decode_chunk,
    decode_usual_chunk,
    has_calls,
)
from relay.dialects.openai_chat_request import build, headers
from relay.dialects.provider_errors import error_of_body
from relay.dialects.stream_decoder import StreamDecoder
from relay.dialects.tool_calls import ToolCallAssembler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relay.events import Event
    from relay.states import FinishReason
    from relay.wire.sse import Frame

_KNOWN_EVENTS: Final = frozenset({"", "message", "error", "chat.completion.chunk"})


class OpenAIChatDecoder(StreamDecoder):
    """One answer. `response_id` makes up the ids of calls that have none."""

    def __init__(self, *, response_id: str = "", secret: str | None = None) -> None:
        super().__init__(secret=secret)
        self._answer = Answer(ToolCallAssembler(f"call_{response_id}_"), secret)
        self._done = False
        self._in_calls = False
        """The last chunk was part of a tool call: the next one hardly is a usual one."""

    @property
    def finishing(self) -> bool:
        return self._answer.reason is not None

    @property
    def whole(self) -> bool:
        return self._answer.reason is not None or (self._done and self._answer.output)

    @property
    def said_nothing(self) -> bool:
        return self._done or not self._answer.seen

    def close(self) -> Iterator[Event]:
        answer = self._answer
        yield from answer.held_text()
        yield from answer.tools.close()
        yield from answer.usage.event()

    def break_off(self) -> Iterator[Event]:
        answer = self._answer
        yield from answer.held_text()
        yield from answer.tools.abandon()
        yield from answer.usage.event()

    def finish_reason(self) -> FinishReason | None:
        return with_calls(self._answer.reason, bool(self._answer.tools))

    def frame(self, frame: Frame, events: list[Event]) -> None:
        if not (frame.field or frame.event or self._in_calls):
            try:
                usual = decode_usual_chunk(frame.data)
            except (msgspec.DecodeError, RecursionError):
                pass
            else:
                self._answer.usual_chunk(usual, events)
                return
        try:
            chunk = decode_chunk(frame.data)
        except (msgspec.DecodeError, RecursionError):
            self._odd_frame(frame, events)
        else:
            self._in_calls = has_calls(chunk)
            if frame.field or frame.event == "error" or chunk.object == "error":
                self.error_object(msgspec.json.decode(frame.data))
            elif failure := self._answer.chunk(chunk, events):
                self.fail_with(failure)

    def _odd_frame(self, frame: Frame, events: list[Event]) -> None:
        """All that is not the JSON of a usual chunk."""
        if frame.data.strip() == "[DONE]":
            if not frame.field:
                self.over = self._done = True
            return
        chunk = chunk_from(self.json_of(frame, _KNOWN_EVENTS))
        if chunk is not None:
            self._answer.expect_halves()
            if failure := self._answer.chunk(chunk, events):
                self.fail_with(failure)

    def body(self, value: Any, events: list[Event]) -> bool:
        chunk = chunk_from(value)
        if chunk is None or not chunk.choices:
            return False
        self._answer.expect_halves()
        if failure := self._answer.chunk(chunk, events):
            self.fail_with(failure)
        self._done = True
        return True


OPENAI_CHAT: Final = Dialect(
    name="openai-chat",
    path="/chat/completions",
    build=build,
    headers=headers,
    decoder=lambda asked: OpenAIChatDecoder(
        response_id=asked.request.response_id, secret=asked.model.api_key
    ),
    error_of_body=lambda status, body, model: error_of_body(status, body, secret=model.api_key),
)
