"""Understanding the OpenAI chat dialect: a completion's bytes in, events out (corpus rules 1-11).

The order of trust: an explicit error wins; else a finish reason or `[DONE]` makes the answer whole,
whatever the connection does afterwards; else it broke off. Nothing undecodable is skipped, because
what is skipped may have been part of a tool call.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from relay.dialects.dialect import Dialect, Finish
from relay.dialects.finish_reasons import with_calls
from relay.dialects.openai_chat_answer import Answer
from relay.dialects.openai_chat_chunk import (
    chunk_from,
    decode_chunk,
    decode_odd_chunk,
    decode_usual_chunk,
)
from relay.dialects.openai_chat_request import build, headers
from relay.dialects.provider_errors import error_in, error_of_body
from relay.dialects.tool_calls import ToolCallAssembler
from relay.errors import ErrorKind, UpstreamError
from relay.wire.sse import MAX_EVENT_BYTES, EventTooLarge, Frame, SseDecoder

if TYPE_CHECKING:
    from relay.events import Event

_KNOWN_EVENTS: Final = frozenset({"", "message", "error", "chat.completion.chunk"})
_STREAM_LINES: Final = (b":", b"event:", b"id:", b"retry:", b"data:")


class OpenAIChatDecoder:
    """One answer. `secret` is kept out of error messages; `response_id` makes up missing ids."""

    def __init__(self, *, response_id: str = "", secret: str | None = None) -> None:
        self.over = False
        self._secret = secret
        self._sse = SseDecoder(extra_fields=frozenset({b"error"}))
        self._body: list[bytes] | None = []  # what came, until it proves to be an event stream
        self._body_bytes = 0
        self._answer = Answer(ToolCallAssembler(f"call_{response_id}_"), secret)
        self._done = False
        self._error: UpstreamError | None = None

    @property
    def finishing(self) -> bool:
        return self._answer.reason is not None

    def feed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        if self.over:
            return events
        endless = False
        try:
            frames = self._sse.feed(data)
        except EventTooLarge as error:
            frames, endless = error.frames, True
        if self._body is not None:
            endless |= self._outgrown(self._body, data, frames)
        for frame in frames:
            if not self._frame(frame, events):
                return events
        if endless:
            self._fail(ErrorKind.PROTOCOL, "The provider sent a message without an end.")
        return events

    def finish(self, clean: bool) -> Finish:
        events: list[Event] = []
        running = not self.over
        for frame in self._sse.finish() if running else ():
            # Some upstreams forget the last blank line. Half an event is dropped all the same.
            if running and _is_whole(frame.data):
                self._body = None
                running = self._frame(frame, events)
        if running and self._body is not None:
            self._whole_body(b"".join(self._body), clean, events)
        answer = self._answer
        if self._error is None and not (answer.reason or (self._done and answer.output)):
            self._fail(*self._why_nothing_ended(clean))
        if self._error is not None:
            return Finish(events=events + self.abandon(), error=self._error)
        self.over = True
        events += [*answer.held_text(), *answer.tools.close(), *answer.last_usage()]
        reason = with_calls(answer.reason, bool(answer.tools))
        return Finish(events=events, finish_reason=reason)

    def abandon(self) -> list[Event]:
        self.over = True
        answer = self._answer
        return [*answer.held_text(), *answer.tools.abandon(), *answer.last_usage()]

    # -- frames -----------------------------------------------------------------------------------
    def _frame(self, frame: Frame, events: list[Event]) -> bool:
        """Take one frame; False if nothing after it counts."""
        if not (frame.field or frame.event):
            try:
                usual = decode_usual_chunk(frame.data)
            except (msgspec.DecodeError, RecursionError):
                pass
            else:
                self._answer.usual_chunk(usual, events)
                return True
        try:
            chunk = decode_chunk(frame.data)
        except (msgspec.DecodeError, RecursionError):
            self._odd_frame(frame, events)
        else:
            if frame.field or frame.event == "error" or chunk.object == "error":
                self._error_object(msgspec.json.decode(frame.data))
            elif failure := self._answer.chunk(chunk, events):
                self._fail_with(failure)
        return not self.over

    def _odd_frame(self, frame: Frame, events: list[Event]) -> None:
        """All that is not the JSON of a usual chunk."""
        data = frame.data.strip()
        if data == "[DONE]":
            if not frame.field:
                self.over = self._done = True
            return
        if not data or data[0] == ":":  # a keep-alive, perhaps a comment that a proxy wrapped
            return
        try:
            chunk = decode_odd_chunk(data)
        except (ValueError, RecursionError):
            if frame.event == "error":
                self._error_object(data)
            elif not frame.field and frame.event in _KNOWN_EVENTS:
                self._fail(ErrorKind.PROTOCOL, "The provider sent something that is not JSON.")
            return
        if frame.field or frame.event == "error":
            self._error_object(json.loads(data))
        elif chunk is not None:
            self._answer.expect_halves()
            if failure := self._answer.chunk(chunk, events):
                self._fail_with(failure)

    # -- failures and ends ------------------------------------------------------------------------
    def _error_object(self, value: object) -> None:
        """`{"error": …}`, or the object inside it, or a sentence. Null is no error."""
        payload = value.get("error") or value if isinstance(value, dict) else value
        if payload:
            self._fail_with(error_in(payload, secret=self._secret))

    def _fail(self, kind: ErrorKind, message: str) -> None:
        self._fail_with(UpstreamError(kind, message))

    def _fail_with(self, error: UpstreamError) -> None:
        self._error = error
        self.over = True

    def _why_nothing_ended(self, clean: bool) -> tuple[ErrorKind, str]:
        if not clean:
            return ErrorKind.CONNECTION, "The connection to the provider was lost."
        if self._done or not self._answer.seen:
            return ErrorKind.EMPTY_RESPONSE, "The provider sent no answer."
        return ErrorKind.TRUNCATED, "The provider's answer broke off."

    # -- answers that are no event stream ---------------------------------------------------------
    def _outgrown(self, body: list[bytes], data: bytes, frames: list[Frame]) -> bool:
        """Keep `data` as long as no event came. True if that is more than an answer can be."""
        if frames:
            self._body = None
            return False
        body.append(data)
        self._body_bytes += len(data)
        return self._body_bytes > MAX_EVENT_BYTES

    def _whole_body(self, body: bytes, clean: bool, events: list[Event]) -> None:
        """No event came: an error or a whole answer in JSON, or something foreign (rule 1c)."""
        body = body.removeprefix(b"\xef\xbb\xbf")
        lines = body.splitlines()
        if all(not line.strip() or line.startswith(_STREAM_LINES) for line in lines):
            return
        try:
            value: Any = json.loads(body)
        except (ValueError, RecursionError):
            if clean:
                self._fail(
                    ErrorKind.PROTOCOL, "The provider's answer is neither an event stream nor JSON."
                )
            return
        if isinstance(value, list) and value:  # Google answers with a list of one
            value = value[0]
        chunk = chunk_from(value)
        if chunk is not None and chunk.object == "error":
            self._error_object(value)
        elif chunk is not None and (chunk.error or chunk.choices):
            self._answer.expect_halves()
            if failure := self._answer.chunk(chunk, events):
                self._fail_with(failure)
            self._done = True
        else:
            self._fail(ErrorKind.PROTOCOL, "The provider's answer holds neither text nor an error.")


def _is_whole(data: str) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return data.strip() == "[DONE]"
    return True


OPENAI_CHAT: Final = Dialect(
    name="openai-chat",
    path="/chat/completions",
    build=build,
    headers=headers,
    decoder=lambda request, model: OpenAIChatDecoder(
        response_id=request.response_id, secret=model.api_key
    ),
    error_of_body=lambda status, body, model: error_of_body(status, body, secret=model.api_key),
)
