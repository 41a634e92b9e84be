"""Merging saves events, never meaning, and never touches what was sent."""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay import events as ev
from relay.coalesce import MAX_BYTES, MAX_DELTA_CHARS, Coalescer
from relay.fold import fold


def taken(coalescer: Coalescer, next_seq: int = 1, **limits: int) -> list[ev.AnyEvent]:
    return [ev.decode_event(line) for line in coalescer.take(next_seq, **limits).events]


def merged(*events: ev.Event) -> list[ev.Event]:
    coalescer = Coalescer()
    coalescer.add(events)
    return [msgspec.structs.replace(event, seq=0) for event in taken(coalescer)]


text, thought, refusal = ev.TextDelta, ev.ReasoningDelta, ev.RefusalDelta


def test_neighbouring_deltas_become_one() -> None:
    assert merged(text(delta="a"), text(delta="b"), text(delta="c")) == [text(delta="abc")]


def test_deltas_of_different_kind_or_place_stay_apart() -> None:
    apart: list[ev.Event] = [
        text(delta="a"),
        text(delta="b", part=1),
        thought(delta="c", part=1),
        refusal(delta="d", part=1),
        ev.ToolCallDelta(index=1, delta="e"),
        ev.ToolCallDelta(index=2, delta="f"),
        text(delta="g"),
    ]
    assert merged(*apart) == apart


def test_fragments_of_one_call_become_one() -> None:
    fragments = [ev.ToolCallDelta(index=1, delta=d) for d in ('{"a"', ":1", "}")]
    assert merged(*fragments) == [ev.ToolCallDelta(index=1, delta='{"a":1}')]


def test_an_event_between_keeps_deltas_apart() -> None:
    between = ev.ToolCallStarted(index=0, call_id="c", name="f")
    assert merged(text(delta="a"), between, text(delta="b")) == [
        text(delta="a"),
        between,
        text(delta="b"),
    ]


def notice(code: str, done: int) -> ev.Notice:
    return ev.Notice(code=code, message="m", done=done, total=9)


def test_a_later_notice_of_the_same_code_replaces_an_unsent_one() -> None:
    assert merged(notice("a", 1), notice("b", 1), notice("a", 2), notice("a", 3)) == [
        notice("b", 1),
        notice("a", 3),
    ]


def test_a_later_usage_replaces_an_unsent_one_and_the_text_around_it_meets() -> None:
    assert merged(
        text(delta="a"), ev.Usage(output_tokens=1), text(delta="b"), ev.Usage(output_tokens=2)
    ) == [text(delta="ab"), ev.Usage(output_tokens=2)]


def test_what_was_taken_is_never_replaced() -> None:
    coalescer = Coalescer()
    coalescer.add([notice("a", 1), ev.Usage(output_tokens=1), text(delta="a")])
    assert len(taken(coalescer)) == 3
    coalescer.add([text(delta="b"), ev.Usage(output_tokens=2), notice("a", 2)])
    assert taken(coalescer, 4) == [
        text(seq=4, delta="b"),
        ev.Usage(seq=5, output_tokens=2),
        ev.Notice(seq=6, code="a", message="m", done=2, total=9),
    ]


def test_a_replaced_event_that_is_partly_taken_around_stays_in_its_place() -> None:
    coalescer = Coalescer()
    calls = [ev.ToolCallStarted(index=i, call_id="c", name="f") for i in range(6)]
    coalescer.add([*calls[:5], notice("a", 1), calls[5]])
    assert len(taken(coalescer, max_events=4)) == 4
    coalescer.add([notice("a", 2)])
    assert [type(event) for event in taken(coalescer, 5)] == [
        ev.ToolCallStarted,
        ev.ToolCallStarted,
        ev.Notice,
    ]


def test_numbers_follow_one_another_over_many_takes() -> None:
    coalescer = Coalescer()
    coalescer.add([text(delta="a", part=i) for i in range(150)])
    seqs: list[int] = []
    while coalescer.pending:
        seqs += [event.seq for event in taken(coalescer, len(seqs) + 1)]
    assert seqs == list(range(1, 151))


