"""However much comes, and of whatever kind, a decoder keeps a bounded part of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from relay.dialects import DIALECTS
from relay.dialects.stream_decoder import MAX_SILENT_BYTES
from relay.dialects.tool_calls import MAX_CALLS
from relay.errors import ErrorKind
from relay.fold import fold
from relay.wire.sse import MAX_EVENT_BYTES
from tests.relay.fuzz.targets import new_decoder

BLOCK = 256 * 1024


def frame(value: dict[str, Any]) -> bytes:
    return f"event: {value.get('type', '')}\ndata: {json.dumps(value)}\n\n".encode()


def chat(call: dict[str, Any]) -> bytes:
    delta = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
    return f"data: {json.dumps(delta)}\n\n".encode()


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    "block",
    [b"x" * BLOCK, b"data: x\n" * (BLOCK // 8), b"[" * BLOCK, b"data: " + b"[" * BLOCK],
    ids=["no line end", "no blank line", "nothing but depth", "depth in an event"],
)
def test_what_never_becomes_an_event_is_refused(name: str, wrapped: bool, block: bytes) -> None:
    decoder = new_decoder(name, wrapped=wrapped)
    fed = 0
    while not decoder.over:
        assert decoder.feed(block) == []
        fed += len(block)
        assert fed <= MAX_EVENT_BYTES + 2 * len(block)
    error = decoder.finish(clean=True).error
    assert error is not None
    assert error.kind is ErrorKind.PROTOCOL


def endless(name: str) -> Iterator[bytes]:
    """Arguments of a call that nobody names: no event, and so no log, holds them back."""
    part = "x" * BLOCK
    if name == "openai-chat":
        yield from (chat({"index": 0, "function": {"arguments": part}}) for _ in count())
    elif name == "anthropic":
        block = {"type": "tool_use", "id": "t", "name": "", "input": {}}
        yield frame({"type": "content_block_start", "index": 0, "content_block": block})
        delta = {"type": "input_json_delta", "partial_json": part}
        while True:
            yield frame({"type": "content_block_delta", "index": 0, "delta": delta})
    else:
        kind = "response.function_call_arguments.delta"
        yield from (frame({"type": kind, "output_index": 0, "delta": part}) for _ in count())


@pytest.mark.parametrize("name", ["openai-chat", "anthropic", "openai-responses"])
def test_an_answer_that_never_ends_is_refused_at_last(name: str) -> None:
    decoder, fed = new_decoder(name), 0
    for data in endless(name):
        decoder.feed(data)
        fed += len(data)
        if decoder.over:
            break
        assert fed <= MAX_SILENT_BYTES + len(data)
    error = decoder.finish(clean=True).error
    assert error is not None
    assert error.kind is ErrorKind.PROTOCOL
    assert "larger" in error.message


def test_a_long_answer_is_not_too_long_because_of_what_surrounds_its_text() -> None:
    decoder = new_decoder("openai-chat")
    chunk = {"choices": [{"index": 0, "delta": {"content": "a"}}], "obfuscation": "x" * BLOCK}
    data = f"data: {json.dumps(chunk)}\n\n".encode()
    for _ in range(MAX_SILENT_BYTES // BLOCK + 1):
        assert decoder.feed(data)
    assert not decoder.over


def test_calls_without_number_become_no_more_than_a_bound() -> None:
    decoder = new_decoder("openai-chat")
    for index in range(MAX_CALLS + 50):
        decoder.feed(chat({"index": index, "id": f"c{index}", "function": {"name": f"f{index}"}}))
    calls = fold(decoder.finish(clean=True).events).tool_calls
    assert len(calls) == MAX_CALLS
    assert len({call.call_id for call in calls}) == MAX_CALLS
