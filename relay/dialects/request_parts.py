"""Reading the parts of a question that dialects write differently."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from relay.errors import ErrorKind, UpstreamError

THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Parts of an earlier answer that only the provider who signed them can use."""


def parts_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The content of a message as parts with a type; a text is one part, an empty one none.

    Raises UpstreamError invalid_request for anything else.
    """
    content = message.get("content")
    if content is None or content == "":
        return []
    parts = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            parts.append({"type": "text", "text": part})
        elif isinstance(part, dict) and isinstance(part.get("type"), str):
            parts.append(part)
        else:
            raise UpstreamError(
                ErrorKind.INVALID_REQUEST,
                "The question has a part that is neither a text nor an object with a type.",
            )
    return parts


def refused(part: dict[str, Any]) -> UpstreamError:
    """What to raise for a part that the provider has no words for."""
    kind = str(part["type"])[:40]
    return UpstreamError(
        ErrorKind.INVALID_REQUEST,
        f"The question has a part of the type {kind}, which this model cannot be given.",
    )


def calls_of(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The calls that an earlier answer made. Raises UpstreamError invalid_request."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise UpstreamError(
            ErrorKind.INVALID_REQUEST, "The question has tool calls that are no list of objects."
        )
    yield from calls


def text_of(value: object) -> str:
    """A content, or a tool's output, as text: parts are joined, other values become JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return str(value["text"])
    if isinstance(value, list) and all(_is_text(part) for part in value):
        return "".join(text_of(part) for part in value)
    return msgspec.json.encode(value).decode()


def image_of(part: dict[str, Any]) -> str:
    """The address of a picture, `https:` or `data:`, in the form of either OpenAI dialect.

    Raises UpstreamError invalid_request if there is none.
    """
    value = part.get("image_url")
    url = value.get("url") if isinstance(value, dict) else value
    if not isinstance(url, str) or not url:
        raise UpstreamError(ErrorKind.INVALID_REQUEST, "A picture in the question has no address.")
    return url


def tool_function(call: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """(id, name, arguments) of a call the assistant made earlier, ours or OpenAI chat's."""
    nested = call.get("function")
    function: dict[str, Any] = nested if isinstance(nested, dict) else call
    call_id = call.get("call_id") or call.get("id") or ""
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = {}
    if not isinstance(arguments, dict):
        arguments = {}
    return str(call_id), str(function.get("name") or ""), arguments


def _is_text(part: object) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str))
