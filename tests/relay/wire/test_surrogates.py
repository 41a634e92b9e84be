"""Halves of characters never leave, however the text around them is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.wire.surrogates import SurrogateJoiner, joined, sanitized

HIGH, LOW = "\ud83d", "\ude00"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("plain ü 你", "plain ü 你"),
        (HIGH + LOW, "😀"),
        (f"a{HIGH}b", "a\ufffdb"),
        (f"a{LOW}b", "a\ufffdb"),
        (HIGH + HIGH + LOW, "\ufffd😀"),
        (LOW + HIGH, "\ufffd\ufffd"),
        ("\x00\ufeff", "\x00\ufeff"),
    ],
)
def test_pairs_are_joined_and_lone_halves_replaced(text: str, whole: str) -> None:
    assert joined(text) == whole


@given(st.lists(st.text(st.sampled_from(["a", "ü", "😀", HIGH, LOW]), max_size=4), max_size=6))
def test_it_does_not_matter_where_text_is_cut(parts: list[str]) -> None:
    joiner = SurrogateJoiner()
    got = [joiner.feed(part) for part in parts] + [joiner.finish()]
    assert "".join(got) == joined("".join(parts))
    assert all(part.encode() is not None for part in got)


def test_values_are_made_clean_to_their_depth() -> None:
    value = {f"k{HIGH}": [f"{HIGH}{LOW}", {"x": LOW}, 1, None, True]}
    assert sanitized(value) == {"k\ufffd": ["😀", {"x": "\ufffd"}, 1, None, True]}
