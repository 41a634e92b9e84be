"""Every recorded stream means what the corpus says, in every dialect, however it is cut."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from relay import events as ev
from relay.dialects import DIALECTS, decoder_for
from relay.events import encode_event
from relay.fold import fold
from tests.relay.dialects.corpus import asked_in, chunks_of, decode, deliveries, disagreements, load

CASES = load(*DIALECTS)
case = pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])


def test_the_corpora_are_whole() -> None:
    assert len({case["name"] for case in load()}) == len(load()) == 197 + 80


@case
def test_a_recorded_stream_means_what_the_corpus_says_however_it_is_cut(
    case: dict[str, Any],
) -> None:
    for chunks in deliveries(case, random_splits=20):
        assert disagreements(decode(case, chunks), case) == {}, chunks


@case
def test_every_event_can_be_encoded_and_read_back(case: dict[str, Any]) -> None:
    result = decode(case, chunks_of(case))
    for seq, event in enumerate(result.events, start=1):
        assert event.seq == 0
        assert ev.decode_event(encode_event(event, seq)) == msgspec.structs.replace(event, seq=seq)


@case
def test_a_stop_at_any_moment_leaves_no_call_open(case: dict[str, Any]) -> None:
    asked = asked_in(case)
    data = b"".join(chunks_of(case))[:4000]
    for at in range(0, len(data), 37):
        decoder = decoder_for(DIALECTS[asked.model.dialect], asked)
        events = decoder.feed(data[:at]) + decoder.abandon()
        started = {event.index for event in events if isinstance(event, ev.ToolCallStarted)}
        ended = [
            event.index
            for event in events
            if isinstance(event, (ev.ToolCallCompleted, ev.ToolCallInvalid))
        ]
        assert sorted(ended) == sorted(started)
        assert all(call.error or call.arguments is not None for call in fold(events).tool_calls)
        assert decoder.feed(data[at:]) == []
