"""A model that writes its thoughts into its text, behind any dialect."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec

from relay.dialects import DIALECTS, Asked, Decoder, decoder_for
from relay.events import ReasoningDelta, TextDelta, ToolCallStarted, Usage
from tests.relay.dialects.corpus import MODEL, REQUEST


def decoder(dialect: str = "openai-chat", *, stop: list[str] | None = None) -> Decoder:
    model = replace(MODEL, dialect=dialect, think_tags=("<think>", "</think>"))
    request = msgspec.structs.replace(REQUEST, stop=stop or [])
    return decoder_for(DIALECTS[dialect], Asked(request=request, model=model))


def chat(**delta: Any) -> bytes:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n".encode()


def text(index: int, said: str) -> bytes:
    delta = {"type": "text_delta", "text": said}
    event = {"type": "content_block_delta", "index": index, "delta": delta}
    return f"data: {json.dumps(event)}\n\n".encode()


def test_what_was_held_leaves_before_what_the_end_tells() -> None:
    thinking = decoder()
    assert thinking.feed(chat(content="<think>a</thi")) == [ReasoningDelta(delta="a")]
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}
    assert thinking.feed(chat(tool_calls=[call])) == []
    usage = b'data: {"choices":[{"delta":{}}],"usage":{"completion_tokens":3}}\n\n'
    assert thinking.feed(usage) == []
    last = thinking.finish(clean=False).events
    assert last[0] == ReasoningDelta(delta="</thi")
    assert isinstance(last[1], ToolCallStarted)
    assert last[-1] == Usage(output_tokens=3)


def test_what_was_held_keeps_its_part() -> None:
    thinking = decoder("anthropic")
    assert thinking.feed(text(2, "<thin")) == []
    assert thinking.abandon() == [TextDelta(part=2, delta="<thin")]


def test_a_stop_string_counts_in_the_answer_and_not_in_the_thought() -> None:
    thinking = decoder(stop=["END"])
    events = thinking.feed(chat(content="<think>the END</think>yes E"))
    events += thinking.feed(chat(content="ND no"))
    assert thinking.over
    assert [(type(e), e.delta) for e in events if isinstance(e, (TextDelta, ReasoningDelta))] == [
        (ReasoningDelta, "the END"),
        (TextDelta, "yes "),
    ]
