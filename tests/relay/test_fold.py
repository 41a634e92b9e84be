"""What a log means. The fixtures are shared with the JavaScript twin (tests/js)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay import events as ev
from relay.fold import Folder, Snapshot, apply, ended_event, fold, text_sha256
from relay.states import TERMINAL, Status

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures" / "fold").glob("*.json"))
CASES = [json.loads(path.read_text()) for path in FIXTURES]

case = pytest.mark.parametrize("case", CASES, ids=[path.stem for path in FIXTURES])


def events_of(case: dict[str, Any]) -> list[ev.AnyEvent]:
    return [ev.decode_event(json.dumps(event)) for event in case["events"]]


def plain(snapshot: Snapshot) -> Any:
    return json.loads(snapshot.to_json())


@case
def test_a_log_means_what_its_fixture_says(case: dict[str, Any]) -> None:
    assert plain(fold(events_of(case))) == case["snapshot"]


@case
def test_a_snapshot_and_the_events_after_it_mean_the_whole_log(case: dict[str, Any]) -> None:
    """Law 13, at every cut, with the snapshot sent as JSON in between."""
    events = events_of(case)
    whole = fold(events)
    for k in range(len(events) + 1):
        earlier = Snapshot.from_json(fold(events[:k]).to_json())
        assert apply(earlier, events[k:]) == whole, k


@case
def test_an_ended_snapshot_gives_its_terminal_event_back(case: dict[str, Any]) -> None:
    *_, last = [None, *events_of(case)]
    snapshot = fold(events_of(case))
    if not isinstance(last, ev.Ended):
        assert not snapshot.ended
        with pytest.raises(ValueError, match="not ended"):
            ended_event(snapshot)
        return
    assert snapshot.status in TERMINAL
    assert fold([*events_of(case)[:-1], ended_event(snapshot)]) == snapshot


def test_the_fixtures_cover_every_event_type_and_every_end() -> None:
    seen = {event["type"] for case in CASES for event in case["events"]}
    assert {kind.__struct_config__.tag for kind in ev.AnyEvent.__args__} - {"unknown"} <= seen
    assert {Status(case["snapshot"]["status"]) for case in CASES} == set(Status)


def test_a_snapshot_that_a_later_version_kept_can_be_read() -> None:
    """PROTOCOL 5.6"""
    kept = Snapshot(id="r1", text="a", status=Status.FAILED, text_sha256=text_sha256("a"))
    later = kept.to_json().replace(b'"failed"', b'"handed_over"')
    assert Snapshot.from_json(later) == msgspec.structs.replace(kept, status=Status.INCOMPLETE)
    for nothing in (b'{"status": "handed_over"}', b"[]", later.replace(b'"seq":0', b'"seq":"x"')):
        with pytest.raises(msgspec.ValidationError):
            Snapshot.from_json(nothing)


def test_asking_for_a_snapshot_changes_nothing() -> None:
    for case in CASES:
        asked, quiet = Folder(), Folder()
        for event in events_of(case):
            asked.apply(event)
            asked.snapshot()
            quiet.apply(event)
        assert asked.snapshot() == quiet.snapshot()


def test_the_epoch_of_an_entry_is_part_of_the_snapshot() -> None:
    folder = Folder(Snapshot(epoch=1))
    folder.apply(ev.TextDelta(seq=1, delta="a"), epoch=4)
    folder.apply(ev.TextDelta(seq=2, delta="b"))
    assert folder.snapshot().epoch == 4


def test_the_hash_of_no_text_is_the_hash_of_the_empty_string() -> None:
    assert text_sha256("").startswith("e3b0c442")


# -- any sequence of events, sensible or not ----------------------------------------------------
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.sampled_from(["", "a", "b"])
small = st.integers(0, 2)
maybe = st.none() | small
json_objects = st.dictionaries(names, st.none() | small | names, max_size=2)
usage_counts = st.builds(ev.UsageCount, input_tokens=maybe, output_tokens=maybe)
any_event = st.one_of(
    st.builds(ev.Created, response_id=names, model=names, created_at=names),
    st.builds(ev.Started, upstream_model=names, attempt=small, epoch=small, at=names),
    st.builds(ev.Notice, code=names, message=names, done=maybe, total=maybe),
    st.builds(ev.TextDelta, delta=texts, part=small),
    st.builds(ev.ReasoningDelta, delta=texts, part=small),
    st.builds(ev.RefusalDelta, delta=texts, part=small),
    st.builds(ev.ToolCallStarted, index=small, call_id=names, name=names),
    st.builds(ev.ToolCallDelta, index=small, delta=texts),
    st.builds(ev.ToolCallCompleted, index=small, call_id=names, name=names, arguments=json_objects),
    st.builds(ev.ToolCallInvalid, index=small, call_id=names, name=names, raw=texts, error=names),
    st.builds(ev.PartMeta, part=small, kind=names, data=json_objects),
    st.builds(ev.Usage, input_tokens=maybe, output_tokens=maybe),
    st.builds(
        ev.Ended,
        status=st.sampled_from(sorted(TERMINAL)),
        reason=st.none() | names,
        epoch=small,
        finish_reason=st.none() | names,
        error=st.none() | st.builds(ev.Error, code=names, message=names, retryable=st.booleans()),
        usage=st.none() | usage_counts,
        text_sha256=names,
        first_token_at=st.none() | names,
        first_text_at=st.none() | names,
        at=st.none() | names,
    ),
    st.builds(ev.Unknown),
)


def numbered(events: list[ev.Event]) -> list[ev.Event]:
    return [
        ev.decode_event(ev.encode_event(event, seq)) for seq, event in enumerate(events, start=1)
    ]


@given(st.lists(any_event, max_size=12).map(numbered), st.data())
def test_the_law_holds_for_any_events_in_any_order(
    events: list[ev.Event], data: st.DataObject
) -> None:
    """Even for logs that nobody should write: a reader must not depend on where it came in."""
    k = data.draw(st.integers(0, len(events)))
    assert apply(fold(events[:k]), events[k:]) == fold(events)
