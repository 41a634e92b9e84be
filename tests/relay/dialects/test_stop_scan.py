"""Stop strings in front of any dialect: an answer that matched has ended, whatever follows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay import events as ev
from relay.dialects import DIALECTS, Asked, Finish, decoder_for
from relay.errors import ErrorKind
from relay.fold import Snapshot, fold
from relay.states import FinishReason
from tests.relay.dialects.corpus import MODEL, REQUEST

if TYPE_CHECKING:
    from relay.config import ModelConfig
    from relay.dialects.dialect import Decoder


def decoder(*stops: str, model: ModelConfig = MODEL) -> Decoder:
    request = msgspec.structs.replace(REQUEST, stop=list(stops))
    return decoder_for(DIALECTS[model.dialect], Asked(request=request, model=model))


def frame(value: object, end: str = "\n\n") -> bytes:
    data = value if isinstance(value, str) else json.dumps(value)
    return f"data: {data}{end}".encode()


def delta(finish_reason: str | None = None, **members: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": finish_reason}]}


def text(content: str, usage: int | None = None) -> dict[str, Any]:
    chunk = delta(content=content)
    return chunk if usage is None else {**chunk, "usage": {"completion_tokens": usage}}


def heard(data: bytes, *stops: str, clean: bool = True, size: int = 0) -> tuple[Snapshot, Finish]:
    read = decoder(*stops)
    pieces = [data] if not size else [data[at : at + size] for at in range(0, len(data), size)]
    events = []
    for piece in pieces:
        events += read.feed(piece)
        if read.over:
            break
    finish = read.finish(clean)
    return fold(events + finish.events), finish


def both_ways(data: bytes, *stops: str, clean: bool = True) -> tuple[Snapshot, Finish]:
    """Whole and byte by byte, which must not differ."""
    whole, finish = heard(data, *stops, clean=clean)
    bytewise, other = heard(data, *stops, clean=clean, size=1)
    assert (whole, finish.finish_reason) == (bytewise, other.finish_reason)
    assert str(finish.error) == str(other.error)
    return whole, finish


def test_the_answer_ends_before_the_stop_string() -> None:
    data = frame(text("one #")) + frame(text("## two")) + frame(delta("length")) + frame("[DONE]")
    snapshot, finish = both_ways(data, "###")
    assert (snapshot.text, finish.finish_reason, finish.error) == (
        "one ",
        FinishReason.STOP,
        None,
    )


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r", "\n\r\n"])
def test_what_shares_a_read_with_the_match_counts_as_little_as_what_comes_later(end: str) -> None:
    chunks = [text("a", 1), text("#", 2), text("b", 3), delta(usage={"completion_tokens": 9})]
    error = {"error": {"message": "gone", "code": 500}}
    data = b"".join(frame(chunk, end) for chunk in [*chunks, error])
    snapshot, finish = both_ways(data, "#")
    assert (snapshot.text, finish.error) == ("a", None)
    assert snapshot.usage is not None
    assert snapshot.usage.output_tokens == 2


def test_a_match_needs_no_end_from_the_upstream() -> None:
    snapshot, finish = both_ways(frame(text("a#b")), "#", clean=False)
    assert (snapshot.text, finish.finish_reason, finish.error) == ("a", FinishReason.STOP, None)


def test_a_match_in_an_event_without_its_blank_line_counts() -> None:
    snapshot, finish = both_ways(frame(text("a#b"), end=""), "#")
    assert (snapshot.text, finish.finish_reason, finish.error) == ("a", FinishReason.STOP, None)


def test_a_match_in_an_answer_that_was_not_streamed_counts() -> None:
    message = {"content": "a#b", "tool_calls": None}
    body = {"choices": [{"message": message, "finish_reason": "length"}]}
    snapshot, finish = both_ways(json.dumps(body).encode(), "#")
    assert (snapshot.text, finish.finish_reason) == ("a", FinishReason.STOP)


@pytest.mark.parametrize("clean", [True, False])
def test_without_a_match_the_held_text_and_the_upstreams_end_stand(clean: bool) -> None:
    snapshot, finish = both_ways(frame(text("one ##")), "###", clean=clean)
    assert snapshot.text == "one ##"
    assert finish.error is not None
    assert finish.error.kind is (ErrorKind.TRUNCATED if clean else ErrorKind.CONNECTION)


def test_held_text_is_shown_before_what_the_end_tells() -> None:
    read = decoder("##")
    assert read.feed(frame(text("a#", usage=3))) == [ev.TextDelta(delta="a")]
    held, usage = read.finish(True).events
    assert held == ev.TextDelta(delta="#")
    assert isinstance(usage, ev.Usage)


def test_a_person_who_stops_sees_what_was_held() -> None:
    read = decoder("##")
    assert read.feed(frame(text("a#"))) == [ev.TextDelta(delta="a")]
    assert read.abandon() == [ev.TextDelta(delta="#")]


def test_after_a_match_an_abandoned_answer_tells_its_usage_once() -> None:
    read = decoder("#")
    read.feed(frame(text("a#b", usage=4)))
    (usage,) = read.abandon()
    assert isinstance(usage, ev.Usage)
    assert read.abandon() == []
    assert read.feed(frame(text("more"))) == []


def test_a_call_that_was_begun_is_not_left_open() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a'}}
    data = frame(delta(tool_calls=[call])) + frame(text("a#b"))
    snapshot, finish = both_ways(data, "#")
    assert [call.error for call in snapshot.tool_calls] == ["unclosed"]
    assert (snapshot.text, finish.finish_reason) == ("a", FinishReason.STOP)


def test_reasoning_is_not_looked_at() -> None:
    data = frame(delta(reasoning_content="a # b")) + frame(text("c # d"))
    snapshot, _ = both_ways(data, "#")
    assert (snapshot.reasoning, snapshot.text) == ("a # b", "c ")


def test_nor_is_reasoning_between_tags() -> None:
    model = replace(MODEL, think_tags=("<t>", "</t>"))
    read = decoder("#", model=model)
    events = read.feed(frame(text("<t>a # b</t>c # d")))
    snapshot = fold(events + read.finish(True).events)
    assert (snapshot.reasoning, snapshot.text) == ("a # b", "c ")


def test_a_stop_string_does_not_span_two_parts() -> None:
    def anthropic(index: int, words: str) -> bytes:
        block = {"type": "content_block_start", "index": index}
        block["content_block"] = {"type": "text", "text": ""}
        said = {"type": "content_block_delta", "index": index}
        said["delta"] = {"type": "text_delta", "text": words}
        return b"".join(f"event: {e['type']}\n".encode() + frame(e) for e in (block, said))

    model = replace(MODEL, dialect="anthropic")
    read = decoder("##", model=model)
    events = read.feed(anthropic(0, "a#") + anthropic(1, "#b") + anthropic(1, "##c"))
    assert [event for event in events if isinstance(event, ev.TextDelta)] == [
        ev.TextDelta(delta="a", part=0),
        ev.TextDelta(delta="#", part=0),
        ev.TextDelta(delta="#b", part=1),
    ]
    assert read.over


@given(
    st.lists(st.text(alphabet="ab#", max_size=4), max_size=8),
    st.lists(st.text(alphabet="ab#", min_size=1, max_size=3), min_size=1, max_size=3),
    st.lists(st.integers(0, 900), max_size=5),
)
def test_no_cut_of_the_bytes_changes_anything(
    words: list[str], stops: list[str], cuts: list[int]
) -> None:
    chunks = [text(word, usage) for usage, word in enumerate(words, 1)]
    data = b"".join(frame(chunk) for chunk in [*chunks, delta("stop"), "[DONE]"])
    expected, finish = heard(data, *stops)
    at = sorted(min(cut, len(data)) for cut in cuts)
    read = decoder(*stops)
    events = []
    for start, end in zip([0, *at], [*at, len(data)], strict=True):
        events += read.feed(data[start:end])
    other = read.finish(True)
    assert fold(events + other.events) == expected
    assert other.finish_reason == finish.finish_reason
