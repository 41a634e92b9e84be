"""Understanding OpenAI Responses: a stream's frames in, events out (corpus rules 2 to 5).

Only `response.completed`, `.incomplete` or `.failed` ends an answer, and `error`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from relay.dialects.dialect import Dialect
from relay.dialects.finish_reasons import finish_reason, with_calls
from relay.dialects.openai_chat_chunk import usage_counts
from relay.dialects.openai_responses_answer import UNNUMBERED, Answer
from relay.dialects.openai_responses_request import build, headers
from relay.dialects.provider_errors import error_in, error_of_body
from relay.dialects.stream_decoder import StreamDecoder
from relay.dialects.tool_calls import ToolCallAssembler
from relay.dialects.usage_snapshot import UsageSnapshot
from relay.errors import ErrorKind
from relay.events import Event, ReasoningDelta, RefusalDelta, TextDelta
from relay.states import FinishReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relay.dialects.answer_texts import TextKind
    from relay.wire.sse import Frame

_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""Text may hold half a character."""


class UsualText(Struct, gc=False, tag_field="type", tag="response.output_text.delta"):
    """Nearly every event of a stream: a delta of visible text."""

    delta: str
    output_index: Annotated[int, Meta(ge=0, lt=UNNUMBERED)] = 0
    content_index: int = 0
    item_id: str = ""
    error: None = None


class UsualSummary(Struct, gc=False, tag_field="type", tag="response.reasoning_summary_text.delta"):
    """The same of what is shown of its thoughts."""

    delta: str
    output_index: Annotated[int, Meta(ge=0, lt=UNNUMBERED)]
    summary_index: int = 0
    content_index: None = None
    item_id: str = ""
    error: None = None


class UsualArguments(
    Struct, gc=False, tag_field="type", tag="response.function_call_arguments.delta"
):
    """The same of a call's arguments."""

    delta: str
    output_index: Annotated[int, Meta(ge=0, lt=UNNUMBERED)]
    item_id: str = ""
    error: None = None


_decode_usual: Final = msgspec.json.Decoder(UsualText | UsualSummary | UsualArguments).decode
_USUAL: Final = frozenset(
    {
        "",
        "response.output_text.delta",
        "response.reasoning_summary_text.delta",
        "response.function_call_arguments.delta",
    }
)