def test_a_batch_has_at_most_so_many_events_and_bytes() -> None:
    coalescer = Coalescer()
    coalescer.add([text(delta="a", part=i) for i in range(100)])
    assert len(taken(coalescer)) == 64
    assert len(taken(coalescer, max_events=5)) == 5
    batch = coalescer.take(1, max_bytes=200).events
    assert 0 < sum(map(len, batch)) <= 200
    assert coalescer.pending


def test_an_event_larger_than_a_batch_goes_alone() -> None:
    coalescer = Coalescer()
    huge = ev.ToolCallCompleted(index=0, call_id="c", name="f", arguments={"a": "x" * MAX_BYTES})
    coalescer.add([text(delta="a"), huge, text(delta="b")])
    assert [len(taken(coalescer)) for _ in range(3)] == [1, 1, 1]
    assert not coalescer.pending


def test_a_very_long_delta_is_cut_so_that_every_event_fits_a_batch() -> None:
    coalescer = Coalescer()
    answer = "\x00" * (MAX_DELTA_CHARS * 2) + "😀" * 5
    coalescer.add([text(delta=answer)])
    got = ""
    while coalescer.pending:
        batch = coalescer.take(1)
        assert sum(map(len, batch.events)) <= MAX_BYTES
        got += batch.text
    assert got == answer


@pytest.mark.parametrize(
    ("event", "content"),
    [
        (text(delta="a"), True),
        (ev.ToolCallStarted(index=0, call_id="c", name="f"), True),
        (ev.PartMeta(part=0, kind="signature", data="x"), True),
        (ev.Notice(code="a", message="m"), False),
        (ev.Usage(input_tokens=1), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_batch_says_whether_a_person_saw_anything(event: ev.Event, content: bool) -> None:
    coalescer = Coalescer()
    coalescer.add([event])
    assert coalescer.take(1).has_content is content


def test_a_batch_hands_over_its_text_and_only_that() -> None:
    coalescer = Coalescer()
    coalescer.add([text(delta="a"), thought(delta="x"), text(delta="b", part=1), text(delta="c")])
    assert coalescer.take(1, max_events=3).text == "ab"
    assert coalescer.take(4).text == "c"
    assert coalescer.take(5).events == []
    assert coalescer.take(5).text == ""


deltas = st.text("ab😀", max_size=3)
places = st.integers(0, 1)
any_event = st.one_of(
    st.builds(text, delta=deltas, part=places),
    st.builds(thought, delta=deltas, part=places),
    st.builds(refusal, delta=deltas),
    st.builds(ev.ToolCallDelta, index=places, delta=deltas),
    st.builds(ev.ToolCallStarted, index=places, call_id=deltas, name=deltas),
    st.builds(ev.Notice, code=st.sampled_from("ab"), message=deltas),
    st.builds(ev.Usage, input_tokens=places, output_tokens=places),
)


@given(st.lists(st.lists(any_event, max_size=6), max_size=6), st.data())
def test_merging_keeps_the_meaning_whenever_batches_are_taken(
    chunks: list[list[ev.Event]], data: st.DataObject
) -> None:
    coalescer, sent = Coalescer(), list[ev.Event]()
    for chunk in [*chunks, []]:
        coalescer.add(chunk)
        most = data.draw(st.integers(1, 3))
        while coalescer.pending and data.draw(st.booleans()):
            sent += taken(coalescer, len(sent) + 1, max_events=most)
    while coalescer.pending:
        sent += taken(coalescer, len(sent) + 1)
    assert [event.seq for event in sent] == list(range(1, len(sent) + 1))
    received = [event for chunk in chunks for event in chunk]
    assert without_numbers(sent) == without_numbers(received)


def without_numbers(events: list[ev.Event]) -> object:
    snapshot = fold(msgspec.structs.replace(event, seq=0) for event in events)
    return msgspec.to_builtins(snapshot)


def test_a_long_backlog_costs_the_same_per_event() -> None:
    """While the store is away an answer piles up; taking it must not be quadratic."""

    def seconds_per_event(n: int) -> float:
        coalescer = Coalescer()
        started = time.thread_time()
        for i in range(n):
            coalescer.add([text(delta="a", part=i % 2)])
        while coalescer.pending:
            coalescer.take(1)
        return (time.thread_time() - started) / n

    small = min(seconds_per_event(2_000) for _ in range(5))
    large = min(seconds_per_event(40_000) for _ in range(3))
    assert large < 5 * small
