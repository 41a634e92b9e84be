"""Fragments to calls, and text to arguments."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay import events as ev
from relay.dialects.tool_arguments import MAX_DEPTH, BadArguments, parse_arguments
from relay.dialects.tool_calls import ToolCallAssembler


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ("", {}),
        (" \n", {}),
        ("null", {}),
        ("{}", {}),
        ('\n {"a": 1}\t', {"a": 1}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"a": "x\\udcafy"}', {"a": "x\ufffdy"}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        ('{"n": 123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
        ('{"a": [[[{"b": 1e3}]]]}', {"a": [[[{"b": 1000.0}]]]}),
    ],
)
def test_text_that_is_an_object(raw: str, arguments: dict[str, object]) -> None:
    assert parse_arguments(raw) == arguments


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ("2", "not_object"),
        ("[1]", "not_object"),
        ('"text"', "not_object"),
        ('{"a": 1', "truncated"),
        ('{"a": "x', "truncated"),
        ('{"a":', "truncated"),
        ('{"a": NaN}', "invalid"),
        ('{"a": -Infinity}', "invalid"),
        ("{'a': 1}", "invalid"),
        ('{"a": 1,}', "invalid"),
        ('{"n":1}}', "invalid"),
        ('{"n":1} and more', "invalid"),
        ('{"a":1}{"a":2}', "multiple_values"),
        ('{"a":1} 2', "multiple_values"),
        ('{"a": 1e999}', "out_of_range"),
        ('{"a": ' + "9" * 5000 + "}", "out_of_range"),
        ('{"a": ' + "[" * 200 + "]" * 200 + "}", "too_deep"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "too_deep"),
    ],
    ids=lambda value: value[:30],
)
def test_text_that_is_not(raw: str, error: str) -> None:
    with pytest.raises(BadArguments) as bad:
        parse_arguments(raw)
    assert bad.value.error == error


def test_depth_is_bounded_exactly() -> None:
    def nested(depth: int) -> str:
        return '{"a":' * depth + "1" + "}" * depth

    assert parse_arguments(nested(MAX_DEPTH))
    with pytest.raises(BadArguments):
        parse_arguments(nested(MAX_DEPTH + 1))
    assert parse_arguments(json.dumps({"a": [[] for _ in range(MAX_DEPTH * 2)]}))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=3), json_values, max_size=3), st.booleans())
def test_any_object_that_is_written_is_read_again(value: dict[str, object], escaped: bool) -> None:
    assert parse_arguments(json.dumps(value, ensure_ascii=escaped)) == value


@given(
    st.dictionaries(st.text(max_size=3), json_values, max_size=3),
    st.randoms(use_true_random=False),
)
def test_fragments_join_to_what_was_cut(value: dict[str, object], rng: random.Random) -> None:
    raw = json.dumps(value)
    tools = ToolCallAssembler("made-up-")
    events = list(tools.feed(0, "c", "f", None))
    while raw:
        n = rng.randint(1, len(raw))
        events += tools.feed(0, "", "", raw[:n])
        raw = raw[n:]
    events += tools.close()
    assert events[0] == ev.ToolCallStarted(index=0, call_id="c", name="f")
    assert "".join(e.delta for e in events if isinstance(e, ev.ToolCallDelta)) == json.dumps(value)
    assert events[-1] == ev.ToolCallCompleted(index=0, call_id="c", name="f", arguments=value)


def calls(*fragments: tuple[int | None, str, str, str]) -> list[tuple[str, str, object]]:
    tools = ToolCallAssembler("made-up-")
    for fragment in fragments:
        list(tools.feed(*fragment))
    return [
        (e.call_id, e.name, e.arguments)
        for e in tools.close()
        if isinstance(e, ev.ToolCallCompleted)
    ]


def test_an_id_that_comes_late_is_the_id() -> None:
    assert calls((0, "", "f", "{}"), (0, "c", "", "")) == [("c", "f", {})]


def test_an_id_that_comes_late_and_with_a_name_is_no_new_call() -> None:
    assert calls((0, "", "f", '{"a"'), (0, "c", "f", ":1}")) == [("c", "f", {"a": 1})]


def test_half_a_character_at_the_end_is_not_lost_silently() -> None:
    tools = ToolCallAssembler("x")
    list(tools.feed(0, "c", "f", '{"t":"\ud83d'))
    invalid = list(tools.close())[-1]
    assert isinstance(invalid, ev.ToolCallInvalid)
    assert invalid.raw == '{"t":"\ufffd'


def test_an_index_used_again_with_the_same_id_is_the_same_call() -> None:
    assert calls((0, "c", "f", '{"a"'), (0, "c", "f", ":1}")) == [("c", "f", {"a": 1})]


def test_without_index_an_id_seen_before_goes_on() -> None:
    assert calls((None, "a", "f", '{"n"'), (None, "b", "g", "{}"), (None, "a", "", ":1}")) == [
        ("a", "f", {"n": 1}),
        ("b", "g", {}),
    ]


def test_without_index_and_id_a_name_begins_a_call() -> None:
    assert calls((None, "", "f", '{"n"'), (None, "", "", ":1}"), (None, "", "f", "{}")) == [
        ("made-up-0", "f", {"n": 1}),
        ("made-up-1", "f", {}),
    ]


def test_a_fragment_that_names_nothing_at_all_is_a_call_without_a_name() -> None:
    assert calls((None, "", "", "{}")) == [("made-up-0", "", {})]


def test_arguments_that_came_as_an_object_are_held_to_the_same_rules() -> None:
    tools = ToolCallAssembler("x")
    list(tools.feed(0, "c", "f", {"a": float("nan")}))
    (invalid,) = tools.close()
    assert isinstance(invalid, ev.ToolCallInvalid)
    assert invalid.error == "invalid"


def test_half_a_character_in_a_fragment_waits_for_the_next() -> None:
    tools = ToolCallAssembler("x")
    events = [
        *tools.feed(0, "c", "f", '{"t":"\ud83d'),
        *tools.feed(0, "", "", '\ude00"}'),
        *tools.close(),
    ]
    assert [e.delta for e in events if isinstance(e, ev.ToolCallDelta)] == ['{"t":"', '😀"}']
    assert events[-1] == ev.ToolCallCompleted(index=0, call_id="c", name="f", arguments={"t": "😀"})


def test_an_unfinished_call_is_told_with_what_came_of_it() -> None:
    tools = ToolCallAssembler("x")
    assert not tools
    assert list(tools.feed(3, "c", "", '{"a')) == []
    assert tools
    assert list(tools.abandon()) == [
        ev.ToolCallStarted(index=0, call_id="c", name=""),
        ev.ToolCallDelta(index=0, delta='{"a'),
        ev.ToolCallInvalid(index=0, call_id="c", name="", raw='{"a', error="unclosed"),
    ]
