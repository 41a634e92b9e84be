"""Stop strings, against the slow and obvious way of finding them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.wire.stops import StopScanner


def oracle(text: str, stops: list[str]) -> tuple[str, str | None]:
    """Earliest end, then the longest: every prefix of the text, one after the other."""
    for end in range(len(text) + 1):
        ending = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if ending:
            longest = max(ending, key=len)
            return text[: end - len(longest)], longest
    return text, None


def scanned(pieces: list[str], stops: list[str]) -> tuple[str, str | None]:
    scanner = StopScanner(stops)
    shown = "".join(scanner.feed(piece) for piece in pieces)
    return shown + scanner.finish(), scanner.match


few = st.text(alphabet="ab\n😀", max_size=40)
stop_lists = st.lists(st.text(alphabet="ab\n😀", max_size=5), max_size=5)


@given(few, stop_lists, st.data())
def test_the_scanner_agrees_with_the_obvious_way_however_the_text_is_cut(
    text: str, stops: list[str], draw: st.DataObject
) -> None:
    expected = oracle(text, stops)
    cuts = draw.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert scanned([text], stops) == expected
    assert scanned(list(text), stops) == expected
    assert scanned(pieces, stops) == expected


@given(few, stop_lists)
def test_nothing_is_held_that_cannot_become_a_stop_string(text: str, stops: list[str]) -> None:
    scanner = StopScanner(stops)
    shown = ""
    for at, char in enumerate(text, start=1):
        shown += scanner.feed(char)
        if scanner.match is not None:
            break
        held = text[len(shown) : at]
        assert text[:at] == shown + held
        assert not held or any(stop.startswith(held) for stop in stops)
        # Nor is less held than could: any longer ending of the text is no beginning.
        for longer in range(len(held) + 1, at + 1):
            ending = text[at - longer : at]
            assert not any(stop.startswith(ending) for stop in stops if stop != ending)


@pytest.mark.parametrize(
    ("text", "stops", "shown", "match"),
    [
        ("aaab", ["aab"], "a", "aab"),
        ("ababac", ["abac"], "ab", "abac"),
        ("the END", ["ND", "END"], "the ", "END"),
        ("the END", ["END", "ND"], "the ", "END"),
        ("Q\n\n### x", ["\n\n###", "\n\n"], "Q", "\n\n"),
        ("abcd", ["abcde", "bc"], "a", "bc"),
        ("x <|eoster|>", ["<|eos|>"], "x <|eoster|>", None),
        ("はい。いいえ", ["。"], "はい", "。"),
        ("STOP", ["STOP"], "", "STOP"),
        ("a-b]c^d\\e", ["]", "-", "^", "\\"], "a", "-"),
        ("anything", [], "anything", None),
        ("anything", [""], "anything", None),
    ],
)
def test_known_cases(text: str, stops: list[str], shown: str, match: str | None) -> None:
    assert scanned([text], stops) == scanned(list(text), stops) == (shown, match)


def test_a_beginning_is_released_the_moment_it_is_none() -> None:
    scanner = StopScanner(["<|eos|>"])
    shown = [scanner.feed(piece) for piece in ("x ", "<|eo", "s", "ter", "|>")]
    assert shown == ["x ", "", "", "<|eoster", "|>"]


def test_what_was_held_is_released_at_the_end() -> None:
    scanner = StopScanner(["###"])
    assert (scanner.feed("one ##"), scanner.finish(), scanner.match) == ("one ", "##", None)


def test_after_a_match_nothing_is_shown() -> None:
    scanner = StopScanner(["#"])
    assert scanner.feed("one # two") == "one "
    assert (scanner.feed("more"), scanner.finish()) == ("", "")


def test_many_stop_strings_hold_no_more_than_the_longest_beginning() -> None:
    stops = ["a" * n + "b" for n in range(1, 200)]
    scanner = StopScanner(stops)
    shown = "".join(scanner.feed("a") for _ in range(10_000))
    assert len(shown) == 10_000 - 199
    assert scanner.feed("b") == ""
    assert scanner.match == "a" * 199 + "b"
