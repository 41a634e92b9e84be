"""The Anthropic dialect, where the corpus says nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from relay import events as ev
from relay.dialects.anthropic import AnthropicDecoder
from relay.errors import ErrorKind
from relay.fold import Snapshot, fold
from relay.states import FinishReason

if TYPE_CHECKING:
    from relay.dialects import Finish

START = {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}
STOP = {"type": "message_stop"}
SIGNED = {"type": "thinking", "thinking": "", "signature": ""}


def frame(value: object) -> bytes:
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def begin(index: int, **block: object) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **members: object) -> dict[str, Any]:
    delta = {"type": kind, **members}
    return {"type": "content_block_delta", "index": index, "delta": delta}


def end(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ended(reason: str | None, **usage: object) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def tool(call_id: str, name: str, arguments: str) -> list[dict[str, Any]]:
    return [
        begin(0, type="tool_use", id=call_id, name=name, input={}),
        delta(0, "input_json_delta", partial_json=arguments),
        end(0),
    ]


def heard(*values: object, clean: bool = True) -> tuple[Snapshot, Finish]:
    decoder = AnthropicDecoder(response_id="r1", secret="very-secret")
    events = [event for value in values for event in decoder.feed(frame(value))]
    finish = decoder.finish(clean)
    for event in events + finish.events:
        ev.encode_event(event, 1)  # whatever came, it can be stored
    return fold(events + finish.events), finish


def error_kind(finish: Finish) -> ErrorKind | None:
    return finish.error.kind if finish.error is not None else None


def test_a_gateway_that_numbers_all_blocks_alike_loses_no_call() -> None:
    first, second = tool("a", "f", '{"x": 1}'), tool("b", "g", '{"y": 2}')
    snapshot, finish = heard(START, *first, *second, ended("tool_use"), STOP)
    assert [(c.call_id, c.name, c.arguments) for c in snapshot.tool_calls] == [
        ("a", "f", {"x": 1}),
        ("b", "g", {"y": 2}),
    ]
    assert finish.finish_reason is FinishReason.TOOL_CALLS


def test_what_comes_after_a_call_is_closed_does_not_change_it() -> None:
    late = delta(0, "input_json_delta", partial_json="}")
    snapshot, _ = heard(START, *tool("a", "f", "{}"), late, end(0), ended("tool_use"), STOP)
    assert [(c.arguments, c.error) for c in snapshot.tool_calls] == [({}, None)]


def test_an_end_without_an_answer_is_an_empty_response() -> None:
    assert error_kind(heard(START, STOP)[1]) is ErrorKind.EMPTY_RESPONSE
    assert error_kind(heard(START, begin(0, type="text", text="Hi"), STOP)[1]) is None


def test_a_message_that_only_began_is_truncated() -> None:
    assert error_kind(heard(START)[1]) is ErrorKind.TRUNCATED
    assert error_kind(heard({"type": "ping"})[1]) is ErrorKind.EMPTY_RESPONSE


@pytest.mark.parametrize(
    "fragments",
    [["AA", "BB"], ["AABB"], ["AABB", "AABB"]],
    ids=["in fragments", "whole", "said twice"],
)
def test_a_signature_is_told_once_when_its_block_ends(fragments: list[str]) -> None:
    deltas = [delta(0, "signature_delta", signature=fragment) for fragment in fragments]
    snapshot, _ = heard(START, begin(0, **SIGNED), *deltas, end(0), ended("end_turn"), STOP)
    assert [meta.data for meta in snapshot.meta] == [{"signature": "AABB"}]


def test_a_signature_of_a_block_that_never_ended_is_kept() -> None:
    signature = delta(0, "signature_delta", signature="AA")
    snapshot, _ = heard(START, begin(0, **SIGNED), signature, clean=False)
    assert [meta.data for meta in snapshot.meta] == [{"signature": "AA"}]


def test_the_usage_of_the_end_replaces_that_of_the_start_and_counts_the_cache() -> None:
    last = ended("end_turn", input_tokens=9, cache_read_input_tokens=3, output_tokens=4)
    snapshot, _ = heard(START, delta(0, "text_delta", text="x"), last, STOP)
    assert snapshot.usage == ev.UsageCount(input_tokens=12, cached_input_tokens=3, output_tokens=4)


def test_usage_that_comes_with_the_very_end_counts() -> None:
    text = delta(0, "text_delta", text="x")
    snapshot, _ = heard(START, text, ended("end_turn"), {**STOP, "usage": {"output_tokens": 8}})
    assert snapshot.usage is not None
    assert snapshot.usage.output_tokens == 8


@pytest.mark.parametrize(
    "odd",
    [
        {"type": []},
        {"type": "content_block_delta", "index": 0, "delta": "text"},
        {"type": "content_block_start", "index": -1, "content_block": 7},
        {"type": "content_block_start", "index": 9, "content_block": {"type": "text", "text": 5}},
        {"type": "content_block_start", "content_block": {"type": "text", "citations": 5}},
        {"type": "message_start", "message": "x"},
        {"type": "message_delta", "delta": {"stop_reason": 5}, "usage": [1]},
        delta(0, "citations_delta", citation="x"),
        delta(0, "signature_delta", signature=7),
        delta(3, "input_json_delta", partial_json="{}"),
        {"type": "an_event_of_next_year", "delta": {"text": "not text"}},
    ],
    ids=json.dumps,
)
def test_odd_members_hurt_nothing_else(odd: object) -> None:
    text = begin(0, type="text", text="Hi")
    snapshot, finish = heard(START, odd, text, odd, ended("end_turn"), STOP)
    assert finish.error is None
    assert (snapshot.text, snapshot.tool_calls) == ("Hi", ())


@pytest.mark.parametrize(
    ("raw", "kind", "message"),
    [
        (
            'event: error\ndata: {"type":"overloaded_error","message":"Busy"}',
            ErrorKind.OVERLOADED,
            "Busy",
        ),
        ("event: error\ndata: Busy", ErrorKind.SERVER_ERROR, "Busy"),
        ('event: error\ndata: "Busy"', ErrorKind.SERVER_ERROR, "Busy"),
        ('data: {"type":"error","message":"Busy"}', ErrorKind.SERVER_ERROR, "Busy"),
        ('error: {"code":503,"message":"Busy"}', ErrorKind.OVERLOADED, "Busy"),
        ('data: {"error":{"type":"rate_limit_error","message":"\\ud83d"}}', "rate_limit", "\ufffd"),
    ],
)
def test_an_error_is_one_in_whatever_shape_it_comes(raw: str, kind: str, message: str) -> None:
    decoder = AnthropicDecoder()
    decoder.feed(frame(START) + f"{raw}\n\n".encode())
    finish = decoder.finish(True)
    assert finish.error is not None
    assert (finish.error.kind, str(finish.error)) == (kind, message)


def test_an_answer_in_one_piece_is_read_like_a_stream() -> None:
    content = [
        {"type": "thinking", "thinking": "Hm", "signature": "AA"},
        {"type": "redacted_thinking", "data": "BB"},
        {"type": "text", "text": "Hi", "citations": [{"url": "https://example.org"}]},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    ]
    usage = {"input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 4}
    body = {"type": "message", "content": content, "stop_reason": "tool_use", "usage": usage}
    decoder = AnthropicDecoder()
    decoder.feed(json.dumps(body).encode())
    finish = decoder.finish(True)
    snapshot = fold(finish.events)
    assert (snapshot.text, snapshot.reasoning) == ("Hi", "Hm")
    assert [(c.call_id, c.arguments) for c in snapshot.tool_calls] == [("t", {"a": 1})]
    assert [(meta.part, meta.kind) for meta in snapshot.meta] == [
        (0, "signature"),
        (1, "redacted_thinking"),
        (2, "citation"),
    ]
    assert snapshot.usage == ev.UsageCount(input_tokens=5, cached_input_tokens=2, output_tokens=4)
    assert finish.finish_reason is FinishReason.TOOL_CALLS
