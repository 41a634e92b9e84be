"""Entries become part of the chain: once, in batches, also those that were committed late."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from chatapp import services
from chatapp.entries import next_entries
from chatapp.models import AppendOnly, AuditEvent, AuditHead, AuditSeal
from chatapp.services import sealing
from chatapp.services.sealing import Sealing, seal_batch
from chatapp.services.verifying import verification
from tests.chatapp.conftest import without_triggers

if TYPE_CHECKING:
    from chatapp.verification import Finding


def entry(entry_id: int | None = None, **columns: Any) -> AuditEvent:
    given: dict[str, Any] = {"actor": "ann", "action": "created", "detail": {"n": 1}}
    return AuditEvent.objects.create(pk=entry_id, at=timezone.now(), **given | columns)


seal_alone: Callable[[], int] = seal_batch.__wrapped__  # type: ignore[attr-defined]
entries = sync_to_async(lambda *ids: [entry(entry_id) for entry_id in ids])


@sync_to_async
def found() -> list[Finding]:
    with verification() as check:
        return list(check.findings())


@sync_to_async
def chained() -> list[int]:
    """Ids in the order of the chain."""
    return [entry_id for one in AuditSeal.objects.order_by("number") for entry_id in one.ids]


async def test_what_is_there_is_sealed_in_batches(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "BATCH", 2)
    await entries(1, 2, 3)
    assert (await services.backlog()).unsealed == 3
    assert await Sealing()() == 3
    assert await AuditSeal.objects.acount() == 2
    assert await chained() == [1, 2, 3]
    now = await services.backlog()
    assert (now.unsealed, now.position, now.oldest_age_s) == (0, 3, 0)
    head = await AuditHead.objects.aget()
    assert str(head) == f"3:{now.head}"
    assert await Sealing()() == 0
    assert await found() == []


async def test_an_entry_that_is_committed_late_is_sealed_behind_the_others(
    transactional_db: None,
) -> None:
    await entries(1, 4)
    assert await seal_batch() == 2
    await entries(3)
    assert await found() == []
    assert await seal_batch() == 1
    await entries(2, 5)
    assert await seal_batch() == 1
    assert await seal_batch() == 1
    assert await chained() == [1, 4, 3, 2, 5]
    assert await found() == []
    holding = await sync_to_async(AuditSeal.objects.holding)(3)
    assert holding is not None
    assert holding.position_of(3) == 3
    assert await sync_to_async(AuditSeal.objects.holding)(6) is None


async def test_an_entry_that_comes_a_day_late_was_put_in(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await entries(1, 3)
    await seal_batch()
    monkeypatch.setattr(sealing, "MISSED_FOR_US", -1)
    await entries(4)
    await seal_batch()
    await entries(2)
    assert await seal_batch() == 0
    (finding,) = await found()
    assert finding.entry_id == 2


def test_who_seals_has_the_head_alone(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several processes seal each entry once."""
    monkeypatch.setattr(sealing, "BATCH", 5)
    for _ in range(50):
        entry()

    def work() -> int:
        try:
            return sum(seal_alone() for _ in range(12))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        counts = list(threads.map(lambda _: work(), range(4)))
    counts.append(sum(seal_alone() for _ in range(12)))  # of who came while the lock was taken
    assert sum(counts) == 50
    assert judged() == []


async def test_a_head_that_was_lost_is_made_from_the_seals(transactional_db: None) -> None:
    await entries(1, 3)
    await seal_batch()
    await AuditHead.objects.all().adelete()
    await entries(4)
    assert await seal_batch() == 1
    assert await chained() == [1, 3, 4]
    assert await found() == []


