"""The event stream, against the vectors of the corpus and under every way of cutting it."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.wire.sse import EventTooLarge, Frame, SseDecoder, encode_frame

FIXTURES = Path(__file__).parents[2] / "fixtures"
VECTORS = [
    vector
    for corpus in ("corpus", "corpus_more")
    for vector in json.loads((FIXTURES / corpus / "sse_vectors.json").read_text())["vectors"]
]

vector = pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])


def wire(vector: dict[str, Any]) -> bytes:
    return b"".join(base64.b64decode(chunk) for chunk in vector["chunks"])


def expected(vector: dict[str, Any]) -> list[tuple[str, str, str, int | None]]:
    return [(e["event"], e["data"], e["lastEventId"], e["retry"]) for e in vector["events"]]


def decoded(chunks: list[bytes]) -> list[tuple[str, str, str, int | None]]:
    decoder = SseDecoder()
    return [
        (frame.event or "message", frame.data, frame.id, frame.retry_ms)
        for chunk in chunks
        for frame in decoder.feed(chunk)
    ]


def random_cuts(data: bytes, rng: random.Random) -> list[bytes]:
    at = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(1, 12)))
    return [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)]


@vector
def test_a_vector_as_recorded(vector: dict[str, Any]) -> None:
    assert decoded([base64.b64decode(chunk) for chunk in vector["chunks"]]) == expected(vector)


@vector
def test_a_vector_whole_and_byte_by_byte(vector: dict[str, Any]) -> None:
    data = wire(vector)
    assert decoded([data]) == expected(vector)
    assert decoded([data[i : i + 1] for i in range(len(data))]) == expected(vector)


@vector
def test_a_vector_cut_at_every_single_point(vector: dict[str, Any]) -> None:
    data = wire(vector)
    for at in range(len(data)):
        assert decoded([data[:at], data[at:]]) == expected(vector), at


@vector
def test_a_vector_in_random_pieces(vector: dict[str, Any]) -> None:
    data, rng = wire(vector), random.Random(vector["name"])
    for _ in range(50):
        chunks = random_cuts(data, rng)
        assert decoded(chunks) == expected(vector), chunks


@vector
def test_what_comes_after_a_clean_end_is_read_as_if_it_came_first(vector: dict[str, Any]) -> None:
    """The fast path must see nothing of what a slow beginning left behind, and the reverse."""
    later = b"data: tail\n\n"
    got = decoded([b"data: head\n\n", b"data: more\n\n", wire(vector), b"\n\n", later])
    assert got[:2] == [("message", "head", "", None), ("message", "more", "", None)]
    assert got[-1][:2] == ("message", "tail")


# -- one meaning for both paths -----------------------------------------------------------------
PIECES = [
    *(b"data: a\n\n", b"data: \xf0\x9f\x98\x80\n\n", b"data:b\n", b"data: x\rdata: y\n\n"),
    *(b"id: 7\n", b"event: e\n", b"retry: 5\n", b": c\n", b"error: {}\n", b"data: \xff\n\n"),
    *(b"data", b":", b" ", b"\n", b"\r", b"\r\n", b"\0", b"\xef\xbb\xbf"),
]
pieces = st.lists(st.sampled_from(PIECES), max_size=14)


def by_the_book(data: bytes) -> list[tuple[str, str, str, int | None]]:
    """WHATWG 9.2.6 once more, on whole text, as literally as it can be written."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]
    events: list[tuple[str, str, str, int | None]] = []
    buffer, kind, last_id = "", "", ""
    retry: int | None = None
    for line in lines:
        name, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if buffer:
                events.append((kind or "message", buffer[:-1], last_id, retry))
            buffer, kind = "", ""
        elif colon and not name:
            pass
        elif name == "data":
            buffer += value + "\n"
        elif name == "event":
            kind = value
        elif name == "id" and "\0" not in value:
            last_id = value
        elif name == "retry" and value and all(c in "0123456789" for c in value):
            retry = int(value)
    return events


@given(pieces, st.randoms(use_true_random=False))
def test_any_stream_means_what_the_book_says_however_it_is_cut(
    parts: list[bytes], rng: random.Random
) -> None:
    data = b"".join(parts)
    assert decoded(parts) == by_the_book(data)
    assert decoded([b"\n", *parts]) == by_the_book(b"\n" + data)  # from the first byte on fast
    assert decoded(random_cuts(data, rng)) == by_the_book(data)


@given(st.binary(max_size=60), st.randoms(use_true_random=False))
def test_any_bytes_mean_the_same_however_they_are_cut(data: bytes, rng: random.Random) -> None:
    assert decoded(random_cuts(data, rng)) == by_the_book(data)


