"""Asking in the OpenAI Responses dialect: a generation request as the body of a new response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from relay.dialects.openai_chat_request import headers
from relay.dialects.request_parts import (
    THOUGHTS,
    calls_of,
    image_of,
    parts_of,
    refused,
    text_of,
    tool_function,
)

if TYPE_CHECKING:
    from relay.dialects.dialect import Asked

__all__ = ["build", "headers"]


def build(asked: Asked) -> dict[str, Any]:
    """The body to send. `extra_body` of the model, `reasoning` for one, wins over all but `stream`.

    Stop strings are not sent, this dialect has none: our own scanner sees to them. Raises
    UpstreamError invalid_request for what cannot be said there.
    """
    request, model = asked.request, asked.model
    items = [item for message in request.messages for item in _items(message)]
    # Kept by us, so not by the provider.
    body: dict[str, Any] = {"model": model.upstream_model, "input": items, "store": False}
    if request.instructions:
        body["instructions"] = request.instructions
    limits = [n for n in (request.max_output_tokens, model.max_output_tokens) if n is not None]
    if limits:
        body["max_output_tokens"] = min(limits)
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if asked.stream and (urlsplit(model.base_url).hostname or "").endswith(".openai.com"):
        # Padding against eavesdroppers on the length of tokens; servers that imitate refuse it.
        body["stream_options"] = {"include_obfuscation": False}
    body |= dict(model.extra_body)
    if not asked.stream:
        body.pop("stream_options", None)
    return body | {"stream": asked.stream}


def _items(message: dict[str, Any]) -> list[dict[str, Any]]:
    role = message.get("role")
    if role is None:
        return [message]  # an item of theirs: reasoning with its signature, a call
    if role == "tool":
        call_id = message.get("call_id") or message.get("tool_call_id") or ""
        output = text_of(message.get("output", message.get("content")))
        return [{"type": "function_call_output", "call_id": call_id, "output": output}]
    parts = parts_of(message)
    # A thought that was encrypted for us, so that the conversation can go on from it.
    items = [part for part in parts if part["type"] == "reasoning"]
    content = [_part(part, role) for part in parts if part["type"] not in THOUGHTS]
    if isinstance(message.get("content"), str) and content:
        items.append({"role": role, "content": message["content"]})
    elif content:
        items.append({"role": role, "content": content})
    for call in calls_of(message):
        call_id, name, arguments = tool_function(call)
        encoded = msgspec.json.encode(arguments).decode()
        items.append(
            {"type": "function_call", "call_id": call_id, "name": name, "arguments": encoded}
        )
    return items


def _part(part: dict[str, Any], role: object) -> dict[str, Any]:
    kind = part["type"]
    if kind == "text":
        own = "output_text" if role == "assistant" else "input_text"
        return {"type": own, "text": text_of(part.get("text"))}
    if kind == "image_url":
        return {"type": "input_image", "image_url": image_of(part)}
    if kind == "file" and isinstance(part.get("file"), dict):
        return {"type": "input_file", **part["file"]}
    if kind.startswith(("input_", "output_")) or kind == "refusal":
        return part
    raise refused(part)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool in the flat form; the nested one of OpenAI chat is unwrapped."""
    function = tool.get("function")
    return {"type": "function", **function} if isinstance(function, dict) else tool