async def test_the_head_is_noted_in_the_log(
    transactional_db: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await entries(1)
    seal = Sealing()
    await seal()
    head = (await services.backlog()).head
    assert [record.getMessage() for record in caplog.records if head in record.getMessage()] == [
        f"audit trail: sealed to position 1, head {head}"
    ]
    caplog.clear()
    await entries(2)
    await seal()
    assert caplog.records == []


def test_seals_are_neither_changed_nor_removed(transactional_db: None) -> None:
    entry()
    seal_now()
    row = AuditSeal.objects.get()
    for change in (
        row.save,
        row.delete,
        AuditSeal.objects.all().delete,
        lambda: AuditSeal.objects.update(first=2),
    ):
        with pytest.raises(AppendOnly):
            change()


@pytest.mark.parametrize("table", ["chatapp_auditevent", "chatapp_auditseal"])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "UPDATE {} SET {}", "TRUNCATE {}"])
def test_the_database_refuses_it_too(transactional_db: None, table: str, statement: str) -> None:
    entry()
    seal_now()
    column = "actor = 'x'" if table == "chatapp_auditevent" else "first = 9"
    if connection.vendor == "sqlite":
        statement = statement.replace("TRUNCATE", "DELETE FROM")
    with (
        pytest.raises(DatabaseError, match="never"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement.format(table, column))


def seal_now() -> None:
    assert seal_alone()


# One byte of each column, as a stranger with the database's password would write it.
TEXTS = ("actor", "action", "response_id", "username", "model", "status")
EDITS = {
    **{name: f"{name} = 'f' || substr({name}, 2)" for name in TEXTS},
    "at": "at = '2026-01-02 03:04:06.000007'",
    "detail": """detail = '{"n": 2}'""",
}


@pytest.mark.parametrize("column", EDITS)
def test_one_changed_byte_is_found_in_each_column(transactional_db: None, column: str) -> None:
    words: dict[str, Any] = dict.fromkeys(TEXTS, "word")
    many = [entry(**words) for _ in range(5)]
    seal_now()
    with without_triggers(), connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE chatapp_auditevent SET {EDITS[column]} WHERE id = %s",  # noqa: S608
            [many[2].pk],
        )
        assert cursor.rowcount == 1
    (finding,) = judged()
    assert (finding.position, finding.entry_id) == (3, many[2].pk)


@pytest.mark.parametrize(
    "change", ["first = first + 1", "sealed_us = sealed_us + 1", "lowest_id = lowest_id + 1",
               "highest_id = highest_id + 1", "number = number + 1"]
)  # fmt: skip
def test_one_change_is_found_in_each_column_of_a_seal(transactional_db: None, change: str) -> None:
    entry()
    seal_now()
    with without_triggers(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE chatapp_auditseal SET {change}")  # noqa: S608
    assert judged()[0].position == 1


@pytest.mark.parametrize("column", ["links", "entry_ids"])
def test_one_changed_byte_is_found_in_each_text_of_a_seal(
    transactional_db: None, column: str
) -> None:
    entry()
    seal_now()
    row = AuditSeal.objects.get()
    data = bytearray(getattr(row, column))
    data[7] ^= 1
    with without_triggers(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE chatapp_auditseal SET {column} = %s", [bytes(data)])  # noqa: S608
    assert judged()[0].position == 1


def test_what_is_not_even_readable_is_found_and_not_raised(transactional_db: None) -> None:
    many = [entry() for _ in range(3)]
    seal_now()
    edits = ["at = 'infinity'", "detail = '\"\"'"]
    if connection.vendor == "sqlite":
        edits += ["at = 'never'", "actor = CAST(x'ff00' AS TEXT)",
                  "detail = '{\"n\":  1}'", "at = replace(at, ' ', 'T')"]  # fmt: skip
    for edit in edits:
        with without_triggers(), connection.cursor() as cursor:
            cursor.execute("SELECT at, actor, detail FROM chatapp_auditevent ORDER BY id LIMIT 1")
            before = cursor.fetchone()
            cursor.execute(
                f"UPDATE chatapp_auditevent SET {edit} WHERE id = %s",  # noqa: S608
                [many[0].pk],
            )
        (finding,) = judged()
        assert finding.entry_id == many[0].pk, edit
        with without_triggers(), connection.cursor() as cursor:
            cursor.execute(
                "UPDATE chatapp_auditevent SET at = %s, actor = %s, detail = %s WHERE id = %s",
                [*before, many[0].pk],
            )
        assert judged() == []


def judged() -> list[Finding]:
    with verification() as check:
        return list(check.findings())


def test_both_databases_have_the_same_bytes(transactional_db: None) -> None:
    """A trail that is moved from one to the other is still what was sealed."""
    moment = datetime(2026, 11, 30, 18, 43, 0, 120, tzinfo=UTC)
    detail = {"z": [1, None, True], "a": 'é\N{PILE OF POO}\n"', "n": 2**40}
    row = AuditEvent.objects.create(at=moment, actor="Zoë", action="a", detail=detail)
    (read,) = next_entries(0, 5)
    assert read == (
        row.pk, b"1796064180000120", "Zoë".encode(), b"a", b"", b"", b"", b"",
        '{"a":"é\N{PILE OF POO}\\n\\"","n":1099511627776,"z":[1,null,true]}'.encode(),
    )  # fmt: skip
