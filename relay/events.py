"""Events (design §3, schema 1): what a log is made of.

An event is made without a number (`seq` 0) and numbered when it is sent (PROTOCOL 3): until then
neighbours may be merged, afterwards never. One event is one JSON object on one line, `type` first
and `seq` second, which the store and the hub rely on to frame an event without parsing it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

SCHEMA: Final = 1


class Error(Struct, frozen=True, kw_only=True):
    """What a person is told of a failure. `code` is an ErrorKind's value."""

    code: str
    message: str
    retryable: bool


class UsageCount(Struct, frozen=True, kw_only=True):
    """Tokens. `input_tokens` is the whole prompt; cached and reasoning tokens are subsets."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    source: str = "provider"
    """`provider`, or `counted` when it is our own count of deltas."""


class Event(Struct, frozen=True, kw_only=True, tag_field="type", gc=False):
    """Base of all events. `seq` is 1, 2, 3 … per response; 0 means not sent yet."""

    seq: int = 0


class Created(Event, frozen=True, kw_only=True, tag="created"):
    response_id: str
    model: str
    created_at: str
    """RFC 3339, UTC."""
    schema: int = SCHEMA


class Started(Event, frozen=True, kw_only=True, tag="started"):
    """Written by the claim script; moves queued to in_progress."""

    upstream_model: str
    attempt: int
    epoch: int
    at: str = ""
    """RFC 3339, UTC, by the claiming worker's clock."""


class Notice(Event, frozen=True, kw_only=True, tag="notice"):
    """Something a person waiting may want to know; never content. `done`/`total` for progress."""

    code: str
    message: str
    done: int | None = None
    total: int | None = None
    model: str | None = None
    """Who answers from now on: after a fallback, or when another run begins with the first."""


class TextDelta(Event, frozen=True, kw_only=True, tag="text.delta"):
    delta: str
    part: int = 0


class ReasoningDelta(Event, frozen=True, kw_only=True, tag="reasoning.delta"):
    delta: str
    part: int = 0


class RefusalDelta(Event, frozen=True, kw_only=True, tag="refusal.delta"):
    delta: str
    part: int = 0


class ToolCallStarted(Event, frozen=True, kw_only=True, tag="tool_call.started"):
    index: int
    call_id: str
    name: str


class ToolCallDelta(Event, frozen=True, kw_only=True, tag="tool_call.delta"):
    """A fragment of the arguments, for display only: nothing is run before `completed`."""

    index: int
    delta: str


class ToolCallCompleted(Event, frozen=True, kw_only=True, tag="tool_call.completed", gc=True):
    index: int
    call_id: str
    name: str
    arguments: dict[str, Any]


class ToolCallInvalid(Event, frozen=True, kw_only=True, tag="tool_call.invalid"):
    index: int
    call_id: str
    name: str
    raw: str
    error: str


class PartMeta(Event, frozen=True, kw_only=True, tag="part.meta", gc=True):
    """What a provider needs back to go on: `signature`, `redacted_thinking`, `citation`."""

    part: int
    kind: str
    data: Any


class Usage(Event, frozen=True, kw_only=True, tag="usage"):
    """A snapshot, not a sum: a later one replaces an earlier one."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    source: str = "provider"

    def count(self) -> UsageCount:
        return UsageCount(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cached_input_tokens=self.cached_input_tokens,
            reasoning_tokens=self.reasoning_tokens,
            source=self.source,
        )


class Ended(Event, frozen=True, kw_only=True, tag="ended"):
    """The one terminal event (law 3)."""

    status: str
    reason: str | None
    epoch: int
    finish_reason: str | None
    error: Error | None
    usage: UsageCount | None
    text_sha256: str
    first_token_at: str | None = None
    """RFC 3339, UTC: when the first content event was made, by the writer's clock."""
    first_text_at: str | None = None
    """The first that is no reasoning: of text, of a refusal, or of a tool call."""
    at: str | None = None


class Unknown(Event, frozen=True, kw_only=True, tag="unknown"):
    """An event of a later schema: kept in its place, without meaning to this reader."""


AnyEvent = (
    Created
    | Started
    | Notice
    | TextDelta
    | ReasoningDelta
    | RefusalDelta
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallCompleted
    | ToolCallInvalid
    | PartMeta
    | Usage
    | Ended
    | Unknown
)

NOTABLE: Final = frozenset({Started, Notice})
"""What an answer's story is told from, besides its record (relay/generate/story.py)."""

CONTENT: Final = (
    TextDelta,
    ReasoningDelta,
    RefusalDelta,
    ToolCallStarted,
    ToolCallDelta,
    ToolCallCompleted,
    ToolCallInvalid,
    PartMeta,
)
"""Events that a person may have seen as part of the answer: once one is in the log, no second
run."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyEvent)
_loose = msgspec.json.Decoder(dict[str, Any])


def encode_event(event: Event, seq: int) -> bytes:
    """Give `event` its number and serialise it as one line of JSON, `type` and `seq` first."""
    return _encoder.encode(msgspec.structs.replace(event, seq=seq))


def decode_event(data: bytes | str) -> AnyEvent:
    """Read one event. A type this schema does not know becomes `Unknown` with its seq.

    Raises msgspec.ValidationError (also msgspec.DecodeError) for anything else that is malformed.
    """
    try:
        return _decoder.decode(data)
    except msgspec.ValidationError:
        loose = _loose.decode(data)
        if loose.get("type") in _KNOWN:
            raise
        return Unknown(seq=int(loose.get("seq", 0)))


_KNOWN: Final = frozenset(
    str(kind.__struct_config__.tag) for kind in AnyEvent.__args__ if kind is not Unknown
)
