"""The events' JSON is a promise to stores, hubs and clients, down to the order of two fields."""

from __future__ import annotations

import json

import msgspec
import pytest

from relay import events as ev

ONE_OF_EACH: list[ev.Event] = [
    ev.Created(response_id="0-r1", model="fast", created_at="2026-03-01T12:00:00Z"),
    ev.Started(upstream_model="m", attempt=1, epoch=1),
    ev.Notice(code="retrying", message="Trying again"),
    ev.TextDelta(delta="a\nb"),
    ev.ReasoningDelta(delta="hm", part=1),
    ev.RefusalDelta(delta="no"),
    ev.ToolCallStarted(index=0, call_id="c", name="f"),
    ev.ToolCallDelta(index=0, delta='{"a'),
    ev.ToolCallCompleted(index=0, call_id="c", name="f", arguments={"a": [1, None]}),
    ev.ToolCallInvalid(index=1, call_id="d", name="g", raw="{", error="truncated"),
    ev.PartMeta(part=0, kind="signature", data={"signature": "c2ln"}),
    ev.Usage(input_tokens=3, output_tokens=4),
    ev.Ended(
        status="failed",
        reason="truncated",
        epoch=2,
        finish_reason=None,
        error=ev.Error(code="truncated", message="It broke off", retryable=True),
        usage=ev.UsageCount(output_tokens=4, source="counted"),
        text_sha256="e3",
    ),
]

each = pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda e: type(e).__name__)


def test_there_is_one_of_each() -> None:
    assert {type(event) for event in ONE_OF_EACH} == {*ev.AnyEvent.__args__} - {ev.Unknown}


@each
def test_an_event_is_one_line_that_begins_with_type_and_seq(event: ev.Event) -> None:
    line = ev.encode_event(event, 7)
    kind = event.__struct_config__.tag
    assert line.startswith(f'{{"type":"{kind}","seq":7'.encode())
    assert b"\n" not in line
    assert b"\r" not in line


@each
def test_an_event_survives_its_own_json(event: ev.Event) -> None:
    assert ev.decode_event(ev.encode_event(event, 7)) == msgspec.structs.replace(event, seq=7)


@each
def test_numbering_leaves_the_event_itself_alone(event: ev.Event) -> None:
    ev.encode_event(event, 7)
    assert event.seq == 0


def test_a_type_of_a_later_schema_keeps_its_place() -> None:
    assert ev.decode_event(b'{"type":"hologram","seq":9,"rays":[]}') == ev.Unknown(seq=9)


def test_fields_of_a_later_schema_are_ignored() -> None:
    event = ev.decode_event(b'{"type":"text.delta","seq":1,"delta":"a","logprobs":[]}')
    assert event == ev.TextDelta(seq=1, delta="a")


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"text.delta","seq":1}',  # a known type without what it needs
        b'{"type":"text.delta","seq":1,"delta":5}',
        b'{"type":"ended","seq":1,"status":"completed"}',
        b'["text.delta"]',
        b'{"type":"text.delta","seq":1,"delta":"a"',
        b"",
    ],
)
def test_a_malformed_event_is_an_error_and_never_unknown(line: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        ev.decode_event(line)


def test_usage_and_its_count_say_the_same() -> None:
    usage = ev.Usage(input_tokens=5, cached_input_tokens=2, reasoning_tokens=1)
    fields = json.loads(ev.encode_event(usage, 1))
    assert msgspec.to_builtins(usage.count()) == {
        k: v for k, v in fields.items() if k not in ("type", "seq")
    }


def test_only_what_a_person_sees_is_content() -> None:
    content = {type(event) for event in ONE_OF_EACH if isinstance(event, ev.CONTENT)}
    assert {ev.Created, ev.Started, ev.Notice, ev.Usage, ev.Ended}.isdisjoint(content)
    assert len(content) == len(ev.CONTENT)
