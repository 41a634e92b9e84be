"""Two versions side by side, as in every deploy: an older reader of a newer log, and the reverse.

tests/fixtures/versions.json is read by tests/js/versions.test.js and tests/chatapp/test_versions.py
as well. `newer` holds types, fields, reasons and codes that nobody knows yet; `older` lacks what
was added since the first version.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from relay import events as ev
from relay.fold import Snapshot, apply, ended_event, fold
from relay.follow import follow
from relay.generate import conclude
from relay.request import GenerationRequest
from relay.store import fold_log
from tests.relay.reader import Reader

if TYPE_CHECKING:
    from relay.hub import Hub
    from relay.store import Store
    from tests.relay.scribe import Scribe

VERSIONS = json.loads((Path(__file__).parents[1] / "fixtures" / "versions.json").read_text())

version = pytest.mark.parametrize("version", ["newer", "older"])


def events_of(version: str) -> list[ev.AnyEvent]:
    return [ev.decode_event(json.dumps(event)) for event in VERSIONS[version]["events"]]


@version
def test_a_log_of_another_version_is_folded_at_every_cut(version: str) -> None:
    events = events_of(version)
    whole = fold(events)
    assert json.loads(whole.to_json()) == VERSIONS[version]["snapshot"]
    for k in range(len(events) + 1):
        assert apply(Snapshot.from_json(fold(events[:k]).to_json()), events[k:]) == whole, k
    assert fold([*events[:-1], ended_event(whole)]) == whole


def test_a_snapshot_of_a_newer_version_is_read_without_what_it_adds() -> None:
    newer = VERSIONS["newer"]
    more: dict[str, Any] = newer["adds_to_a_snapshot"]
    timings = newer["snapshot"]["timings"] | more["timings"]
    written = json.dumps(newer["snapshot"] | more | {"timings": timings})
    assert json.loads(Snapshot.from_json(written).to_json()) == newer["snapshot"]


def test_a_snapshot_of_an_older_version_is_filled_in() -> None:
    older, events = VERSIONS["older"], events_of("older")
    written = json.loads(fold(events[:1]).to_json())
    for name in older["not_yet_in_a_snapshot"]:
        del written[name]
    read = Snapshot.from_json(json.dumps(written))
    assert json.loads(apply(read, events[1:]).to_json()) == older["snapshot"]


def test_a_request_of_another_version_is_read() -> None:
    least: dict[str, Any] = {"response_id": "resp_0_1", "model": "fast", "messages": []}
    least["created_at"] = VERSIONS["older"]["events"][0]["created_at"]
    older = GenerationRequest.from_json(json.dumps(least))
    newer = GenerationRequest.from_json(older.to_json()[:-1] + b',"seed":7}')
    assert older == newer


@version
async def test_viewers_and_a_taker_get_through_a_log_of_another_version(
    store: Store, hub: Hub, scribe: Scribe, version: str
) -> None:
    """Each event is handed on as it was written; whoever records the end keeps what it knows."""
    expected = VERSIONS[version]
    await scribe.begin()
    await scribe.repeat(expected["events"])
    reader = Reader()
    await reader.read(await follow(hub, scribe.rid))
    reader.check_whole(expected["snapshot"]["text"])
    assert reader.ended is not None
    assert reader.ended["reason"] == expected["snapshot"]["reason"]
    after_half = Reader(seqs=[*range(1, 5)], text="The moon ", epoch=reader.epoch)
    await after_half.read(await follow(hub, scribe.rid, after=4, epoch=reader.epoch))
    assert after_half.seqs == reader.seqs
    folded = await fold_log(store, scribe.rid)
    assert folded is not None
    assert folded[0].text == expected["snapshot"]["text"]
    record = (await conclude(store, scribe.rid)).snapshot
    assert (record.status, record.reason) == (folded[0].status, expected["snapshot"]["reason"])
    assert record.usage == folded[0].usage == fold(events_of(version)).usage
