"""Reasoning is what stands between tags at the very start, however the text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.wire.think_tags import MAX_SPACE_CHARS, ThinkTagSplitter

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
    assert split([" \nhm</think>So."], starts_inside=True) == (" \nhm", "So.")


@pytest.mark.parametrize("whole", ["<think>hm</think>So.", "\n<think>hm</think>So."])
def test_a_thought_that_is_opened_twice_is_opened_once(whole: str) -> None:
    for at in range(len(whole)):
        assert split([whole[:at], whole[at:]], starts_inside=True) == ("hm", "So.")


def test_half_a_tag_at_the_end_of_a_thought_that_the_prompt_began_is_thought() -> None:
    assert split(["<thi"], starts_inside=True) == ("<thi", "")


def test_an_answer_of_white_space_is_not_held_for_ever() -> None:
    splitter = ThinkTagSplitter(*TAGS)
    shown = "".join("".join(splitter.feed(" " * 100)) for _ in range(100))
    assert len(shown) > 10_000 - 2 * MAX_SPACE_CHARS
    assert splitter.feed("<think>") == ("", "<think>")


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
