"""Asking in the OpenAI chat dialect: a generation request as the body of a chat completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from relay.dialects.request_parts import THOUGHTS, calls_of, image_of, parts_of, text_of

if TYPE_CHECKING:
    from relay.config import ModelConfig
    from relay.dialects.dialect import Asked


def build(asked: Asked) -> dict[str, Any]:
    """The body to send. `extra_body` of the model wins over everything but the streaming.

    Raises UpstreamError invalid_request for what cannot be said there.
    """
    request, model = asked.request, asked.model
    messages = [_message(message) for message in request.messages]
    if request.instructions:
        messages.insert(0, {"role": "system", "content": request.instructions})
    body: dict[str, Any] = {"model": model.upstream_model, "messages": messages}
    limits = [n for n in (request.max_output_tokens, model.max_output_tokens) if n is not None]
    if limits:
        body[_limit_name(model)] = min(limits)
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.stop:
        body["stop"] = request.stop
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if not asked.stream:
        body |= dict(model.extra_body)
        body.pop("stream_options", None)
        return body | {"stream": False}
    # Usage is asked for: without this the last chunk with it never comes.
    body["stream_options"] = {"include_usage": True}
    return body | dict(model.extra_body) | {"stream": True}


def headers(model: ModelConfig) -> dict[str, str]:
    sent = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    if model.api_key:
        sent["Authorization"] = f"Bearer {model.api_key}"
    return sent


def _limit_name(model: ModelConfig) -> str:
    # OpenAI's newer models refuse `max_tokens`; the servers that imitate it know only that.
    host = urlsplit(model.base_url).hostname or ""
    theirs = host.endswith((".openai.com", ".openai.azure.com"))
    return "max_completion_tokens" if theirs else "max_tokens"


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """Ours to theirs. Content, a text or a list of parts (images too), goes through as it is."""
    if message.get("role") == "tool" and "call_id" in message:
        return {
            "role": "tool",
            "tool_call_id": message["call_id"],
            "content": _text(message.get("output", "")),
        }
    if isinstance(message.get("content"), list):
        parts = [_part(part) for part in parts_of(message) if part["type"] not in THOUGHTS]
        message = {**message, "content": parts or ""}
    if calls := list(calls_of(message)):
        return {**message, "tool_calls": [_call(call) for call in calls]}
    return message


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """Those of the Responses dialect in the words of this one, all others as they are."""
    if part["type"] in ("input_text", "output_text"):
        return {"type": "text", "text": text_of(part.get("text"))}
    if part["type"] == "input_image":
        return {"type": "image_url", "image_url": {"url": image_of(part)}}
    return part


def _call(call: dict[str, Any]) -> dict[str, Any]:
    """A call the assistant made earlier: {call_id, name, arguments}, as our snapshots have it."""
    if "function" in call:
        return call
    function = {"name": call.get("name", ""), "arguments": _text(call.get("arguments") or {})}
    return {"id": call.get("call_id", ""), "type": "function", "function": function}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool in the nested form; the flat one of the Responses API is wrapped."""
    if "function" in tool or "name" not in tool:
        return tool
    return {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}}


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
