"""What every dialect shares: from bytes to frames, and how an answer ends (corpus rules 1 to 4).

The order of trust: an explicit error wins; else the dialect's own end makes the answer whole,
whatever the connection does afterwards; else it broke off. Nothing undecodable is skipped, because
what is skipped may have been part of a tool call. A dialect says what a frame means; it never sees
a byte, and never an event that its blank line, or the end of the stream, has not completed.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from relay.dialects.dialect import Finish
from relay.dialects.provider_errors import error_in
from relay.errors import ErrorKind, UpstreamError
from relay.wire.sse import MAX_EVENT_BYTES, EventTooLarge, Frame, SseDecoder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from relay.events import Event
    from relay.states import FinishReason

MAX_SILENT_BYTES: Final = 32 * 1024 * 1024
"""Of an answer on the wire that come to no event: half a day of keep-alives and metadata. Bounds
what is kept of calls that are never shown. What is shown is bounded by its log, and takes far more
room on the wire: 128,000 tokens in a chunk of 300 bytes each are 38 MB of a good answer."""

_STREAM_LINES: Final = (b":", b"event:", b"id:", b"retry:", b"data:")


class StreamDecoder(ABC):
    """One answer. `secret` is kept out of error messages.

    A dialect implements the methods below the line; they are called in the order of the stream, and
    none after `over`.
    """

    def __init__(self, *, secret: str | None = None) -> None:
        self.over = False
        self.secret = secret
        self._sse = SseDecoder(extra_fields=frozenset({b"error"}))
        self._body: list[bytes] | None = []  # what came, until it proves to be an event stream
        self._body_bytes = 0
        self._silent_bytes = 0
        self._error: UpstreamError | None = None

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
            self.frame(frame, events)
            if self._is_over():
                return events
        if endless:
            self.fail(ErrorKind.PROTOCOL, "The provider sent a message without an end.")
        elif not events:
            self._silent_bytes += len(data)
            if self._silent_bytes > MAX_SILENT_BYTES:
                self.fail(ErrorKind.PROTOCOL, "The provider's answer is larger than any can be.")
        return events

    def _is_over(self) -> bool:  # a call, because type checkers believe that `over` stays False
        return self.over

    def finish(self, clean: bool) -> Finish:
        events: list[Event] = []
        for frame in self._sse.finish() if not self.over else ():
            # Some upstreams forget the last blank line. Half an event is dropped all the same.
            if not self.over and _is_whole(frame.data):
                self._body = None
                self.frame(frame, events)
        if not self.over and self._body is not None:
            self._whole_body(b"".join(self._body), clean, events)
        if self._error is None and not self.whole:
            self.fail(*self._why_nothing_ended(clean))
        if self._error is not None:
            return Finish(events=events + self.abandon(), error=self._error)
        self.over = True
        events += self.close()
        return Finish(events=events, finish_reason=self.finish_reason())

    def abandon(self) -> list[Event]:
        self.over = True
        return list(self.break_off())

    def error_object(self, value: object) -> None:
        """`{"error": …}`, or the object inside it, or a sentence. Null is no error."""
        payload = value.get("error") or value if isinstance(value, dict) else value
        if payload:
            self.fail_with(error_in(payload, secret=self.secret))

    def fail(self, kind: ErrorKind, message: str) -> None:
        self.fail_with(UpstreamError(kind, message))

    def fail_with(self, error: UpstreamError) -> None:
        self._error = error
        self.over = True

    def json_of(self, frame: Frame, known_events: frozenset[str]) -> Any:
        """The JSON of a frame; None for keep-alives and for what no reader knows (rule 2).

        Undecodable data of a known event fails the answer; an error fails it here as well.
        """
        data = frame.data.strip()
        if not data or data[0] == ":":  # a keep-alive, perhaps a comment that a proxy wrapped
            return None
        try:
            # Half a surrogate pair is let through: its other half may come with the next event.
            value = json.loads(data)
        except (ValueError, RecursionError):
            if frame.event == "error":
                self.error_object(data)
            elif data != "[DONE]" and not frame.field and frame.event in known_events:
                self.fail(ErrorKind.PROTOCOL, "The provider sent something that is not JSON.")
            return None
        if frame.field or frame.event == "error":
            self.error_object(value)
            return None
        return value

    # ---------------------------------------------------------------------------------------------
    counted_output_ids: int | None = None
    """Tokens that came as ids; None in dialects that send text."""

    @property
    @abstractmethod
    def finishing(self) -> bool:
        """The model has stopped: whatever happens to the connection now, the answer is whole."""

    @property
    @abstractmethod
    def whole(self) -> bool:
        """What came so far is an answer that has ended as it should."""

    @property
    @abstractmethod
    def said_nothing(self) -> bool:
        """No event that means anything has come, or an end without anything before it."""

    @abstractmethod
    def frame(self, frame: Frame, events: list[Event]) -> None:
        """Append what a frame means to `events`; set `over`, or fail, if nothing after counts."""

    @abstractmethod
    def body(self, value: Any, events: list[Event]) -> bool:
        """Take an answer that was not streamed, whole. False if it is none of this dialect."""

    @abstractmethod
    def close(self) -> Iterable[Event]:
        """Held text, calls and usage of an answer that ended as it should."""

    @abstractmethod
    def break_off(self) -> Iterable[Event]:
        """The same of one that did not: calls that nobody closed are unclosed."""

    @abstractmethod
    def finish_reason(self) -> FinishReason | None: ...

    # -- ends and foreign bodies ------------------------------------------------------------------
    def _why_nothing_ended(self, clean: bool) -> tuple[ErrorKind, str]:
        if not clean:
            return ErrorKind.CONNECTION, "The connection to the provider was lost."
        if self.said_nothing:
            return ErrorKind.EMPTY_RESPONSE, "The provider sent no answer."
        return ErrorKind.TRUNCATED, "The provider's answer broke off."

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
                self.fail(
                    ErrorKind.PROTOCOL, "The provider's answer is neither an event stream nor JSON."
                )
            return
        if isinstance(value, list) and value:  # Google answers with a list of one
            value = value[0]
        if isinstance(value, dict) and _is_error(value):
            self.error_object(value)
        elif not isinstance(value, dict) or not self.body(value, events):
            self.fail(ErrorKind.PROTOCOL, "The provider's answer holds neither text nor an error.")


def _is_error(value: dict[str, Any]) -> bool:
    return bool(value.get("error")) or "error" in (value.get("object"), value.get("type"))


def _is_whole(data: str) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return data.strip() == "[DONE]"
    return True
