"""A record is written once, whole, and not at all when the database is away (PROTOCOL 8)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from chatapp import services
from chatapp.finalize import Records, database_errors
from chatapp.models import AuditEvent, Chat, Message, Response, User
from chatapp.services.settling import submit
from relay import (
    WALL_CLOCK,
    Created,
    End,
    Outcome,
    RecordUnavailable,
    TextDelta,
    UsageCount,
    ended,
    fold,
    text_sha256,
)
from tests.chatapp.conftest import make_row

if TYPE_CHECKING:
    from relay import MemoryStore, Snapshot

USAGE = UsageCount(
    input_tokens=11, output_tokens=3, cached_input_tokens=2, reasoning_tokens=1, source="provider"
)


def snapshot(response_id: str, text: str = "tea", end: End | None = None) -> Snapshot:
    return fold(
        [
            Created(
                seq=1, response_id=response_id, model="fast", created_at="2026-01-01T00:00:00Z"
            ),
            TextDelta(seq=2, delta=text),
            ended(
                end or End.finished("stop"),
                epoch=7,
                text_sha256=text_sha256(text),
                usage=USAGE,
                first_token_at="2026-01-01T00:00:01Z",
                at="2026-01-01T00:00:02Z",
            ),
        ]
    )


def outcome(response_id: str, text: str = "tea", end: End | None = None) -> Outcome:
    return Outcome(
        response_id=response_id,
        snapshot=snapshot(response_id, text, end),
        counted_output_tokens=4,
        delivered_seq=2,
        worker="w1",
    )


async def test_everything_that_is_known_is_kept(row: Response) -> None:
    await Records().finalize(outcome(row.pk))
    await row.arefresh_from_db()
    assert (row.status, row.reason, row.worker) == ("completed", "", "w1")
    assert (row.input_tokens, row.output_tokens) == (11, 3)
    assert (row.cached_input_tokens, row.reasoning_tokens) == (2, 1)
    assert (row.usage_source, row.counted_output_tokens) == ("provider", 4)
    assert (row.delivered_seq, row.fold_epoch) == (2, 7)
    assert row.first_token_at is not None
    assert row.ended_at is not None
    assert (row.ended_at - row.first_token_at).total_seconds() == 1
    assert services.recorded(row) == snapshot(row.pk)


async def test_the_audit_entry_has_numbers_and_no_content(row: Response) -> None:
    await Records().finalize(outcome(row.pk, "secret", WALL_CLOCK))
    event = await AuditEvent.objects.aget()
    assert (event.action, event.actor, event.username, event.status) == (
        "ended",
        "",
        "ann",
        "failed",
    )
    assert (event.detail["output_tokens"], event.detail["reason"]) == (3, "wall_clock")
    assert "secret" not in json.dumps(event.detail)


async def test_the_first_end_is_the_one_that_stays(row: Response) -> None:
    await Records().finalize(outcome(row.pk))
    await Records().finalize(outcome(row.pk, "another", End.cancelled("user")))
    await row.arefresh_from_db()
    assert (row.status, services.recorded(row).text) == ("completed", "tea")
    assert await AuditEvent.objects.acount() == 1


async def test_nobodys_response_is_not_recorded(transactional_db: None) -> None:
    await Records().finalize(outcome("resp_0_" + "0" * 32))
    assert await AuditEvent.objects.acount() == 0


async def test_the_answer_becomes_a_message(user: User, chat: Chat, store: MemoryStore) -> None:
    sent = await services.send_message(user=user, chat=chat, text="hi")
    await Records().finalize(outcome(sent.response.pk, "te\0a"))
    answer = await Message.objects.aget(response=sent.response)
    assert answer.text == "te\N{REPLACEMENT CHARACTER}a"


async def test_an_erased_response_keeps_its_numbers_and_no_content(user: User) -> None:
    row = await sync_to_async(make_row)(user, erased_at=timezone.now())
    await Records().finalize(outcome(row.pk, "secret"))
    await row.arefresh_from_db()
    assert (row.status, row.output_tokens, row.fold, row.request) == ("completed", 3, "", "")


async def test_a_worker_is_told_whether_to_run(
    user: User, row: Response, store: MemoryStore
) -> None:
    record = await Records().load(row.pk)
    assert not record.final
    assert record.request is not None
    assert record.request.response_id == row.pk
    await submit(row)
    await Records().finalize(outcome(row.pk))
    assert (await Records().load(row.pk)).final
    assert (await Records().load("resp_0_" + "0" * 32)).final


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_database_that_is_away_is_said_so_in_relays_words(error: type[Exception]) -> None:
    with pytest.raises(RecordUnavailable), database_errors():
        raise error("gone")


def test_our_own_mistakes_are_not_called_an_outage() -> None:
    with pytest.raises(ValueError, match="ours"), database_errors():
        raise ValueError("ours")
