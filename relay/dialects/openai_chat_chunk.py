"""The shape of one chunk of an OpenAI chat stream, as loosely as providers send it.

Typed for speed: msgspec skips every member that is not declared here without making an object of
it. Two shapes, from narrow to wide: the usual chunk is text and nothing else, so that whoever has
one need not ask what else is in it; in the other, `Any` stands where providers differ, and what
such a value says is read by the functions below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from relay.dialects.usage_snapshot import count_of


class UsualDelta(Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None


class UsualChoice(Struct, gc=False):
    delta: UsualDelta
    index: Literal[0] = 0
    finish_reason: None = None
    usage: None = None
    error: None = None


class UsualChunk(Struct, gc=False):
    """One choice with at most text in it: nearly every chunk of a stream."""

    choices: tuple[UsualChoice]
    usage: None = None
    error: None = None
    prompt_progress: None = None
    x_groq: None = None


class Delta(Struct, gc=False):
    content: Any = None
    """A text, or a list of parts."""
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None
    """The predecessor of tool_calls: at most one call, without index or id."""


class Choice(Struct, gc=False):
    index: Any = 0
    delta: Delta | None = None
    message: Delta | None = None
    """The whole message: of an answer that was not streamed, or repeated beside the deltas."""
    finish_reason: Any = None
    usage: Any = None
    error: Any = None


class Chunk(Struct, gc=False):
    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    message: Any = None
    prompt_progress: Any = None
    x_groq: Any = None


decode_usual_chunk: Final = msgspec.json.Decoder(UsualChunk).decode
"""Raises msgspec.DecodeError for all but usual chunks: try `decode_chunk`."""

decode_chunk: Final = msgspec.json.Decoder(Chunk).decode
"""Raises msgspec.DecodeError for what is not well-formed or has members of odd type."""


def chunk_from(value: object) -> Chunk | None:
    """The chunk in what json.loads read, members of odd type let through. None: no object."""
    if not isinstance(value, dict):
        return None
    choices = value.get("choices")
    if isinstance(choices, list):
        choices = [_choice(choice) for choice in choices if isinstance(choice, dict)]
    else:
        choices = None
    return Chunk(**{**_known(Chunk, value), "choices": choices})


def _choice(value: dict[str, Any]) -> Choice:
    members = _known(Choice, value)
    for name in ("delta", "message"):
        delta = value.get(name)
        members[name] = Delta(**_known(Delta, delta)) if isinstance(delta, dict) else None
    return Choice(**members)


def _known(kind: type[Struct], value: dict[str, Any]) -> dict[str, Any]:
    # By hand, because msgspec.convert cannot stand half a character in the name of a member.
    return {name: value[name] for name in kind.__struct_fields__ if name in value}


def has_calls(chunk: Chunk) -> bool:
    """Whether it holds a fragment of a tool call."""
    delta = chunk.choices[0].delta if chunk.choices else None
    return delta is not None and delta.tool_calls is not None


# -- readers of the `Any`s ------------------------------------------------------------------------
def content_texts(content: object) -> Iterator[tuple[bool, str]]:
    """(is reasoning, text) of a `content`, in order."""
    if isinstance(content, str):
        yield False, content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, str):
                yield False, part
            elif isinstance(part, dict):
                if part.get("type") == "thinking":  # Mistral
                    yield True, _part_text(part.get("thinking"))
                else:
                    yield False, _part_text(part.get("text"))


def has_reasoning(delta: Delta) -> bool:
    return not (
        delta.reasoning_content is None
        and delta.reasoning is None
        and delta.reasoning_details is None
    )


def reasoning_text(delta: Delta) -> str:
    """The first of a delta's reasoning members that is not empty (rule 8)."""
    return (
        _part_text(delta.reasoning_content)
        or _part_text(delta.reasoning)
        or _part_text(delta.reasoning_details)
    )


def reasoning_signatures(delta: Delta) -> Iterator[dict[str, Any]]:
    """What a provider needs back beside the text of its reasoning."""
    members = (delta.reasoning_content, delta.reasoning, delta.reasoning_details)
    for member in members:
        for detail in member if isinstance(member, list) else [member]:
            if isinstance(detail, dict) and (detail.get("signature") or detail.get("data")):
                yield detail


def _part_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_part_text(item) for item in value)
    if isinstance(value, dict):
        return _part_text(value.get("text")) or _part_text(value.get("summary"))
    return ""


USAGE_NAMES: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "input_tokens": (("prompt_tokens",), ("input_tokens",)),
    "output_tokens": (("completion_tokens",), ("output_tokens",)),
    "cached_input_tokens": (
        ("prompt_tokens_details", "cached_tokens"),
        ("input_tokens_details", "cached_tokens"),
        ("cached_tokens",),
        ("prompt_cache_hit_tokens",),
    ),
    "reasoning_tokens": (
        ("completion_tokens_details", "reasoning_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
    ),
}
"""Our names and where providers put the number, best first."""


def usage_counts(usage: object) -> dict[str, int]:
    """What a usage object says, in our names; without what it does not say."""
    counts = {}
    if isinstance(usage, dict) and isinstance(usage.get("usage"), dict):  # Groq's `x_groq`
        usage = usage["usage"]
    for name, paths in USAGE_NAMES.items():
        for path in paths:
            value = usage
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            if (count := count_of(value)) is not None:
                counts[name] = count
                break
    return counts
