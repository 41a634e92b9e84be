"""Understanding Anthropic Messages: a stream's frames in, events out (corpus rules 2 to 9).

A stop reason or `message_stop` is its end; `[DONE]`, which gateways append, means nothing. A delta
goes by its own type, whatever its block was announced as, and an index is only a name: blocks that
nobody knows keep theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from relay.dialects.answer_texts import AnswerTexts
from relay.dialects.anthropic_event import (
    AnthropicEvent,
    Delta,
    decode_event,
    decode_usual_event,
    event_from,
    raw_counts,
    usage_counts,
)
from relay.dialects.anthropic_request import build, headers
from relay.dialects.dialect import Dialect
from relay.dialects.finish_reasons import finish_reason, with_calls
from relay.dialects.provider_errors import error_in, error_of_body
from relay.dialects.stream_decoder import StreamDecoder
from relay.dialects.tool_calls import ToolCallAssembler
from relay.dialects.usage_snapshot import UsageSnapshot
from relay.errors import ErrorKind
from relay.events import Event, PartMeta, ReasoningDelta, TextDelta
from relay.wire.surrogates import joined, sanitized

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relay.states import FinishReason
    from relay.wire.sse import Frame

_KNOWN_EVENTS: Final = frozenset(
    {
        "",
        "message",
        "error",
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)


class AnthropicDecoder(StreamDecoder):
    """One answer. `response_id` makes up the ids of calls that have none."""

    def __init__(self, *, response_id: str = "", secret: str | None = None) -> None:
        super().__init__(secret=secret)
        self._texts = AnswerTexts()
        self._tools = ToolCallAssembler(f"call_{response_id}_")
        self._usage = UsageSnapshot()
        self._raw_usage: dict[str, int] = {}
        self._reason: FinishReason | None = None
        self._seen = False
        self._stopped = False
        self._in_text = True
        """The block that streams is one of text: its next event probably is a usual one."""
        self._inputs: dict[int, Any] = {}
        """Arguments that a call's block began with: they count when no fragment comes."""
        self._signatures: dict[int, str] = {}

    @property
    def finishing(self) -> bool:
        return self._reason is not None

    @property
    def whole(self) -> bool:
        return self._reason is not None or (self._stopped and self._texts.output)

    @property
    def said_nothing(self) -> bool:
        return self._stopped or not self._seen

    def close(self) -> Iterator[Event]:
        yield from self._texts.held_text()
        yield from self._closed_calls()
        yield from self._tools.close()
        yield from self._signed()
        yield from self._usage.event()

    def break_off(self) -> Iterator[Event]:
        yield from self._texts.held_text()
        yield from self._tools.abandon()
        yield from self._signed()
        yield from self._usage.event()

    def finish_reason(self) -> FinishReason | None:
        return with_calls(self._reason, bool(self._tools))

    def frame(self, frame: Frame, events: list[Event]) -> None:
        texts = self._texts
        if self._in_text and frame.event in ("content_block_delta", "") and not frame.field:
            try:
                usual = decode_usual_event(frame.data)
            except (msgspec.DecodeError, RecursionError):
                pass
            else:
                self._seen = True
                texts.add_text(TextDelta, usual.delta.text, events, usual.index)
                return
        if frame.event not in _KNOWN_EVENTS and not frame.field:
            return
        try:
            event: AnthropicEvent | None = decode_event(frame.data)
        except (msgspec.DecodeError, RecursionError):
            event = event_from(self.json_of(frame, _KNOWN_EVENTS))
            texts.expect_halves()
        if event is None:
            return
        if frame.field or frame.event == "error" or event.type == "error" or event.error:
            self.error_object(self.json_of(frame, _KNOWN_EVENTS))
            return
        name = event.type or frame.event
        if isinstance(name, str) and name in _HANDLERS:
            self._seen = True
            _HANDLERS[name](self, event, events)

    def body(self, value: Any, events: list[Event]) -> bool:
        content = value.get("content")
        if not isinstance(content, list):
            return False
        self._texts.expect_halves()
        for index, block in enumerate(content):
            self._begin(AnthropicEvent(index=index, content_block=block), events)
            self._end_block(AnthropicEvent(index=index), events)
        self._message(AnthropicEvent(message=value), events)
        self._stopped = True
        return True

    # -- events of the stream ---------------------------------------------------------------------
    def _start(self, event: AnthropicEvent, events: list[Event]) -> None:
        message = event.message if isinstance(event.message, dict) else {}
        self._count(message.get("usage"))
        self._end_for(message.get("stop_reason"))

    _message = _start

    def _begin(self, event: AnthropicEvent, events: list[Event]) -> None:
        block, index = event.content_block, _index(event)
        if not isinstance(block, dict):
            return
        kind = block.get("type")
        self._in_text = kind == "text"
        if kind == "tool_use":
            call_id, name = block.get("id"), block.get("name")
            self._texts.output = True
            self._inputs[index] = block.get("input")
            events += self._tools.feed(
                index,
                call_id if isinstance(call_id, str) else "",
                name if isinstance(name, str) else "",
                None,
            )
        elif kind == "redacted_thinking":
            self._texts.output = True
            data = sanitized({"data": block.get("data")})
            events.append(PartMeta(part=index, kind="redacted_thinking", data=data))
        elif kind in ("text", "thinking"):
            self._delta_of(index, Delta(**{key: block.get(key) for key in _BLOCK_TEXTS}), events)
            citations = block.get("citations")
            for citation in citations if isinstance(citations, list) else ():
                self._delta_of(index, Delta(citation=citation), events)

    def _delta(self, event: AnthropicEvent, events: list[Event]) -> None:
        if event.delta is not None:
            self._in_text = isinstance(event.delta.text, str)
            self._delta_of(_index(event), event.delta, events)

    def _delta_of(self, index: int, delta: Delta, events: list[Event]) -> None:
        if isinstance(delta.thinking, str):
            self._texts.add_text(ReasoningDelta, delta.thinking, events, index)
        if isinstance(delta.text, str):
            self._texts.add_text(TextDelta, delta.text, events, index)
        if isinstance(delta.partial_json, str) and index in self._inputs:
            events += self._tools.feed(index, "", "", delta.partial_json)
        if isinstance(delta.signature, str) and delta.signature:
            # Whole, as Anthropic sends it, perhaps once more; or in fragments.
            signed, signature = self._signatures.get(index, ""), joined(delta.signature)
            whole = signature.startswith(signed)
            self._signatures[index] = signature if whole else signed + signature
        if isinstance(delta.citation, dict):
            citation = sanitized(delta.citation)
            events.append(PartMeta(part=index, kind="citation", data=citation))

    def _end_block(self, event: AnthropicEvent, events: list[Event]) -> None:
        index = _index(event)
        events += self._signed(index)
        if index in self._inputs:
            events += self._tools.close_one(index, _object(self._inputs.pop(index)))

    def _message_delta(self, event: AnthropicEvent, events: list[Event]) -> None:
        self._count(event.usage)
        if event.delta is not None:
            self._end_for(event.delta.stop_reason)
        if self._reason is not None:
            events += self._usage.event()

    def _stop(self, event: AnthropicEvent, events: list[Event]) -> None:
        self._count(event.usage)
        self._stopped = self.over = True

    # -- what they mean ---------------------------------------------------------------------------
    def _end_for(self, word: object) -> None:
        reason = finish_reason(word)
        if isinstance(reason, ErrorKind):
            self.fail_with(error_in({"type": reason.value}))
        else:
            self._reason = reason or self._reason

    def _count(self, usage: object) -> None:
        for name, count in raw_counts(usage).items():
            if count or name not in self._raw_usage:  # a later zero is no refund (rule 9)
                self._raw_usage[name] = count
        self._usage.take(usage_counts(self._raw_usage))

    def _signed(self, index: int | None = None) -> Iterator[Event]:
        for part in list(self._signatures) if index is None else [index]:
            if signature := self._signatures.pop(part, ""):
                yield PartMeta(part=part, kind="signature", data={"signature": signature})

    def _closed_calls(self) -> Iterator[Event]:
        """Of an answer that ended well, calls whose block was not."""
        for index in list(self._inputs):
            yield from self._tools.close_one(index, _object(self._inputs.pop(index)))


_BLOCK_TEXTS: Final = ("text", "thinking", "signature")

_HANDLERS: Final = {
    "message_start": AnthropicDecoder._start,
    "content_block_start": AnthropicDecoder._begin,
    "content_block_delta": AnthropicDecoder._delta,
    "content_block_stop": AnthropicDecoder._end_block,
    "message_delta": AnthropicDecoder._message_delta,
    "message_stop": AnthropicDecoder._stop,
}


def _index(event: AnthropicEvent) -> int:
    return event.index if isinstance(event.index, int) and event.index >= 0 else 0


def _object(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


ANTHROPIC: Final = Dialect(
    name="anthropic",
    path="/messages",
    build=build,
    headers=headers,
    decoder=lambda asked: AnthropicDecoder(
        response_id=asked.request.response_id, secret=asked.model.api_key
    ),
    error_of_body=lambda status, body, model: error_of_body(status, body, secret=model.api_key),
)
