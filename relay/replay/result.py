"""What a played answer came to, in the words of the corpus' `expect`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from relay.fold import fold
from relay.states import Status
from relay.wire.sse import EventTooLarge, SseDecoder
from relay.wire.surrogates import joined

if TYPE_CHECKING:
    from relay.dialects.recording import Recording
    from relay.events import PartMeta, UsageCount
    from relay.fold import Snapshot, ToolCall
    from relay.replay.play import Played


def result_of(recording: Recording, played: Played) -> dict[str, Any]:
    """All fields of `expect` that our events can tell, and `name`. Fit for JSON."""
    snapshot, end = fold(played.events), played.end
    said_by = _origin(recording)
    return {
        "name": recording.name,
        "text": snapshot.text,
        "reasoning": snapshot.reasoning,
        "tool_calls": [_call(call, snapshot) for call in snapshot.tool_calls],
        "finish_reason": end.finish_reason,
        "usage": _usage(snapshot.usage),
        "terminal_state": end.status.value,
        "incomplete_reason": end.reason if end.status is Status.INCOMPLETE else None,
        "error_kind": end.error.code if end.error else None,
        "retryable": end.error.retryable if end.error else None,
        "error_message": end.error.message if end.error else None,
        "refusal": snapshot.refusal,
        "response_id": said_by.get("id"),
        "model": said_by.get("model"),
        "signatures": [
            signed
            for meta in _of_kind(snapshot, "signature")
            if "call_id" not in meta.data and (signed := _signature(meta.data))
        ],
        "redacted": [meta.data.get("data") for meta in _of_kind(snapshot, "redacted_thinking")],
        "citations": sum(1 for _ in _of_kind(snapshot, "citation")),
    }


def expectation(result: dict[str, Any]) -> dict[str, Any]:
    """`result` as the `expect` of a case: without what the corpus does not ask for."""
    optional = ("refusal", "response_id", "model", "signatures", "redacted", "citations")
    return {
        name: value
        for name, value in result.items()
        if name not in ("name", "error_message") and (value or name not in optional)
    }


def _call(call: ToolCall, snapshot: Snapshot) -> dict[str, Any]:
    told: dict[str, Any] = {"id": call.call_id, "name": call.name}
    if call.error is None:
        told["arguments"] = call.arguments
    else:
        told |= {"error": call.error, "raw": call.raw}
    for meta in _of_kind(snapshot, "signature"):
        if meta.data.get("call_id") == call.call_id and (signed := _signature(meta.data)):
            told["signature"] = signed
    return told


def _of_kind(snapshot: Snapshot, kind: str) -> Iterator[PartMeta]:
    return (meta for meta in snapshot.meta if meta.kind == kind and isinstance(meta.data, dict))


def _signature(data: Any) -> str:
    """The signature in what a provider wants back, wherever it put it."""
    for name in ("signature", "thought_signature", "data", "encrypted_content"):
        if isinstance(data.get(name), str):
            return str(data[name])
    for value in data.values():
        if isinstance(value, dict) and (signed := _signature(value)):
            return signed
    return ""


def _usage(usage: UsageCount | None) -> dict[str, int] | None:
    if usage is None or usage.source != "provider":
        return None
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_input_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    told = {name: count for name, count in counts.items() if count is not None}
    if "input_tokens" in told and "output_tokens" in told:
        told["total_tokens"] = told["input_tokens"] + told["output_tokens"]
    return told


# -- who answered ---------------------------------------------------------------------------------
def _origin(recording: Recording) -> dict[str, str]:
    """`id` and `model` as the upstream says them first. No event of ours carries them."""
    said: dict[str, str] = {}
    for value in _objects(b"".join(recording.chunks)):
        for holder in (value, value.get("response"), value.get("message")):
            for name in ("id", "model"):
                word = holder.get(name) if isinstance(holder, dict) else None
                if isinstance(word, str) and word:
                    said.setdefault(name, joined(word))
        if len(said) == 2:
            break
    return said


def _objects(data: bytes) -> Iterator[dict[str, Any]]:
    decoder = SseDecoder()
    try:
        frames = decoder.feed(data) + decoder.finish()
    except EventTooLarge as error:
        frames = error.frames
    texts: list[str | bytes] = [frame.data for frame in frames]
    for text in texts or [data]:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value
