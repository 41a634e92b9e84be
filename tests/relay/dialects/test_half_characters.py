"""Half a character, wherever a provider puts one, never makes an event that cannot be stored."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from relay.dialects import DIALECTS, Asked, decoder_for
from relay.events import encode_event
from tests.relay.dialects.corpus import MODEL, REQUEST

HALF = "\ud83d"
FUNCTION = {"name": HALF, "arguments": json.dumps({HALF: HALF})}
TOOL = {"index": 0, "id": HALF, "function": FUNCTION, "extra_content": {HALF: HALF}}
SIGNED = {"type": "reasoning.encrypted", "data": HALF, "signature": HALF}
CALL = {"type": "function_call", "id": HALF, "call_id": HALF, **FUNCTION}
DELTA = {HALF: 1, "content": HALF, "reasoning": [SIGNED], "refusal": HALF, "tool_calls": [TOOL]}
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": HALF, "citations": [{HALF: HALF}]},
    {"type": "thinking", "thinking": HALF, "signature": HALF},
    {"type": "redacted_thinking", "data": HALF},
    {"type": "tool_use", "id": HALF, "name": HALF, "input": {HALF: HALF}},
]
ITEMS: list[dict[str, Any]] = [
    CALL,
    {"type": "message", "content": [{"type": "output_text", "text": HALF, "annotations": [{}]}]},
    {"type": "message", "content": [{"type": "refusal", "refusal": HALF}]},
    {
        "type": "reasoning",
        "id": HALF,
        "summary": [{"type": "summary_text", "text": HALF}],
        "encrypted_content": HALF,
    },
]
STREAMS: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [
        {HALF: 1, "choices": [{HALF: 1, "index": 0, "delta": DELTA, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": HALF}]},
    ],
    "anthropic": [
        *(
            event
            for index, block in enumerate(BLOCKS)
            for event in (
                {"type": "content_block_start", "index": index, "content_block": block},
                {"type": "content_block_stop", "index": index},
            )
        ),
        {HALF: 1, "type": "message_delta", "delta": {HALF: 1, "stop_reason": HALF}},
    ],
    "openai-responses": [
        *(
            {"type": "response.output_item.done", "output_index": n, "item": item}
            for n, item in enumerate(ITEMS)
        ),
        {HALF: 1, "type": "response.completed", "response": {HALF: 1}},
    ],
}


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("failed", [False, True])
def test_every_event_can_be_stored(dialect: str, failed: bool) -> None:
    model = replace(MODEL, dialect=dialect)
    decoder = decoder_for(DIALECTS[dialect], Asked(request=REQUEST, model=model))
    values = STREAMS[dialect][:-1] if failed else STREAMS[dialect]
    error = [{"type": "error", "error": {"message": HALF, "code": HALF}}] if failed else []
    frames = [f"data: {json.dumps(value)}\n\n".encode() for value in [*values, *error]]
    events = [event for frame in frames for event in decoder.feed(frame)]
    finish = decoder.finish(clean=True)
    events += finish.events
    assert (finish.error is not None) is failed
    assert events
    for event in events:
        encode_event(event, 1)
    str(finish.error).encode()