class OpenAIResponsesDecoder(StreamDecoder):
    """One answer. `response_id` makes up the ids of calls that have none."""

    def __init__(self, *, response_id: str = "", secret: str | None = None) -> None:
        super().__init__(secret=secret)
        self._answer = Answer(ToolCallAssembler(f"call_{response_id}_"))
        self._usage = UsageSnapshot()
        self._reason: FinishReason | None = None
        self._seen = False

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
        yield from self._answer.held_text()
        yield from self._answer.tools.close()
        yield from self._usage.event()

    def break_off(self) -> Iterator[Event]:
        yield from self._answer.held_text()
        yield from self._answer.tools.abandon()
        yield from self._usage.event()

    def finish_reason(self) -> FinishReason | None:
        return with_calls(self._reason, bool(self._answer.tools))

    def frame(self, frame: Frame, events: list[Event]) -> None:
        if frame.event in _USUAL and not frame.field:
            try:
                usual = _decode_usual(frame.data)
            except (msgspec.DecodeError, RecursionError):
                pass
            else:
                self._usual(usual, events)
                return
        # By the type in the data, as OpenAI's own clients; an event's name may be anything.
        value = self.json_of(frame, _KNOWN_EVENTS)
        if not isinstance(value, dict):
            return
        if _HALF.search(frame.data):
            self._answer.expect_halves()
        kind = value.get("type") or frame.event
        if kind == "error" or (value.get("error") and frame.event in _KNOWN_EVENTS):
            self.error_object(value)
        elif isinstance(kind, str) and (kind in _TEXTS or kind in _HANDLERS or kind in _SIGNS):
            self._seen = True
            if kind in _TEXTS:
                self._text(kind, value, events)
            elif kind in _HANDLERS:
                _HANDLERS[kind](self, value, events)

    def _usual(self, usual: UsualText | UsualSummary | UsualArguments, events: list[Event]) -> None:
        self._seen = True
        answer = self._answer
        index = answer.place_of(usual.output_index)
        if usual.item_id:
            answer.name_item(usual.item_id, index)
        if isinstance(usual, UsualText):
            place = (index, usual.content_index, "output_text")
            answer.say(place, TextDelta, usual.delta, events)
        elif isinstance(usual, UsualSummary):
            place = (index, usual.summary_index, "summary_text")
            answer.say(place, ReasoningDelta, usual.delta, events)
        else:
            answer.arguments(index, usual.delta, events)

    def body(self, value: Any, events: list[Event]) -> bool:
        if not isinstance(value.get("output"), list):
            return False
        self._answer.expect_halves()
        self._end({"response": value}, events)
        return True

    # -- events of the stream ---------------------------------------------------------------------
    def _text(self, name: str, value: dict[str, Any], events: list[Event]) -> None:
        what, kind, is_whole = _TEXTS[name]
        text = value.get(("refusal" if kind is RefusalDelta else "text") if is_whole else "delta")
        if isinstance(text, str):
            place = (self._answer.index_of(value), _at(value), what)
            say = self._answer.say_whole if is_whole else self._answer.say
            say(place, kind, text, events)

    def _part(self, value: dict[str, Any], events: list[Event]) -> None:
        answer = self._answer
        answer.part(answer.index_of(value), _at(value), value.get("part"), events)

    def _annotation(self, value: dict[str, Any], events: list[Event]) -> None:
        answer = self._answer
        answer.cite(answer.index_of(value), _at(value), value.get("annotation"), events)

    def _arguments(self, value: dict[str, Any], events: list[Event]) -> None:
        if isinstance(value.get("delta"), str):
            self._answer.arguments(self._answer.index_of(value), value["delta"], events)

    def _arguments_done(self, value: dict[str, Any], events: list[Event]) -> None:
        text = value.get("arguments")
        if isinstance(text, str):
            self._answer.whole_arguments(self._answer.index_of(value), text, events)

    def _item_added(self, value: dict[str, Any], events: list[Event]) -> None:
        self._answer.make_room(value, done=False)
        self._answer.item(self._answer.index_of(value), value.get("item"), events, done=False)

    def _item_done(self, value: dict[str, Any], events: list[Event]) -> None:
        self._answer.make_room(value, done=True)
        self._answer.item(self._answer.index_of(value), value.get("item"), events, done=True)

    def _end(self, value: dict[str, Any], events: list[Event]) -> None:
        """`response.completed` and its like; what is inside may know better, or less."""
        response = value.get("response")
        response = response if isinstance(response, dict) else {}
        self._usage.take(usage_counts(response.get("usage")))
        said = {str(value.get("type")).rpartition(".")[2], str(response.get("status"))}
        failed = bool(response.get("error") or said & {"failed", "cancelled"})
        self._answer.final_output(response.get("output"), events, failed=failed)
        details = response.get("incomplete_details")
        reason = finish_reason(details.get("reason") if isinstance(details, dict) else None)
        if failed:
            failure = response.get("error") or {"type": "server_error"}
            self.fail_with(error_in(failure, secret=self.secret))
        elif isinstance(reason, ErrorKind):
            self.fail_with(error_in({"type": reason.value}))
        elif reason is not None or "incomplete" in said:
            # A limit of another kind is one, too: what is not all there is never a whole answer.
            filtered = reason is FinishReason.CONTENT_FILTER
            self._ended(FinishReason.CONTENT_FILTER if filtered else FinishReason.LENGTH, events)
        elif "completed" in said:
            self._ended(FinishReason.STOP, events)

    def _ended(self, reason: FinishReason, events: list[Event]) -> None:
        self._answer.announced_arguments(events)
        self._reason = reason
        self.over = True


def _at(value: dict[str, Any]) -> int:
    at = value.get("content_index", value.get("summary_index"))
    return at if isinstance(at, int) else 0


_TEXTS: Final[dict[str, tuple[str, TextKind, bool]]] = {
    f"response.{name}.{end}": (what, kind, end == "done")
    for name, what, kind in (
        ("output_text", "output_text", TextDelta),
        ("refusal", "refusal", RefusalDelta),
        ("reasoning_text", "reasoning_text", ReasoningDelta),
        ("reasoning", "reasoning_text", ReasoningDelta),  # Open Responses' name for it
        ("reasoning_summary_text", "summary_text", ReasoningDelta),
    )
    for end in ("delta", "done")
}
_SIGNS: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
"""Signs of life: whatever is missing after one was cut off, not empty."""
_HANDLERS: Final = {
    "response.content_part.added": OpenAIResponsesDecoder._part,
    "response.content_part.done": OpenAIResponsesDecoder._part,
    "response.reasoning_summary_part.added": OpenAIResponsesDecoder._part,
    "response.reasoning_summary_part.done": OpenAIResponsesDecoder._part,
    "response.output_text.annotation.added": OpenAIResponsesDecoder._annotation,
    "response.function_call_arguments.delta": OpenAIResponsesDecoder._arguments,
    "response.function_call_arguments.done": OpenAIResponsesDecoder._arguments_done,
    "response.output_item.added": OpenAIResponsesDecoder._item_added,
    "response.output_item.done": OpenAIResponsesDecoder._item_done,
    "response.completed": OpenAIResponsesDecoder._end,
    "response.incomplete": OpenAIResponsesDecoder._end,
    "response.failed": OpenAIResponsesDecoder._end,
    "response.cancelled": OpenAIResponsesDecoder._end,
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
