"""Partial JSON, against the vectors of the corpus and against a strict reader."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.wire.partial_json import MAX_DEPTH, Partial, parse_partial

FIXTURES = Path(__file__).parents[2] / "fixtures"
VECTORS = [
    vector
    for corpus in ("corpus", "corpus_more")
    for vector in json.loads((FIXTURES / corpus / "json_vectors.json").read_text())["vectors"]
]


def input_of(vector: dict[str, Any]) -> str | bytes:
    if "prefix_b64" in vector:
        return base64.b64decode(vector["prefix_b64"])
    if "prefix_parts" in vector:
        return "".join(text * repeat for text, repeat in vector["prefix_parts"])
    return str(vector["prefix"])


def same(one: Any, other: Any) -> bool:
    """Equal, and 1 is neither True nor 1.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def test_the_vectors_are_all_there() -> None:
    assert len(VECTORS) == 89 + 110


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_a_vector_reads_as_recorded(vector: dict[str, Any]) -> None:
    data = input_of(vector)
    ways: list[str | bytes] = [data, data.encode()] if isinstance(data, str) else [data]
    for given_as in ways:
        got = parse_partial(given_as)
        assert got.error == vector["error"]
        if vector["error"] in (None, "trailing_data"):
            assert (got.has_value, got.complete) == (vector["has_value"], vector["complete"])
            assert same(got.value, vector.get("value"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":[1,{"b":tr', {"a": [1, {"b": True}]}),
        ('{"a":"\\ud83d\\n', {"a": "\ufffd\n"}),
        ("[-0.5e+", [-0.5]),
        ("[ 0 , [ ] , { } ,", [0, [], {}]),
        ('{"a":{},"a":[', {"a": []}),
        ('"\\\\\\ud83d', "\\"),
        ('"\\\\ud83d', "\\ud83d"),
    ],
)
def test_what_is_shown_of_an_unfinished_text(text: str, expected: object) -> None:
    assert parse_partial(text) == Partial(has_value=True, value=expected)


@pytest.mark.parametrize(
    "text", ["01", "-01", "1.e5", "1ex", "-x", "[1 2", '{"a":1 "b"', '{"a":1:', "[}", "{]", "{1:2}"]
)
def test_what_can_never_become_json_is_wrong_at_once(text: str) -> None:
    assert parse_partial(text) == Partial(error="invalid")


@pytest.mark.parametrize("text", ["1 2", "true false", '""x', "[]]", "null,"])
def test_more_than_one_value_is_the_first_one(text: str) -> None:
    got = parse_partial(text)
    assert got.error == "trailing_data"
    assert (got.has_value, got.complete) == (True, False)


@pytest.mark.parametrize("text", ["-1e999", '{"a":[1E309', "9" * 5000])
def test_a_number_that_python_cannot_hold_is_out_of_range(text: str) -> None:
    assert parse_partial(text) == Partial(error="out_of_range")


def test_a_whole_number_is_kept_to_its_last_digit() -> None:
    digits = "9" * 400
    got = parse_partial(f'{{"n":{digits}')
    assert (got.value, got.error) == ({"n": int(digits)}, None)


def test_nesting_is_read_to_its_bound_and_no_deeper() -> None:
    bound = "[" * MAX_DEPTH
    assert parse_partial(bound).has_value
    assert parse_partial(bound + "]" * MAX_DEPTH).complete
    assert parse_partial(bound + "[").error == "too_deep"
    assert parse_partial('{"a":' * (MAX_DEPTH + 1)).error == "too_deep"


def test_halves_of_characters_can_always_be_encoded() -> None:
    for text in ('{"\ud83d":"\ude00', '{"\\ud83d":"\\ude00"}', '"\ud83d', "\ud83d"):
        assert json.dumps(parse_partial(text).value, ensure_ascii=False).encode()


# -- against a strict reader ----------------------------------------------------------------------
def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def strictly(text: str) -> Any:
    return json.loads(text, parse_constant=_no_constant)


chars = st.characters(exclude_categories=["Cs"])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(chars),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(chars), inner, max_size=4),
    max_leaves=12,
)


@given(values, st.booleans(), st.sampled_from([None, 1]))
def test_every_beginning_of_a_json_text_is_right_so_far(
    value: object, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    whole = parse_partial(text)
    assert whole.complete
    assert same(whole.value, value)
    for end in range(len(text)):
        got = parse_partial(text[:end])
        assert got.error is None
        assert got.complete == _is_json(text[:end])
    data = text.encode()
    for end in range(len(data)):
        assert parse_partial(data[:end]).error is None


@given(st.text(st.sampled_from('{}[]:,"\\u0123dD8eE.+-tfn \n') | chars, max_size=24))
def test_a_text_is_complete_if_a_strict_reader_takes_it(text: str) -> None:
    got = parse_partial(text)
    if got.error == "out_of_range":  # json.loads makes Infinity of it
        return
    assert got.complete == _is_json(text)
    if got.complete and "\\u" not in text:
        assert same(got.value, strictly(text))


def _is_json(text: str) -> bool:
    try:
        strictly(text)
    except ValueError:
        return False
    return True
