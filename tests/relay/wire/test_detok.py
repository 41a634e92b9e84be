"""Ids to text: whatever the cut, the same as all the bytes at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.wire.detok import Detokenizer, Utf8Stream, Vocabulary

BYTES = Vocabulary(pieces={n: bytes([n]) for n in range(256)})
NASTY = [
    b"\xe2\x82",  # two thirds of a euro sign
    b"\xf0\x9f\x98",  # three quarters of an emoji
    b"\xed\xa0\x80",  # a surrogate, which UTF-8 must not carry
    b"\xc0\xaf",  # an overlong slash
    b"\xf5\x80\x80\x80",  # beyond the last character
    b"\xf0\x80\x80\x80",
    b"\x80",
    b"\xff",
    "é".encode(),
    "👩‍💻".encode(),
    "🇩🇪".encode(),
    "你好".encode(),
    b"\xef\xbb\xbf",  # a byte order mark in mid-text is a character like others
    b"ok \n",
    b" ",
    b"  two",
]
pieces = st.lists(st.one_of(st.binary(max_size=4), st.sampled_from(NASTY)), max_size=30)


def heard(vocabulary: Vocabulary, *groups: list[int]) -> str:
    decoder = Detokenizer(vocabulary)
    return "".join(decoder.feed(ids) for ids in groups) + decoder.finish()


@given(pieces)
def test_pieces_one_by_one_are_the_text_of_all_bytes(given_pieces: list[bytes]) -> None:
    vocabulary = Vocabulary(pieces=dict(enumerate(given_pieces)))
    text = heard(vocabulary, *([n] for n in range(len(given_pieces))))
    assert text == b"".join(given_pieces).decode("utf-8", "replace")


@given(st.binary(max_size=40), st.data())
def test_raw_bytes_cut_anywhere_are_the_same_text(data: bytes, draw: st.DataObject) -> None:
    cuts = draw.draw(st.lists(st.integers(0, len(data)), max_size=6).map(sorted))
    stream = Utf8Stream()
    parts = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    text = "".join(stream.feed(part) for part in parts) + stream.finish()
    assert text == data.decode("utf-8", "replace")


@given(st.lists(st.sampled_from(NASTY), max_size=20).map(b"".join))
def test_plain_byte_tokens_are_the_text_of_their_bytes(data: bytes) -> None:
    assert heard(BYTES, *([n] for n in data)) == data.decode("utf-8", "replace")


@given(pieces, st.booleans())
def test_only_the_first_space_of_a_sentencepiece_text_is_dropped(
    given_pieces: list[bytes], special_first: bool
) -> None:
    vocabulary = Vocabulary(
        pieces={**dict(enumerate(given_pieces)), 99: b"<s>"},
        special=frozenset({99}),
        leading_space=True,
    )
    ids = [*([99] if special_first else []), *range(len(given_pieces))]
    whole = b"".join(given_pieces).removeprefix(b" ").decode("utf-8", "replace")
    assert heard(vocabulary, *([n] for n in ids)) == heard(vocabulary, ids) == whole


def test_a_character_waits_for_its_last_byte_and_not_longer() -> None:
    decoder = Detokenizer(BYTES)
    assert [decoder.feed([n]) for n in "a😀b".encode()] == ["a", "", "", "", "😀", "b"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"x\xe2\x82y", "x\ufffdy"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"\xf1\x80\x80\xe1\x80\xc2", "\ufffd\ufffd\ufffd"),
        (b"\xc0\xaf\x80", "\ufffd\ufffd\ufffd"),
    ],
)
def test_what_is_no_character_is_one_replacement_per_maximal_subpart(
    data: bytes, text: str
) -> None:
    assert heard(BYTES, *([n] for n in data)) == text


def test_half_a_character_is_not_completed_across_what_is_whole() -> None:
    decoder = Detokenizer(Vocabulary(pieces={0: b"\xf0\x9f", 1: b"!", 2: b"\x98\x80"}))
    shown = [decoder.feed([n]) for n in (0, 1, 2)]
    assert (shown, decoder.finish()) == (["", "\ufffd!", "\ufffd\ufffd"], "")


def test_special_ids_print_nothing_and_are_counted() -> None:
    vocabulary = Vocabulary(pieces={0: b"a", 2: b"</s>"}, special=frozenset({2, 3}))
    decoder = Detokenizer(vocabulary)
    assert decoder.feed([2, 0, 3, 0, 2]) + decoder.finish() == "aa"
    assert decoder.count == 5


def test_special_ids_inside_a_character_do_not_break_it() -> None:
    vocabulary = Vocabulary(pieces={0: b"\xf0\x9f", 1: b"\x98\x80"}, special=frozenset({9}))
    assert heard(vocabulary, [0], [9], [1]) == "😀"


def test_an_unknown_id_is_seen_and_harms_nothing_else() -> None:
    assert heard(Vocabulary(pieces={0: b"a"}), [0], [7], [0]) == "a\ufffda"


def test_text_that_looks_like_a_special_token_is_text() -> None:
    vocabulary = Vocabulary(
        pieces={0: b"<|im", 1: b"_end|>", 2: b"<|im_end|>"}, special=frozenset({2})
    )
    assert heard(vocabulary, [0, 1], [2]) == "<|im_end|>"


def test_the_decoder_keeps_no_more_than_a_character() -> None:
    # What it keeps is what a token can cost: 32,000 tokens later it is still three bytes at most.
    decoder = Detokenizer(BYTES)
    for n in "😀é".encode() * 5_000:
        decoder.feed([n])
        state, _ = decoder._text._decoder.getstate()
        assert len(state) <= 3
