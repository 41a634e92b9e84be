"""Understanding OpenAI Responses: a stream's frames in, events out (corpus rules 2 to 9).

Everything is said several times there: as deltas, as the whole text of a part, of an item and of
the final response. What was shown counts; a later whole adds its tail if it goes on from there, and
is ignored otherwise. Only `response.completed`, `.incomplete` or `.failed` ends an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from relay.dialects.answer_texts import AnswerTexts, TextKind
from relay.dialects.dialect import Dialect
from relay.dialects.finish_reasons import finish_reason, with_calls
from relay.dialects.openai_chat_chunk import usage_counts
from relay.dialects.openai_responses_request import build, headers
from relay.dialects.provider_errors import error_in, error_of_body
from relay.dialects.stream_decoder import StreamDecoder
from relay.dialects.tool_calls import ToolCallAssembler
from relay.dialects.usage_snapshot import UsageSnapshot
from relay.errors import ErrorKind
from relay.events import Event, PartMeta, ReasoningDelta, RefusalDelta, TextDelta
from relay.states import FinishReason
from relay.wire.surrogates import sanitized

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relay.wire.sse import Frame

_Place = tuple[int, int, object]
"""Output index, index within the item, kind of text."""


class UsualEvent(Struct, gc=False, tag_field="type", tag="response.output_text.delta"):
    delta: str
    output_index: int = 0
    content_index: int = 0


_decode_usual: Final = msgspec.json.Decoder(UsualEvent).decode


class OpenAIResponsesDecoder(StreamDecoder):
    """One answer. `response_id` makes up the ids of calls that have none."""

    def __init__(self, *, response_id: str = "", secret: str | None = None) -> None:
        super().__init__(secret=secret)
        self._texts = AnswerTexts()
        self._tools = ToolCallAssembler(f"call_{response_id}_")
        self._usage = UsageSnapshot()
        self._reason: FinishReason | None = None
        self._seen = False
        self._shown: dict[_Place, list[str]] = {}
        self._cited: dict[tuple[int, int], int] = {}
        """How many citations of a part have left."""
        self._places: dict[str, int] = {}
        """Output indexes of items that are only named by their id."""

    @property
    def finishing(self) -> bool:
        return self._reason is not None

    @property
    def whole(self) -> bool:
        return self._reason is not None

    @property
    def said_nothing(self) -> bool:
        return not self._seen

    def close(self) -> Iterator[Event]:
        yield from self._texts.held_text()
        yield from self._tools.close()
        yield from self._usage.event()

    def break_off(self) -> Iterator[Event]:
        yield from self._texts.held_text()
        yield from self._tools.abandon()
        yield from self._usage.event()

    def finish_reason(self) -> FinishReason | None:
        return with_calls(self._reason, bool(self._tools))

    def frame(self, frame: Frame, events: list[Event]) -> None:
        if frame.event in ("response.output_text.delta", "") and self._texts.halves is None:
            try:
                usual = _decode_usual(frame.data)
            except (msgspec.DecodeError, RecursionError):
                pass
            else:
                self._seen = True
                place = (usual.output_index, usual.content_index, TextDelta)
                self._shown.setdefault(place, []).append(usual.delta)
                self._texts.add_text(TextDelta, usual.delta, events, usual.output_index)
                return
        if frame.event not in _KNOWN_EVENTS and not frame.field:
            return
        value = self.json_of(frame, _KNOWN_EVENTS)
        if not isinstance(value, dict):
            return
        self._texts.expect_halves()
        kind = value.get("type") or frame.event
        if kind == "error" or value.get("error"):
            self.error_object(value)
        elif isinstance(kind, str) and (kind in _TEXTS or kind in _HANDLERS or kind in _SIGNS):
            self._seen = True
            if kind in _TEXTS:
                self._text(kind, value, events)
            elif kind in _HANDLERS:
                _HANDLERS[kind](self, value, events)

    def body(self, value: Any, events: list[Event]) -> bool:
        if not isinstance(value.get("output"), list):
            return False
        self._texts.expect_halves()
        self._end({"response": value}, events)
        return True

    # -- events of the stream ---------------------------------------------------------------------
    def _text(self, name: str, value: dict[str, Any], events: list[Event]) -> None:
        kind, is_whole = _TEXTS[name]
        member = "delta" if not is_whole else "refusal" if kind is RefusalDelta else "text"
        text = value.get(member)
        at = value.get("content_index", value.get("summary_index"))
        place = (self._index(value), at if isinstance(at, int) else 0, kind)
        if isinstance(text, str):
            self._show(place, kind, self._tail(place, text) if is_whole else text, events)

    def _part_done(self, value: dict[str, Any], events: list[Event]) -> None:
        at = value.get("content_index", value.get("summary_index"))
        self._part(self._index(value), at if isinstance(at, int) else 0, value.get("part"), events)

    def _annotation(self, value: dict[str, Any], events: list[Event]) -> None:
        if isinstance(value.get("annotation"), dict):
            at = value.get("content_index")
            key = (self._index(value), at if isinstance(at, int) else 0)
            self._cite(key, value["annotation"], events)

    def _arguments(self, value: dict[str, Any], events: list[Event]) -> None:
        if isinstance(value.get("delta"), str):
            self._call_text(self._index(value), value["delta"], events)

    def _arguments_done(self, value: dict[str, Any], events: list[Event]) -> None:
        index, text = self._index(value), value.get("arguments")
        if isinstance(text, str):
            self._call_text(index, self._tail((index, 0, "arguments"), text), events)

    def _item_added(self, value: dict[str, Any], events: list[Event]) -> None:
        self._item(self._index(value), value.get("item"), events, done=False)

    def _item_done(self, value: dict[str, Any], events: list[Event]) -> None:
        self._item(self._index(value), value.get("item"), events, done=True)

    def _end(self, value: dict[str, Any], events: list[Event]) -> None:
        """`response.completed`, `.incomplete` or `.failed`, told apart by the status inside."""
        response = value.get("response")
        response = response if isinstance(response, dict) else {}
        self._usage.take(usage_counts(response.get("usage")))
        if not self._texts.output:  # nothing was streamed: the final output is the answer
            output = response.get("output")
            for index, item in enumerate(output if isinstance(output, list) else ()):
                self._item(index, item, events, done=True)
        status = response.get("status") or str(value.get("type")).rpartition(".")[2]
        details = response.get("incomplete_details")
        word = details.get("reason") if isinstance(details, dict) else None
        if response.get("error") or status in ("failed", "cancelled"):
            failure = response.get("error") or {"type": "server_error"}
            self.fail_with(error_in(failure, secret=self.secret))
            return
        reason = finish_reason(word) if status == "incomplete" or word else FinishReason.STOP
        if isinstance(reason, ErrorKind):
            self.fail_with(error_in({"type": reason.value}))
            return
        self._reason = reason or FinishReason.LENGTH
        self.over = True

    # -- items and their parts --------------------------------------------------------------------
    def _item(self, index: int, item: object, events: list[Event], *, done: bool) -> None:
        if not isinstance(item, dict):
            return
        kind = item.get("type")
        if kind == "function_call":
            call_id, name, text = item.get("call_id"), item.get("name"), item.get("arguments")
            self._texts.output = True
            events += self._tools.feed(
                index,
                call_id if isinstance(call_id, str) else "",
                name if isinstance(name, str) else "",
                None,
            )
            if isinstance(text, str):
                self._call_text(index, self._tail((index, 0, "arguments"), text), events)
            if done:
                events += self._tools.close_one(index, text if isinstance(text, dict) else None)
        elif kind in ("message", "reasoning") and done:
            for member in ("summary", "content"):
                parts = item.get(member)
                for at, part in enumerate(parts if isinstance(parts, list) else ()):
                    self._part(index, at, part, events)
            if item.get("encrypted_content"):
                data = {"id": item.get("id"), "signature": item["encrypted_content"]}
                events.append(PartMeta(part=index, kind="signature", data=sanitized(data)))

    def _part(self, index: int, at: int, part: object, events: list[Event]) -> None:
        if not isinstance(part, dict) or part.get("type") not in _PARTS:
            return
        kind = _PARTS[part["type"]]
        text = part.get("refusal" if kind is RefusalDelta else "text")
        if isinstance(text, str):
            place = (index, at, kind)
            self._show(place, kind, self._tail(place, text), events)
        annotations = part.get("annotations")
        if isinstance(annotations, list):
            for annotation in annotations[self._cited.get((index, at), 0) :]:
                self._cite((index, at), annotation, events)

    def _show(self, place: _Place, kind: TextKind, text: str, events: list[Event]) -> None:
        if text:
            self._shown.setdefault(place, []).append(text)
            self._texts.add_text(kind, text, events, place[0])

    def _call_text(self, index: int, text: str, events: list[Event]) -> None:
        if text:
            self._texts.output = True
            self._shown.setdefault((index, 0, "arguments"), []).append(text)
            events += self._tools.feed(index, "", "", text)

    def _tail(self, place: _Place, whole: str) -> str:
        """What `whole` adds to what was shown there; nothing if it is another text."""
        shown = "".join(self._shown.get(place, ()))
        return whole[len(shown) :] if whole.startswith(shown) else ""

    def _cite(self, key: tuple[int, int], annotation: object, events: list[Event]) -> None:
        self._cited[key] = self._cited.get(key, 0) + 1
        events.append(PartMeta(part=key[0], kind="citation", data=sanitized(annotation)))

    def _index(self, value: dict[str, Any]) -> int:
        index = value.get("output_index")
        if isinstance(index, int) and 0 <= index < _UNNUMBERED:
            return index
        return self._places.setdefault(str(value.get("item_id")), _UNNUMBERED + len(self._places))


_UNNUMBERED: Final = 1_000_000

_TEXTS: Final[dict[str, tuple[TextKind, bool]]] = {
    f"response.{name}.{end}": (kind, end == "done")
    for name, kind in (
        ("output_text", TextDelta),
        ("refusal", RefusalDelta),
        ("reasoning_text", ReasoningDelta),
        ("reasoning", ReasoningDelta),  # Open Responses' name for it
        ("reasoning_summary_text", ReasoningDelta),
    )
    for end in ("delta", "done")
}
_PARTS: Final[dict[str, TextKind]] = {
    "output_text": TextDelta,
    "text": TextDelta,
    "refusal": RefusalDelta,
    "reasoning_text": ReasoningDelta,
    "summary_text": ReasoningDelta,
}
_SIGNS: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
"""Signs of life: whatever is missing after one was cut off, not empty."""
_HANDLERS: Final = {
    "response.content_part.done": OpenAIResponsesDecoder._part_done,
    "response.reasoning_summary_part.done": OpenAIResponsesDecoder._part_done,
    "response.output_text.annotation.added": OpenAIResponsesDecoder._annotation,
    "response.function_call_arguments.delta": OpenAIResponsesDecoder._arguments,
    "response.function_call_arguments.done": OpenAIResponsesDecoder._arguments_done,
    "response.output_item.added": OpenAIResponsesDecoder._item_added,
    "response.output_item.done": OpenAIResponsesDecoder._item_done,
    "response.completed": OpenAIResponsesDecoder._end,
    "response.incomplete": OpenAIResponsesDecoder._end,
    "response.failed": OpenAIResponsesDecoder._end,
}
_KNOWN_EVENTS: Final = frozenset({"", "message", "error", *_TEXTS, *_SIGNS, *_HANDLERS})

OPENAI_RESPONSES: Final = Dialect(
    name="openai-responses",
    path="/responses",
    build=build,
    headers=headers,
    decoder=lambda asked: OpenAIResponsesDecoder(
        response_id=asked.request.response_id, secret=asked.model.api_key
    ),
    error_of_body=lambda status, body, model: error_of_body(status, body, secret=model.api_key),
)
