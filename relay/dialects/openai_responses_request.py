"""Asking in the OpenAI Responses dialect: a generation request as the body of a new response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from relay.dialects.openai_chat_request import headers
from relay.dialects.request_parts import image_of, text_of, tool_function

if TYPE_CHECKING:
    from relay.dialects.dialect import Asked

__all__ = ["build", "headers"]


def build(asked: Asked) -> dict[str, Any]:
    """The body to send. `extra_body` of the model, `reasoning` for one, wins over all but `stream`.

    Stop strings are not sent, this dialect has none: our own scanner sees to them. Raises
    UpstreamError invalid_request for a picture that cannot be sent.
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
    items: list[dict[str, Any]] = []
    content = message.get("content")
    if content:
        if isinstance(content, list):
            content = [_part(part, role) for part in content]
        items.append({"role": role, "content": content})
    for call in message.get("tool_calls") or ():
        call_id, name, arguments = tool_function(call)
        encoded = msgspec.json.encode(arguments).decode()
        items.append(
            {"type": "function_call", "call_id": call_id, "name": name, "arguments": encoded}
        )
    return items


def _part(part: object, role: object) -> object:
    kind = "output_text" if role == "assistant" else "input_text"
    if isinstance(part, str):
        return {"type": kind, "text": part}
    if not isinstance(part, dict):
        return {"type": kind, "text": text_of(part)}
    if part.get("type") == "text":
        return {"type": kind, "text": text_of(part)}
    if part.get("type") == "image_url":
        return {"type": "input_image", "image_url": image_of(part)}
    return part


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool in the flat form; the nested one of OpenAI chat is unwrapped."""
    function = tool.get("function")
    return {"type": "function", **function} if isinstance(function, dict) else tool