# -- the end, the extra fields, the bound -------------------------------------------------------
@pytest.mark.parametrize(
    ("rest", "data"),
    [(b"data: [DONE]", "[DONE]"), (b"data: b\n", "b"), (b"data: b\ndata: c", "b\nc")],
)
def test_finish_hands_over_the_event_that_lacked_its_blank_line(rest: bytes, data: str) -> None:
    decoder = SseDecoder()
    assert len(decoder.feed(b"data: a\n\n" + rest)) == 1
    assert [frame.data for frame in decoder.finish()] == [data]
    assert decoder.finish() == []


def test_finish_has_nothing_when_the_last_event_was_ended() -> None:
    decoder = SseDecoder()
    decoder.feed(b"data: a\n\n: comment")
    assert decoder.finish() == []


def test_a_line_of_an_extra_field_is_a_frame_of_its_own() -> None:
    decoder = SseDecoder(extra_fields=frozenset({b"error"}))
    frames = decoder.feed(b'data: a\n\nerror: {"code":500}\n\ndata: b\n\nerror: late')
    assert [(f.field, f.data) for f in frames] == [("", "a"), ("error", '{"code":500}'), ("", "b")]
    assert [(f.field, f.data) for f in decoder.finish()] == [("error", "late")]


def test_without_being_asked_the_extra_field_is_ignored() -> None:
    assert SseDecoder().feed(b"error: {}\n\n") == []


@pytest.mark.parametrize("chunk", [b"x" * 50, b"data: " + b"x" * 20 + b"\n", b"data\n" * 10])
def test_an_event_that_never_ends_is_refused(chunk: bytes) -> None:
    decoder = SseDecoder(max_event_bytes=1000)
    decoder.feed(chunk)
    with pytest.raises(EventTooLarge, match="1000 bytes"):
        all(decoder.feed(chunk) == [] for _ in range(1000))


def test_the_frames_before_a_refused_event_are_not_lost() -> None:
    with pytest.raises(EventTooLarge) as refused:
        SseDecoder(max_event_bytes=10).feed(b"data: a\n\ndata: " + b"x" * 20)
    assert [frame.data for frame in refused.value.frames] == ["a"]


def test_finished_events_do_not_count_against_the_bound() -> None:
    decoder = SseDecoder(max_event_bytes=100)
    for _ in range(50):
        assert len(decoder.feed(b"data: 1\nda")) == 0
        assert len(decoder.feed(b"ta: 2\n\ndata: 3\n\n")) == 2


# -- the encoder --------------------------------------------------------------------------------
def test_the_shape_of_a_frame() -> None:
    frame = Frame('{"a":1}', event="text.delta", id="7", retry_ms=2000)
    assert encode_frame(frame) == b'retry: 2000\nid: 7\nevent: text.delta\ndata: {"a":1}\n\n'


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b", "\n"])
def test_an_id_or_event_cannot_forge_a_field(bad: str) -> None:
    with pytest.raises(ValueError, match="id must not"):
        encode_frame(Frame("x", id=bad))
    with pytest.raises(ValueError, match="event must not"):
        encode_frame(Frame("x", event=bad))


line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), max_size=8)
block = st.text(st.characters(exclude_categories=["Cs"]) | st.just("\n"), max_size=12)


@given(st.lists(st.tuples(block, line, line), max_size=5), st.randoms(use_true_random=False))
def test_what_is_encoded_is_decoded_again(
    frames: list[tuple[str, str, str]], rng: random.Random
) -> None:
    data = b"".join(encode_frame(Frame(d, event=e, id=i)) for d, e, i in frames)
    got = [(d, e, i) for e, d, i, _ in decoded(random_cuts(data, rng))]
    assert got == [(as_carried(d), e or "message", i) for d, e, i in with_last_ids(frames)]


def as_carried(data: str) -> str:
    return data.replace("\r\n", "\n").replace("\r", "\n")


def with_last_ids(frames: list[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    last = ""
    for data, event, id_ in frames:
        last = id_ or last
        yield data, event, last


@pytest.mark.parametrize(
    "data",
    [
        b"event: delta\ndata: a\n\n",
        b"event: delta\ndata: a\n\nevent: delta\ndata: b\n\n",
        b"event: delta\ndata: a\nid: 7\n\n",
        b"event: delta\ndata: a\ndata: b\n\n",
        b"event: delta\n\ndata: a\n\n",
        b"event: delta\nevent: other\ndata: a\n\n",
        b"event: \ndata: a\n\n",
        b"event: delta\ndata: \n\n",
        b"event: d\xc3\xa9\xff\ndata: \xe2\x82\n\n",
        b"data: a\n\nevent: delta\ndata: b\n\ndata: c\n\n",
    ],
)
def test_what_is_taken_in_a_short_way_is_what_the_long_way_makes_of_it(data: bytes) -> None:
    short, long = SseDecoder(), SseDecoder()
    before = b"data: before\n\n"
    assert short.feed(before) == long.feed(before)
    bytewise = [frame for byte in data for frame in long.feed(bytes([byte]))]
    assert short.feed(data) == bytewise
    assert bytewise
