"""Any answer, in any of the dialects with any liberty, cut anywhere, is read as it was meant."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.dialects import DIALECTS, Asked, Finish, decoder_for
from relay.events import Event, TextDelta, Usage, encode_event
from relay.fold import fold
from relay.states import FinishReason
from tests.relay.dialects.corpus import MODEL, REQUEST
from tests.relay.dialects.encoders import ENCODERS, Answer, Called, Said, Writing

dialect = pytest.mark.parametrize("dialect", ENCODERS)

# Characters of every length in UTF-8, one of a surrogate pair, and those that parsers trip over.
characters = st.characters(exclude_categories=["Cs"])
texts = st.text(
    st.sampled_from('aZ {}"\\\n\r\t\0é\u2028\u0085\ufeff漢😀:[]') | characters, max_size=12
)
pieces = st.lists(texts, min_size=1, max_size=4).map(tuple)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=4,
)


@st.composite
def calls(draw: st.DrawFn, number: int) -> Called:
    arguments = json.dumps(
        draw(st.dictionaries(texts, values, max_size=3)), ensure_ascii=draw(st.booleans())
    )
    cuts = sorted(draw(st.lists(st.integers(0, len(arguments)), max_size=3)))
    cut = tuple(arguments[a:b] for a, b in pairwise([0, *cuts, len(arguments)]))
    return Called(f"call_{number}", draw(st.sampled_from(["look_up", "save"])), cut)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    said = st.builds(Said, pieces, st.booleans())
    items: list[Said | Called] = [
        draw(calls(number)) if draw(st.integers(0, 2)) == 0 else draw(said)
        for number in range(draw(st.integers(1, 4)))
    ]
    called = any(isinstance(item, Called) for item in items)
    whole = FinishReason.TOOL_CALLS if called else FinishReason.STOP
    tokens = sorted(draw(st.lists(st.integers(0, 10**6), min_size=2, max_size=2)))
    return Answer(
        items=tuple(items),
        reason=draw(st.sampled_from([whole, FinishReason.LENGTH])),
        cached_tokens=tokens[0],
        input_tokens=tokens[1],
        output_tokens=draw(st.integers(0, 10**6)),
    )


writings = st.builds(
    Writing,
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    space=st.sampled_from([" ", ""]),
    escaped=st.booleans(),
    keep_alives=st.booleans(),
    names=st.booleans(),
)


def read(dialect: str, chunks: list[bytes]) -> tuple[list[Event], Finish]:
    asked = Asked(request=REQUEST, model=replace(MODEL, dialect=dialect))
    decoder = decoder_for(DIALECTS[dialect], asked)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    finish = decoder.finish(clean=True)
    return events + finish.events, finish


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = sorted(place % (len(data) + 1) for place in places)
    return [data[a:b] for a, b in pairwise([0, *at, len(data)])]


@dialect
@given(answer=answers(), writing=writings, places=st.lists(st.integers(0, 10**6), max_size=9))
def test_an_answer_is_read_as_it_was_meant(
    dialect: str, answer: Answer, writing: Writing, places: list[int]
) -> None:
    data = "".join(ENCODERS[dialect](answer, writing)).encode()
    events, finish = read(dialect, cut(data, places))
    assert (finish.error, finish.finish_reason) == (None, answer.reason)
    snapshot = fold(events)
    said = [item for item in answer.items if isinstance(item, Said)]
    for reasoning, got in ((False, snapshot.text), (True, snapshot.reasoning)):
        assert got == "".join("".join(i.pieces) for i in said if i.reasoning is reasoning)
    called = [item for item in answer.items if isinstance(item, Called)]
    assert [(c.call_id, c.name, c.arguments) for c in snapshot.tool_calls] == [
        (c.call_id, c.name, json.loads("".join(c.pieces))) for c in called
    ]
    usages = [event for event in events if isinstance(event, Usage)]
    assert usages[-1].input_tokens == answer.input_tokens
    assert usages[-1].cached_input_tokens == answer.cached_tokens
    assert usages[-1].output_tokens == answer.output_tokens


@dialect
@given(answer=answers(), writing=writings, places=st.lists(st.integers(0, 10**6), max_size=9))
def test_the_events_are_the_same_however_the_bytes_are_cut(
    dialect: str, answer: Answer, writing: Writing, places: list[int]
) -> None:
    data = "".join(ENCODERS[dialect](answer, writing)).encode()
    whole = read(dialect, [data])
    assert read(dialect, cut(data, places)) == whole
    assert read(dialect, [data[i : i + 1] for i in range(len(data))]) == whole


@dialect
@given(answer=answers(), places=st.lists(st.integers(0, 10**6), max_size=9))
def test_an_answer_that_breaks_off_is_never_whole_and_shows_nothing_wrong(
    dialect: str, answer: Answer, places: list[int]
) -> None:
    frames = list(ENCODERS[dialect](answer, Writing()))
    reasons = ('finish_reason": "', 'stop_reason": "', "response.completed", "response.incomplete")
    end = next(n for n, frame in enumerate(frames) if any(word in frame for word in reasons))
    data = "".join(frames[:end]).encode()
    upto = places[0] % (len(data) + 1) if places else len(data)
    events, finish = read(dialect, cut(data[:upto], places))
    assert finish.error is not None
    assert finish.finish_reason is None
    whole = "".join(
        "".join(i.pieces) for i in answer.items if isinstance(i, Said) and not i.reasoning
    )
    assert whole.startswith(fold(events).text)


@dialect
@given(text=texts, at=st.integers(0, 10**6))
def test_a_character_cut_in_two_escapes_is_joined(dialect: str, text: str, at: int) -> None:
    units = (text + "😀").encode("utf-16-le")
    middle = at % (len(units) // 2 + 1) * 2
    halves = tuple(u.decode("utf-16-le", "surrogatepass") for u in (units[:middle], units[middle:]))
    answer = Answer((Said(halves),), FinishReason.STOP, 1, 0, 1)
    events, finish = read(
        dialect, ["".join(ENCODERS[dialect](answer, Writing(escaped=True))).encode()]
    )
    assert finish.error is None
    assert "".join(e.delta for e in events if isinstance(e, TextDelta)) == text + "😀"
    for event in events:
        encode_event(event, 1)
