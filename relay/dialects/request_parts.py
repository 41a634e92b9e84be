"""Reading the parts of a question that dialects write differently."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from relay.errors import ErrorKind, UpstreamError


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
