"""A snapshot is the record's, else the log's, else what was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatapp import services
from chatapp.finalize import Records
from chatapp.services.settling import submit
from relay import conclude
from tests.chatapp.conftest import scribe_of

if TYPE_CHECKING:
    from chatapp.models import Response
    from relay import MemoryStore


async def test_without_a_log_it_is_queued(row: Response, store: MemoryStore) -> None:
    snapshot = await services.snapshot(row)
    assert (snapshot.id, snapshot.status, snapshot.model) == (row.pk, "queued", "fast")
    assert (snapshot.seq, snapshot.text, snapshot.ended) == (0, "", False)
    assert snapshot.timings.created_at is not None


async def test_with_a_log_its_cursor_can_be_followed(row: Response, store: MemoryStore) -> None:
    await submit(row)
    scribe = await scribe_of(store, row.pk)
    await scribe.say("a", "b")
    snapshot = await services.snapshot(row)
    assert (snapshot.status, snapshot.text, snapshot.seq) == ("in_progress", "ab", 4)
    page = await store.read(row.pk, after=snapshot.seq, epoch=snapshot.epoch)
    assert page is not None
    assert page.valid


async def test_the_record_after_retention_equals_the_log_before(
    row: Response, store: MemoryStore
) -> None:
    await submit(row)
    scribe = await scribe_of(store, row.pk)
    await scribe.say("kept")
    await scribe.end()
    before = await services.snapshot(row)
    await Records().finalize(await conclude(store, row.pk))
    await store.retire(row.pk)
    await row.arefresh_from_db()
    assert await services.snapshot(row) == before


async def test_a_log_retired_since_the_row_was_read_is_answered_by_the_row_of_now(
    row: Response, store: MemoryStore
) -> None:
    await submit(row)
    scribe = await scribe_of(store, row.pk)
    await scribe.end()
    await Records().finalize(await conclude(store, row.pk))
    await store.retire(row.pk)
    assert row.status == "queued"  # as it was read
    assert (await services.snapshot(row)).status == "completed"
