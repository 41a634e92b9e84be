"""Asking in the Anthropic dialect: a generation request as the body of a Messages call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from relay.dialects.request_parts import (
    calls_of,
    image_of,
    parts_of,
    refused,
    text_of,
    tool_function,
)

if TYPE_CHECKING:
    from relay.config import ModelConfig
    from relay.dialects.dialect import Asked

VERSION: Final = "2023-06-01"
MAX_TOKENS: Final = 4096
"""Anthropic requires a limit. One that every model of theirs allows, for a request and a model that
state none; `max_output_tokens` in the models file raises it."""


def build(asked: Asked) -> dict[str, Any]:
    """The body to send. `extra_body` of the model, `thinking` for one, wins over all but `stream`.

    Raises UpstreamError invalid_request for what cannot be said there.
    """
    request, model = asked.request, asked.model
    system = [request.instructions] if request.instructions else []
    turns: list[dict[str, Any]] = []
    for message in request.messages:
        role = message.get("role")
        if role in ("system", "developer"):
            system.append(text_of(message.get("content")))
        else:
            _add(turns, "assistant" if role == "assistant" else "user", _blocks(message))
    limits = [n for n in (request.max_output_tokens, model.max_output_tokens) if n is not None]
    body: dict[str, Any] = {
        "model": model.upstream_model,
        "max_tokens": min(limits, default=MAX_TOKENS),
        "messages": turns,
    }
    if system:
        body["system"] = "\n\n".join(system)
    if request.temperature is not None:
        body["temperature"] = min(request.temperature, 1.0)  # theirs ends where others' goes to 2
    # Stop strings of nothing but white space are refused there; our own scanner sees to them.
    if stops := [stop for stop in request.stop if stop.strip()]:
        body["stop_sequences"] = stops
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    body |= dict(model.extra_body)
    thinking = body.get("thinking")
    if isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive"):
        _make_room_to_think(body, thinking)
    return body | {"stream": asked.stream}


def headers(model: ModelConfig) -> dict[str, str]:
    sent = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "anthropic-version": VERSION,
    }
    if model.api_key:
        sent["x-api-key"] = model.api_key
    return sent


def _make_room_to_think(body: dict[str, Any], thinking: dict[str, Any]) -> None:
    """The budget counts against `max_tokens`, which must be larger, and forbids a temperature."""
    budget = thinking.get("budget_tokens")
    if isinstance(budget, int) and body["max_tokens"] <= budget:
        body["max_tokens"] += budget
    body.pop("temperature", None)


def _add(turns: list[dict[str, Any]], role: str, blocks: list[dict[str, Any]]) -> None:
    """Two turns of one role in a row are one there; an empty one is refused."""
    if not blocks:
        return
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    else:
        turns.append({"role": role, "content": blocks})


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    if message.get("role") == "tool":
        result = text_of(message.get("output", message.get("content")))
        call_id = message.get("call_id") or message.get("tool_call_id") or ""
        return [{"type": "tool_result", "tool_use_id": call_id, "content": result}]
    blocks = [block for part in parts_of(message) if (block := _block(part)) is not None]
    for call in calls_of(message):
        call_id, name, arguments = tool_function(call)
        blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": arguments})
    return blocks


def _block(part: dict[str, Any]) -> dict[str, Any] | None:
    kind = part["type"]
    if kind in ("image_url", "input_image"):
        return _image(image_of(part))
    if kind in ("input_text", "output_text", "refusal"):
        part = {"type": "text", "text": text_of(part.get("text") or part.get("refusal"))}
    elif kind in _THEIR_RIVALS:
        raise refused(part)
    if kind == "reasoning" or (part["type"] == "text" and not part.get("text")):
        return None  # an empty text is refused there, another provider's thought means nothing
    return part  # a block of their own: thinking with its signature, a document, a cached text


_THEIR_RIVALS: Final = frozenset(
    {"input_audio", "audio", "audio_url", "video_url", "file", "input_file"}
)
"""Parts that only OpenAI and its imitators know."""


def _image(url: str) -> dict[str, Any]:
    head, comma, data = url.partition(",")
    if url.startswith("data:") and comma:
        media_type = head.removeprefix("data:").partition(";")[0]
        source = {"type": "base64", "media_type": media_type, "data": data}
    else:
        source = {"type": "url", "url": url}
    return {"type": "image", "source": source}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Ours, nested or flat, to theirs; one that is theirs already goes through."""
    nested = tool.get("function")
    function: dict[str, Any] = nested if isinstance(nested, dict) else tool
    if tool.get("type", "function") != "function" or "input_schema" in tool:
        return tool
    if "name" not in function:
        return tool  # their refusal says what is missing
    made = {
        "name": function["name"],
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }
    if function.get("description"):
        made["description"] = function["description"]
    return msgspec.to_builtins(made)  # type: ignore[no-any-return]
