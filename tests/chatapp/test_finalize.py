"""A record is written once, whole, and not at all when the database is away (PROTOCOL 8)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

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
    Event,
    Outcome,
    RecordUnavailable,
    TextDelta,
    UsageCount,
    ended,
    fold,
    text_sha256,
)
from relay.events import Notice, Started
from tests.chatapp.conftest import make_row

if TYPE_CHECKING:
    from pathlib import Path

    from relay import MemoryStore, Snapshot

pytestmark = pytest.mark.usefixtures("store")

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


def written(
    row: Response, *events: Event, usage: UsageCount | None = None, counted: int | None = 4
) -> Outcome:
    """The end of an answer to `row` that was begun, with these events in between."""
    begun = [
        Created(seq=1, response_id=row.pk, model="fast", created_at="2026-01-01T00:00:00Z"),
        Started(seq=2, upstream_model="fast-1", attempt=1, epoch=7),
    ]
    end = ended(End.finished("stop"), epoch=7, usage=usage)
    return Outcome(
        response_id=row.pk, snapshot=fold([*begun, *events, end]), counted_output_tokens=counted
    )


async def test_the_fallback_that_answered_is_named_and_priced(
    row: Response, tmp_path: Path, settings: Any
) -> None:
    path = tmp_path / "priced.toml"
    entry = 'dialect = "openai-chat"\nbase_url = "http://x"\nupstream_model = "m"\n'
    prices = "input_price_per_mtok = 1\noutput_price_per_mtok = 2.5\n"
    path.write_text(f"[models.fast]\n{entry}[models.other]\n{entry}{prices}")
    settings.RELAY_MODELS = str(path)
    notice = Notice(code="fallback", message="other answers instead", model="other")
    await Records().finalize(written(row, notice, usage=USAGE))
    await row.arefresh_from_db()
    assert (row.model, row.answered_by) == ("fast", "other")
    assert row.cost == Decimal("0.0000185")  # 11 and 3 tokens


async def test_an_answer_without_prices_costs_nobody_knows_what(row: Response) -> None:
    await Records().finalize(written(row, usage=USAGE))
    await row.arefresh_from_db()
    assert (row.answered_by, row.cost) == ("fast", None)


async def test_who_was_never_asked_has_not_answered(row: Response) -> None:
    await Records().finalize(outcome(row.pk))  # no `started`
    await row.arefresh_from_db()
    assert row.answered_by == ""


@pytest.mark.parametrize(
    ("usage", "counted", "difference"),
    [
        (USAGE, 4, -1),
        (USAGE, None, None),
        (UsageCount(input_tokens=1), 4, None),
        (UsageCount(output_tokens=4, source="counted"), 4, None),
    ],
)
async def test_the_providers_count_is_compared_with_ours(
    row: Response, usage: UsageCount, counted: int | None, difference: int | None
) -> None:
    await Records().finalize(written(row, usage=usage, counted=counted))
    await row.arefresh_from_db()
    assert (row.usage_source, row.counted_output_tokens) == (usage.source, counted)
    assert row.uncounted_output_tokens == difference


async def test_an_end_without_usage_is_recorded_with_our_own_count(row: Response) -> None:
    await Records().finalize(written(row, counted=6))
    await row.arefresh_from_db()
    assert (row.usage_source, row.input_tokens, row.output_tokens) == ("counted", None, 6)


async def test_a_provider_that_counts_beyond_reason_is_recorded_all_the_same(
    row: Response,
) -> None:
    await Records().finalize(written(row, usage=UsageCount(output_tokens=10**14)))
    await row.arefresh_from_db()
    assert (row.status, row.output_tokens) == ("completed", 2**31 - 1)


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
