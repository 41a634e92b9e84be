"""Engines' answers beyond the corpus: what they send when they are odd, old or broken."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay import events as ev
from relay.dialects import DIALECTS, Asked, Finish, decoder_for
from relay.errors import ErrorKind
from relay.fold import Snapshot, fold
from relay.states import FinishReason
from relay.wire.detok import Vocabulary
from tests.relay.dialects.corpus import MODEL, REQUEST, chunks_of, load

if TYPE_CHECKING:
    from relay.dialects import Decoder

WORDS = Vocabulary(
    pieces={1: b"one", 2: b" two", 3: b" three", 4: b"\xf0\x9f", 5: b"\x98\x80"},
    special=frozenset({0}),
)
ENGINES = ("llamacpp", "vllm-tokens", "sglang-tokens")


def decoder(dialect: str, vocabulary: Vocabulary | None = WORDS) -> Decoder:
    asked = Asked(request=REQUEST, model=replace(MODEL, dialect=dialect), vocabulary=vocabulary)
    return decoder_for(DIALECTS[dialect], asked)


def frame(value: object) -> bytes:
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def heard(read: Decoder, *values: object, clean: bool = True) -> tuple[Snapshot, Finish]:
    events = [event for value in values for event in read.feed(frame(value))]
    finish = read.finish(clean)
    return fold(events + finish.events), finish


def kind(finish: Finish) -> ErrorKind:
    assert finish.error is not None
    return finish.error.kind


# -- llama.cpp ------------------------------------------------------------------------------------
def llama(content: str, predicted: int, **more: Any) -> dict[str, Any]:
    return {
        "index": 0,
        "content": content,
        "tokens": [7],
        "stop": False,
        "tokens_predicted": predicted,
        **more,
    }


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ({"stop_type": "eos"}, FinishReason.STOP),
        ({"stop_type": "word", "stopping_word": "#"}, FinishReason.STOP),
        ({"stop_type": "limit"}, FinishReason.LENGTH),
        ({"stop_type": "limit", "truncated": True}, FinishReason.LENGTH),
        ({"stop_type": "none"}, None),
        ({"stop_type": "none", "truncated": True}, FinishReason.LENGTH),
        ({"stop_type": "moon"}, FinishReason.OTHER),
        ({"stopped_eos": True, "stopped_limit": False}, FinishReason.STOP),
        ({"stopped_word": True}, FinishReason.STOP),
        ({"stopped_eos": False, "stopped_limit": True}, FinishReason.LENGTH),
    ],
)
def test_why_llamacpp_stopped(end: dict[str, Any], reason: FinishReason | None) -> None:
    read = decoder("llamacpp")
    snapshot, finish = heard(read, llama("a", 1), llama("", 1, **{"stop": True, **end}))
    assert (snapshot.text, finish.finish_reason, finish.error) == ("a", reason, None)


def test_llamacpps_last_event_is_the_end() -> None:
    read = decoder("llamacpp")
    read.feed(frame(llama("a", 1)))
    assert not read.finishing
    read.feed(frame(llama("", 1, stop=True, stop_type="eos")))
    assert (read.over, read.finishing) == (True, True)


def test_without_its_last_event_llamacpps_answer_broke_off() -> None:
    for clean, expected in ((True, ErrorKind.TRUNCATED), (False, ErrorKind.CONNECTION)):
        snapshot, finish = heard(decoder("llamacpp"), llama("a", 1), clean=clean)
        assert (snapshot.text, kind(finish)) == ("a", expected)
    assert kind(heard(decoder("llamacpp"))[1]) is ErrorKind.EMPTY_RESPONSE


def test_tokens_inside_a_character_are_counted_though_they_are_not_sent() -> None:
    read = decoder("llamacpp")
    progress = {"total": 9, "processed": 4}
    events = read.feed(frame(llama("", 0, tokens=[0], prompt_progress=progress)))
    assert [type(event) for event in events] == [ev.Notice]
    assert read.counted_output_ids == 0
    read.feed(frame(llama("🙂", 3)))
    assert read.counted_output_ids == 3


def test_a_progress_that_no_log_can_hold_is_not_told() -> None:
    read = decoder("llamacpp")
    progress = {"total": 10**30, "processed": -1}
    assert read.feed(frame(llama("", 0, prompt_progress=progress))) == []


def test_a_stop_in_mid_text_tells_what_llamacpp_counted_so_far() -> None:
    read = decoder("llamacpp")
    read.feed(frame(llama("a", 2, tokens_evaluated=12)))
    assert read.abandon() == [ev.Usage(input_tokens=12, output_tokens=2)]


def test_a_whole_answer_of_llamacpp_is_read_like_a_stream() -> None:
    read = decoder("llamacpp")
    body = llama("whole", 5, stop=True, stop_type="limit", tokens_evaluated=3)
    read.feed(json.dumps(body, indent=1).encode())
    finish = read.finish(True)
    assert fold(finish.events).text == "whole"
    assert (finish.error, finish.finish_reason) == (None, FinishReason.LENGTH)


def test_half_an_emoji_of_llamacpp_waits_for_its_other_half() -> None:
    read = decoder("llamacpp")
    wire = '{"content":"%s","tokens_predicted":1,"stop":false}'
    first = read.feed(frame(wire % "a\\ud83d"))
    second = read.feed(frame(wire % "\\ude00b"))
    assert first + second == [ev.TextDelta(delta="a"), ev.TextDelta(delta="😀b")]


# -- vLLM -----------------------------------------------------------------------------------------
def vllm(ids: object, reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "token_ids": ids, "finish_reason": reason, **more}]}


def test_ids_are_text_and_are_counted() -> None:
    read = decoder("vllm-tokens")
    snapshot, finish = heard(read, vllm([1, 4]), vllm([5]), vllm([0], "stop"), "[DONE]")
    assert (snapshot.text, finish.finish_reason) == ("one😀", FinishReason.STOP)
    assert read.counted_output_ids == 4


def test_text_beside_ids_is_not_used() -> None:
    read = decoder("vllm-tokens")
    snapshot, _ = heard(read, vllm([1], text="one"), vllm([], text="late"), vllm([2], "stop"))
    assert snapshot.text == "one two"


def test_a_vllm_that_sends_no_ids_is_read_by_its_text() -> None:
    read = decoder("vllm-tokens")
    snapshot, finish = heard(read, vllm(None, text="a"), vllm(None, "stop", text="b"), "[DONE]")
    assert (snapshot.text, finish.error, read.counted_output_ids) == ("ab", None, 0)


def test_ids_without_a_tokenizer_fail_the_answer_in_words() -> None:
    _, finish = heard(decoder("vllm-tokens", None), vllm([1]))
    assert kind(finish) is ErrorKind.PROTOCOL
    assert "no tokenizer" in str(finish.error)


@pytest.mark.parametrize("ids", [["1"], [1.5], [None], [True], [[1]]])
@pytest.mark.parametrize("dialect", ["vllm-tokens", "sglang-tokens"])
def test_what_is_no_id_fails_the_answer(dialect: str, ids: list[Any]) -> None:
    value = vllm(ids) if dialect == "vllm-tokens" else {"output_ids": ids}
    assert kind(heard(decoder(dialect), value)[1]) is ErrorKind.PROTOCOL


def test_only_the_first_choice_is_shown() -> None:
    other = {"choices": [{"index": 1, "token_ids": [2], "finish_reason": None}]}
    snapshot, _ = heard(decoder("vllm-tokens"), vllm([1]), other, vllm([3], "stop"))
    assert snapshot.text == "one three"


def test_usage_may_come_after_the_reason() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    snapshot, _ = heard(decoder("vllm-tokens"), vllm([1], "stop"), usage, "[DONE]")
    assert snapshot.usage is not None
    assert (snapshot.usage.input_tokens, snapshot.usage.output_tokens) == (3, 1)


def test_half_a_character_is_shown_as_such_when_a_stream_breaks_off() -> None:
    snapshot, finish = heard(decoder("vllm-tokens"), vllm([1, 4]), clean=False)
    assert (snapshot.text, kind(finish)) == ("one\ufffd", ErrorKind.CONNECTION)
    read = decoder("vllm-tokens")
    read.feed(frame(vllm([4])))
    assert read.abandon() == [ev.TextDelta(delta="\ufffd")]


def test_done_without_anything_is_an_empty_answer() -> None:
    for dialect in ("vllm-tokens", "sglang-tokens"):
        assert kind(heard(decoder(dialect), "[DONE]")[1]) is ErrorKind.EMPTY_RESPONSE


def test_done_ends_the_stream_but_only_a_finish_reason_the_answer() -> None:
    snapshot, finish = heard(decoder("vllm-tokens"), vllm([1]), "[DONE]", vllm([2]))
    assert (snapshot.text, kind(finish)) == ("one", ErrorKind.TRUNCATED)


def test_a_whole_answer_in_ids_is_read_like_a_stream() -> None:
    for dialect, body in (
        ("vllm-tokens", vllm([1, 2], "length")),
        (
            "sglang-tokens",
            {"output_ids": [1, 2], "meta_info": {"finish_reason": {"type": "length"}}},
        ),
    ):
        read = decoder(dialect)
        read.feed(json.dumps(body).encode())
        finish = read.finish(True)
        assert fold(finish.events).text == "one two"
        assert (finish.error, finish.finish_reason) == (None, FinishReason.LENGTH)


# -- SGLang ---------------------------------------------------------------------------------------
def sglang(ids: list[int], done: int | None, reason: object = None) -> dict[str, Any]:
    return {"output_ids": ids, "meta_info": {"completion_tokens": done, "finish_reason": reason}}


@pytest.mark.parametrize(
    "events",
    [
        [sglang([1], 1), sglang([1, 2], 2), sglang([1, 2], 2), sglang([1, 2, 3], 3)],
        [sglang([1], 1), sglang([1, 2], 2), sglang([1, 2, 3], 4), sglang([1, 2, 3], 5)],
        [sglang([1], 1), sglang([2], 2), sglang([], 2), sglang([3], 3)],
        [sglang([1, 2], 2), sglang([3], 3)],
        [sglang([1], None), sglang([2, 3], None)],
    ],
    ids=["all so far", "more counted", "the new ones", "two at first", "nothing to tell by"],
)
def test_sglangs_ids_are_all_so_far_or_the_new_ones(events: list[dict[str, Any]]) -> None:
    read = decoder("sglang-tokens")
    end = sglang([], None, {"type": "stop", "matched": 0})
    snapshot, finish = heard(read, *events, end, "[DONE]")
    assert (snapshot.text, finish.finish_reason) == ("one two three", FinishReason.STOP)
    assert read.counted_output_ids == 3


def test_an_sglang_that_answers_in_text_is_told_how_to_start() -> None:
    text_only = {"text": "words", "meta_info": {"completion_tokens": 1, "finish_reason": None}}
    _, finish = heard(decoder("sglang-tokens"), text_only)
    assert kind(finish) is ErrorKind.PROTOCOL
    assert "--skip-tokenizer-init" in str(finish.error)


def test_an_abort_of_sglang_without_a_reason_is_its_failure() -> None:
    snapshot, finish = heard(decoder("sglang-tokens"), sglang([1], 1, {"type": "abort"}))
    assert (snapshot.text, kind(finish)) == ("one", ErrorKind.SERVER_ERROR)


def test_what_sglang_says_of_an_abort_is_passed_on_without_the_key() -> None:
    reason = {"type": "abort", "message": f"bad {MODEL.api_key}", "status_code": 429}
    _, finish = heard(decoder("sglang-tokens"), sglang([1], 1, reason))
    assert (kind(finish), str(finish.error)) == (ErrorKind.RATE_LIMIT, "bad [hidden]")


# -- all ------------------------------------------------------------------------------------------
PIECES = [chunk for case in load(*ENGINES) for chunk in chunks_of(case)]
KEYS = [
    "choices",
    "index",
    "token_ids",
    "finish_reason",
    "usage",
    "output_ids",
    "meta_info",
    "content",
    "stop",
    "tokens",
    "text",
    "type",
    "tokens_predicted",
    "completion_tokens",
    "prompt_progress",
    "processed",
    "total",
    "error",
    "stop_type",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("dialect", ENGINES)
@given(st.lists(st.binary(max_size=30) | st.sampled_from(PIECES) | JSON.map(frame), max_size=8))
def test_whatever_comes_a_decoder_never_raises(dialect: str, pieces: list[bytes]) -> None:
    read = decoder(dialect)
    events = [event for piece in pieces for event in read.feed(piece)]
    finish = read.finish(True)
    assert finish.error is not None or read.over
    for event in [*events, *finish.events]:
        ev.encode_event(event, 1)


@pytest.mark.parametrize("dialect", ENGINES)
def test_an_error_in_the_middle_fails_the_answer(dialect: str) -> None:
    begun: dict[str, object] = {
        "llamacpp": llama("one", 1),
        "vllm-tokens": vllm([1]),
        "sglang-tokens": sglang([1], 1),
    }
    error = {"error": {"code": 503, "message": "out of memory", "type": "unavailable_error"}}
    snapshot, finish = heard(decoder(dialect), begun[dialect], error, "[DONE]")
    assert (snapshot.text, kind(finish)) == ("one", ErrorKind.OVERLOADED)
