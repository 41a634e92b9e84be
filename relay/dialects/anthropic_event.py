"""The shape of one event of an Anthropic stream, as loosely as gateways send it."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from relay.dialects.usage_snapshot import count_of


class UsualDelta(Struct, gc=False):
    """Text and nothing else."""

    text: str


class UsualEvent(Struct, gc=False, tag_field="type", tag="content_block_delta"):
    """Nearly every event of a stream: a delta of visible text."""

    delta: UsualDelta
    index: Annotated[int, Meta(ge=0)] = 0


class Delta(Struct, gc=False):
    type: Any = None
    text: Any = None
    thinking: Any = None
    partial_json: Any = None
    signature: Any = None
    citation: Any = None
    stop_reason: Any = None


class AnthropicEvent(Struct, gc=False):
    type: Any = None
    index: Any = None
    delta: Delta | None = None
    content_block: Any = None
    message: Any = None
    usage: Any = None
    error: Any = None


decode_usual_event: Final = msgspec.json.Decoder(UsualEvent).decode
"""Raises msgspec.DecodeError for all but deltas of text."""

decode_event: Final = msgspec.json.Decoder(AnthropicEvent).decode
"""Raises msgspec.DecodeError for what is not well-formed or has members of odd type."""


def event_from(value: object) -> AnthropicEvent | None:
    """The event in what json.loads read, members of odd type let through. None: no object."""
    if not isinstance(value, dict):
        return None
    event, delta = AnthropicEvent(**_known(AnthropicEvent, value)), value.get("delta")
    event.delta = Delta(**_known(Delta, delta)) if isinstance(delta, dict) else None
    return event


def _known(kind: type[Struct], value: dict[str, Any]) -> dict[str, Any]:
    # By hand, because msgspec.convert cannot stand half a character in the name of a member.
    return {name: value[name] for name in kind.__struct_fields__ if name in value}


def usage_counts(raw: dict[str, int]) -> dict[str, int]:
    """In our names: the whole prompt is what was new, read from the cache and written to it."""
    counts: dict[str, int] = {}
    prompt = [raw[name] for name in _PROMPT if name in raw]
    if prompt:
        counts["input_tokens"] = sum(prompt)
    if "cache_read_input_tokens" in raw:
        counts["cached_input_tokens"] = raw["cache_read_input_tokens"]
    if "output_tokens" in raw:
        counts["output_tokens"] = raw["output_tokens"]
    return counts


_PROMPT: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def raw_counts(usage: object) -> dict[str, int]:
    """The counters that a usage object states, in Anthropic's names."""
    members = usage if isinstance(usage, dict) else {}
    found = {name: count_of(members.get(name)) for name in (*_PROMPT, "output_tokens")}
    return {name: count for name, count in found.items() if count is not None}
