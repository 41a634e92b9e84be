"""The OpenAI chat dialect: the corpus, and what the corpus does not say."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from relay import events as ev
from relay.dialects import DIALECTS
from relay.dialects.openai_chat import OpenAIChatDecoder
from relay.events import encode_event
from relay.fold import fold
from relay.states import ErrorKind, FinishReason
from relay.wire.sse import MAX_EVENT_BYTES
from tests.relay.dialects.corpus import chunks_of, decode, deliveries, disagreements, load

CASES = load("chat")
case = pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])


@case
def test_a_recorded_stream_means_what_the_corpus_says_however_it_is_cut(
    case: dict[str, Any],
) -> None:
    for chunks in deliveries(case, random_splits=20):
        result = decode("openai-chat", case, chunks)
        assert disagreements(result, case) == {}, chunks


@case
def test_every_event_can_be_encoded_and_read_back(case: dict[str, Any]) -> None:
    result = decode("openai-chat", case, chunks_of(case))
    for seq, event in enumerate(result.events, start=1):
        assert event.seq == 0
        assert ev.decode_event(encode_event(event, seq)) == msgspec.structs.replace(event, seq=seq)


@case
def test_a_stop_at_any_moment_leaves_no_call_open(case: dict[str, Any]) -> None:
    if case["http_status"] != 200:
        return
    data = b"".join(chunks_of(case))[:4000]
    for at in range(0, len(data), 37):
        decoder = OpenAIChatDecoder()
        events = decoder.feed(data[:at]) + decoder.abandon()
        for call in fold(events).tool_calls:
            assert call.error == "unclosed"
        assert decoder.feed(data[at:]) == []
