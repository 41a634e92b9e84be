"""The OpenAI chat dialect: the corpus, and what the corpus does not say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay import events as ev
from relay.dialects import DIALECTS, Asked, Finish
from relay.dialects.openai_chat import OpenAIChatDecoder
from relay.errors import ErrorKind
from relay.fold import Snapshot, fold
from relay.states import FinishReason
from relay.wire.sse import MAX_EVENT_BYTES
from tests.relay.dialects.corpus import (
    MODEL,
    REQUEST,
)


# -- by hand ------------------------------------------------------------------------------------
def frame(value: object) -> bytes:
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def delta(finish_reason: str | None = None, **members: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": finish_reason}]}


STOP = delta("stop")


def heard(*values: object, clean: bool = True) -> tuple[Snapshot, Finish]:
    decoder = OpenAIChatDecoder(response_id="r1", secret="very-secret")
    events = [event for value in values for event in decoder.feed(frame(value))]
    finish = decoder.finish(clean)
    return fold(events + finish.events), finish


def test_usage_with_every_token_is_sent_once() -> None:
    decoder = OpenAIChatDecoder()
    events: list[ev.Event] = []
    for n in range(1, 6):
        chunk = {**delta(content="a"), "usage": {"prompt_tokens": 3, "completion_tokens": n}}
        events += decoder.feed(frame(chunk))
    events += decoder.feed(frame({**STOP, "usage": {"prompt_tokens": 3, "completion_tokens": 5}}))
    events += decoder.finish(True).events
    usages = [event for event in events if isinstance(event, ev.Usage)]
    assert usages == [ev.Usage(input_tokens=3, output_tokens=5)]


def test_the_last_usage_is_not_lost_when_we_stop() -> None:
    decoder = OpenAIChatDecoder()
    decoder.feed(frame({**delta(content="a"), "usage": {"completion_tokens": 7}}))
    assert decoder.abandon() == [ev.Usage(output_tokens=7)]


def test_reading_a_long_prompt_is_a_notice() -> None:
    decoder = OpenAIChatDecoder()
    chunk = {**delta(), "prompt_progress": {"total": 1731, "processed": 384, "cache": 0}}
    assert decoder.feed(frame(chunk)) == [
        ev.Notice(
            code="reading_prompt",
            message="Reading the prompt, 384 of 1731 tokens",
            done=384,
            total=1731,
        )
    ]


def test_the_usage_of_groq_is_found_where_it_is() -> None:
    snapshot, _ = heard(delta(content="a"), {**STOP, "x_groq": {"usage": {"prompt_tokens": 9}}})
    assert snapshot.usage == ev.UsageCount(input_tokens=9)


def test_a_message_that_repeats_the_deltas_is_not_said_twice() -> None:
    whole = {"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}
    snapshot, _ = heard(delta(content="a"), delta(content="b"), {"choices": [whole]})
    assert snapshot.text == "ab"


@pytest.mark.parametrize("later", ["", None])
def test_a_later_reason_that_says_nothing_does_not_reset_the_first(later: str | None) -> None:
    _, finish = heard(delta(content="a"), delta("length"), delta(later))
    assert finish.finish_reason is FinishReason.LENGTH


def test_half_an_event_at_the_end_is_dropped_and_the_answer_broken_off() -> None:
    decoder = OpenAIChatDecoder()
    events = decoder.feed(frame(delta(content="a")) + b'data: {"choices":[{"delta":{"con')
    finish = decoder.finish(True)
    assert fold([*events, *finish.events]).text == "a"
    assert finish.error is not None
    assert finish.error.kind is ErrorKind.TRUNCATED


def test_a_call_is_announced_when_its_arguments_begin() -> None:
    def call(**function: str) -> bytes:
        return frame(delta(tool_calls=[{"index": 0, "id": "c", "function": function}]))

    decoder = OpenAIChatDecoder()
    assert decoder.feed(call(name="get_")) == []
    assert decoder.feed(call(name="time")) == []
    assert decoder.feed(call(arguments='{"a')) == [
        ev.ToolCallStarted(index=0, call_id="c", name="get_time"),
        ev.ToolCallDelta(index=0, delta='{"a'),
    ]
    assert decoder.feed(call(arguments='":1}')) == [ev.ToolCallDelta(index=0, delta='":1}')]


def test_ids_made_up_for_calls_differ_between_responses() -> None:
    call = frame(delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": "{}"}}]))
    ids = set()
    for response_id in ("r1", "r2"):
        decoder = OpenAIChatDecoder(response_id=response_id)
        (started, _) = decoder.feed(call)
        assert isinstance(started, ev.ToolCallStarted)
        ids.add(started.call_id)
    assert len(ids) == 2


def test_the_older_function_call_is_a_tool_call() -> None:
    snapshot, finish = heard(
        delta(function_call={"name": "now", "arguments": ""}),
        delta(function_call={"arguments": "{}"}),
        delta("function_call"),
    )
    assert [(c.name, c.arguments) for c in snapshot.tool_calls] == [("now", {})]
    assert finish.finish_reason is FinishReason.TOOL_CALLS


def test_half_an_emoji_waits_for_its_other_half_in_the_next_delta() -> None:
    decoder = OpenAIChatDecoder()
    first = decoder.feed(b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n')
    second = decoder.feed(b'data: {"choices":[{"delta":{"content":"\\ude00b"}}]}\n\n')
    assert [*first, *second] == [ev.TextDelta(delta="a"), ev.TextDelta(delta="😀b")]


def test_a_number_that_json_does_not_know_harms_nobody() -> None:
    snapshot, finish = heard(
        '{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"logprob":-Infinity}]}}]}',
        STOP,
    )
    assert snapshot.text == "a"
    assert finish.error is None


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": "none"},
        {"choices": [None]},
        {"choices": [{"delta": 5}]},
        {"choices": [{"delta": {"content": 5, "tool_calls": [3, {"function": 4}]}}]},
        {"usage": "much"},
        {"usage": {"prompt_tokens": None, "completion_tokens": "3", "prompt_tokens_details": 1}},
        {"prompt_progress": [1]},
        {"x_groq": 4},
        [],
        [1],
        3,
        "true",
        '"words"',
    ],
    ids=str,
)
def test_members_of_odd_type_harm_nobody(odd: object) -> None:
    snapshot, finish = heard(delta(content="a"), odd, delta(content="b"), STOP)
    assert snapshot.text == "ab"
    assert finish.error is None


def test_json_nested_without_end_fails_the_answer_and_not_the_worker() -> None:
    deep = '{"choices":' + "[" * 100_000
    _, finish = heard(deep)
    assert finish.error is not None
    assert finish.error.kind is ErrorKind.PROTOCOL


def test_an_event_without_end_fails_the_answer() -> None:
    decoder = OpenAIChatDecoder()
    text = decoder.feed(frame(delta(content="a")))
    for _ in range(MAX_EVENT_BYTES // 65536 + 1):
        decoder.feed(b"x" * 65536)
    finish = decoder.finish(True)
    assert text == [ev.TextDelta(delta="a")]
    assert finish.error is not None
    assert finish.error.kind is ErrorKind.PROTOCOL


def test_a_body_of_endless_lines_fails_the_answer() -> None:
    decoder = OpenAIChatDecoder()
    for _ in range(MAX_EVENT_BYTES // 65536 + 1):
        decoder.feed((b"x" * 1023 + b"\n") * 64)
    assert decoder.over
    error = decoder.finish(True).error
    assert error is not None
    assert error.kind is ErrorKind.PROTOCOL


def test_an_error_after_the_finish_reason_still_counts() -> None:
    _, finish = heard(delta(content="a"), STOP, {"error": {"code": 502, "message": "gone"}})
    assert finish.error is not None
    assert finish.error.kind is ErrorKind.SERVER_ERROR


def test_a_lost_connection_after_the_finish_reason_does_not() -> None:
    _, finish = heard(delta(content="a"), STOP, clean=False)
    assert (finish.error, finish.finish_reason) == (None, FinishReason.STOP)


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_an_abort_by_the_upstream_is_its_failure(reason: str) -> None:
    snapshot, finish = heard(delta(content="a"), delta(reason), "[DONE]")
    assert snapshot.text == "a"
    assert finish.error is not None
    assert finish.error.kind is ErrorKind.SERVER_ERROR


@pytest.mark.parametrize(
    "wire",
    [
        b'event: error\ndata: {"message":"boom","code":503}\n\n',
        b'event: error\ndata: {"choices":[{"delta":{"content":"x"}}],"code":503}\n\n',
        b'event: error\ndata: {"message":"half \\ud83d","code":503}\n\n',
        b'error: {"message":"boom","code":503}\n\n',
        b'error: {"error":{"message":"boom","code":503}}\n\n',
        b'data: {"object":"error","message":"boom","code":503}\n\n',
        b'data: {"choices":[{"delta":{},"error":{"message":"boom","code":503}}]}\n\n',
    ],
)
def test_wherever_an_error_stands_it_fails_the_answer(wire: bytes) -> None:
    decoder = OpenAIChatDecoder()
    decoder.feed(frame(delta(content="a")) + wire + frame(STOP))
    error = decoder.finish(True).error
    assert error is not None
    assert error.kind is ErrorKind.OVERLOADED


@pytest.mark.parametrize("line", ["error: null", "error: [DONE]", "error: words", "error:"])
def test_an_error_line_without_an_error_is_ignored(line: str) -> None:
    decoder = OpenAIChatDecoder()
    decoder.feed(f"{line}\n\n".encode())
    events = decoder.feed(frame(delta(content="a")) + frame(STOP))
    assert events == [ev.TextDelta(delta="a")]
    assert decoder.finish(True).error is None


def test_an_error_event_may_be_a_mere_sentence() -> None:
    decoder = OpenAIChatDecoder()
    decoder.feed(b"event: error\ndata: out of memory\n\n")
    error = decoder.finish(True).error
    assert error is not None
    assert (error.kind, error.message) == (ErrorKind.SERVER_ERROR, "out of memory")


def test_text_in_an_unknown_event_is_ignored() -> None:
    decoder = OpenAIChatDecoder()
    decoder.feed(b"event: hello\ndata: plain words\n\n" + frame(STOP))
    assert decoder.finish(True).error is None


def test_a_secret_in_a_providers_message_is_not_passed_on() -> None:
    _, finish = heard({"error": {"message": "key very-secret is wrong", "code": 401}})
    assert finish.error is not None
    assert finish.error.message == "key [hidden] is wrong"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}]', ErrorKind.RATE_LIMIT),
        (b'{"object":"error","message":"x","code":404}', ErrorKind.NOT_FOUND),
        (b'{"hello":"world"}', ErrorKind.PROTOCOL),
        (b"\xef\xbb\xbf[]", ErrorKind.PROTOCOL),
        (b"just words", ErrorKind.PROTOCOL),
        (b"\xff\xfe", ErrorKind.PROTOCOL),
        (b": a\n\nevent: ping\n\nid: 4\n\n", ErrorKind.EMPTY_RESPONSE),
        (b"\xef\xbb\xbf: a\n\n", ErrorKind.EMPTY_RESPONSE),
    ],
)
def test_an_answer_that_is_no_event_stream(body: bytes, kind: ErrorKind) -> None:
    decoder = OpenAIChatDecoder()
    decoder.feed(body)
    error = decoder.finish(True).error
    assert error is not None
    assert error.kind is kind


def test_a_whole_answer_with_calls_is_read_like_a_stream() -> None:
    message = {
        "role": "assistant",
        "content": "Let me see.",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"a":1}'}}],
    }
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    decoder = OpenAIChatDecoder()
    decoder.feed(json.dumps(body, indent=2).encode())
    finish = decoder.finish(True)
    snapshot = fold(finish.events)
    assert (snapshot.text, snapshot.reasoning) == ("Let me see.", "hm")
    assert snapshot.tool_calls[0].arguments == {"a": 1}
    assert (finish.error, finish.finish_reason) == (None, FinishReason.TOOL_CALLS)


def test_a_whole_answer_cut_in_the_middle_is_a_lost_connection() -> None:
    decoder = OpenAIChatDecoder()
    decoder.feed(b'{"choices":[{"message":{"content":"ab')
    error = decoder.finish(False).error
    assert error is not None
    assert error.kind is ErrorKind.CONNECTION


def test_mistrals_thinking_parts_are_reasoning() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    snapshot, _ = heard(delta(content=[thinking, {"type": "text", "text": "a"}]), STOP)
    assert (snapshot.reasoning, snapshot.text) == ("hm", "a")


def test_nothing_is_used_after_the_end() -> None:
    decoder = OpenAIChatDecoder()
    decoder.feed(frame(delta(content="a")) + frame(STOP) + b"data: [DONE]\n\n")
    assert decoder.over
    assert decoder.feed(frame(delta(content="b"))) == []


def test_the_registry_makes_decoders_that_know_their_request() -> None:
    dialect = DIALECTS["openai-chat"]
    assert dialect.path == "/chat/completions"
    decoder = dialect.decoder(Asked(request=REQUEST, model=MODEL))
    decoder.feed(frame({"error": {"message": f"bad key {MODEL.api_key}", "code": 401}}))
    error = decoder.finish(True).error
    assert error is not None
    assert "k-secret" not in error.message
