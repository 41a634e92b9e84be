"""Reasoning is what stands between tags at the very start, however the text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.wire.think_tags import ThinkTagSplitter

TAGS = ("<think>", "</think>")


def split(pieces: list[str], *, starts_inside: bool = False) -> tuple[str, str]:
    splitter = ThinkTagSplitter(*TAGS, starts_inside=starts_inside)
    out = [*map(splitter.feed, pieces), splitter.finish()]
    return "".join(thought for thought, _ in out), "".join(text for _, text in out)


@pytest.mark.parametrize(
    ("whole", "expected"),
    [
        ("<think>hm</think>So.", ("hm", "So.")),
        (" \n<think>hm</think>\n\nSo.", ("hm", "\n\nSo.")),
        ("<think></think>", ("", "")),
        ("<think>hm", ("hm", "")),
        ("<think>a</thin", ("a</thin", "")),
        ("<think>a</think>b</think>c", ("a", "b</think>c")),
        ("A <think> tag</think>", ("", "A <think> tag</think>")),
        ("<thin", ("", "<thin")),
        ("  \n", ("", "  \n")),
        ("<thinker>x", ("", "<thinker>x")),
        ("", ("", "")),
    ],
)
def test_each_text_is_split_the_same_at_every_place(whole: str, expected: tuple[str, str]) -> None:
    assert split([whole]) == expected
    assert split(list(whole)) == expected
    for at in range(len(whole)):
        assert split([whole[:at], whole[at:]]) == expected


def test_a_thought_that_the_prompt_began_needs_no_opening_tag() -> None:
    assert split(["hm</thi", "nk>So."], starts_inside=True) == ("hm", "So.")
    assert split(["hm"], starts_inside=True) == ("hm", "")


def test_what_can_be_no_tag_any_more_leaves_at_once() -> None:
    splitter = ThinkTagSplitter(*TAGS)
    assert splitter.feed("<") == ("", "")
    assert splitter.feed("b>") == ("", "<b>")
    assert splitter.feed("<think>") == ("", "<think>")


@given(st.lists(st.sampled_from(["<", "think>", "</", "a", " ", "<think>", "</think>"])))
def test_nothing_but_the_first_tags_and_space_before_them_is_lost(pieces: list[str]) -> None:
    whole = "".join(pieces)
    thought, text = split(pieces)
    if whole.lstrip().startswith("<think>"):
        inner = whole.lstrip()[len("<think>") :]
        assert (thought, text) == inner.partition("</think>")[::2]
    else:
        assert (thought, text) == ("", whole)
