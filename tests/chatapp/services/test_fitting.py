"""Which turns of a long chat a model is shown: the newest, in whole exchanges, as room allows."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.services.fitting import MARKS_TOKENS, Room, Turn, fit, room_for
from relay import ModelConfig, estimated_tokens

PLENTY = Room(None, 1 << 30)


def model(context: int | None = None, answer: int | None = None) -> ModelConfig:
    return ModelConfig(
        name="m",
        dialect="openai-chat",
        base_url="http://m",
        upstream_model="m",
        context_tokens=context,
        max_output_tokens=answer,
    )


def words(text: str) -> int:
    return len(text.split())


def chat(*sizes: int) -> list[Turn]:
    """Question, answer, question … of so many words."""
    roles = ("user", "assistant")
    return [Turn(n + 1, roles[n % 2], "word " * size) for n, size in enumerate(sizes)]


def shown(turns: list[Turn], tokens: int, instructions: str = "") -> list[int]:
    room = Room(tokens, 1 << 30)
    return [t.position for t in fit(turns, room, instructions=instructions, count=words).turns]


def test_a_chat_that_fits_is_shown_whole() -> None:
    turns = chat(10, 20, 30)
    found = fit(turns, PLENTY, instructions="", count=words)
    assert (found.turns, found.left_out, found.shown_from) == (turns, 0, 0)
    assert shown(turns, 60 + 3 * MARKS_TOKENS) == [1, 2, 3]


def test_the_oldest_exchanges_are_left_out_first_and_whole() -> None:
    turns = chat(10, 10, 10, 10, 10)
    room = 5 * (10 + MARKS_TOKENS)
    assert shown(turns, room - 1) == [3, 4, 5]  # an answer without its question goes as well
    found = fit(turns, Room(room - 1, 1 << 30), instructions="", count=words)
    assert (found.left_out, found.shown_from) == (2, 3)


def test_the_last_question_goes_however_long_it_is() -> None:
    assert shown(chat(10, 10, 500), 50) == [3]


def test_the_system_prompt_stays_and_takes_its_room() -> None:
    turns = chat(10, 10, 10)
    room = 3 * (10 + MARKS_TOKENS) + MARKS_TOKENS + 20
    assert shown(turns, room, "rule " * 20) == [1, 2, 3]
    assert shown(turns, room, "rule " * 21) == [3]


def test_bytes_are_bounded_too() -> None:
    turns = chat(10, 10, 10)
    assert [
        t.position for t in fit(turns, Room(None, 149), instructions="", count=words).turns
    ] == [3]


@pytest.mark.parametrize(
    ("context", "answer", "wanted", "tokens"),
    [
        (None, 100, None, None),
        (8000, 2000, None, 6000),
        (8000, 2000, 500, 7500),
        (8000, None, None, 6000),  # a quarter is left for the answer
        (8000, 8000, None, 4000),  # never more than half
    ],
)
def test_the_answer_is_left_its_room(
    context: int | None, answer: int | None, wanted: int | None, tokens: int | None
) -> None:
    room = room_for(model(context, answer), max_output_tokens=wanted, max_input_bytes=0)
    assert room.tokens == tokens


def test_a_model_that_nobody_declares_bounds_nothing_but_bytes() -> None:
    assert room_for(None, max_output_tokens=None, max_input_bytes=7) == Room(None, 7)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(0, 300))
def test_what_is_shown_is_the_newest_part_and_fits(sizes: list[int], tokens: int) -> None:
    turns = chat(*sizes)
    found = fit(turns, Room(tokens, 1 << 30), instructions="", count=words)
    assert found.turns == turns[found.left_out :]
    used = sum(words(turn.text) + MARKS_TOKENS for turn in found.turns)
    assert used <= tokens or len(found.turns) == 1
    if found.left_out:
        assert found.turns[0].role == "user" or len(found.turns) == 1
        assert found.shown_from == found.turns[0].position


def test_the_estimate_is_by_bytes_so_that_it_holds_for_every_script() -> None:
    assert estimated_tokens("") == 0
    assert estimated_tokens("a" * 35) == 10
    assert estimated_tokens("語" * 35) == math.ceil(105 / 3.5)
