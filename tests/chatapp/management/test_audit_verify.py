"""`manage.py audit_verify`: what it says, and the status it ends with."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from chatapp import audit
from chatapp.finalize import Records
from chatapp.models import AuditEvent, AuditSeal, Chat, Message, Response, User
from chatapp.services import delete_chat, regenerate, sealing, send_message
from chatapp.services.retention import Term, drop
from chatapp.services.sealing import seal_batch
from chatapp.shown import UNSEEN, reference
from tests.chatapp.conftest import make_row, talk, without_triggers
from tests.chatapp.test_finalize import outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from relay import MemoryStore

seal_alone: Callable[[], int] = seal_batch.__wrapped__  # type: ignore[attr-defined]


@pytest.fixture
def sealed(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of twelve entries in six seals."""
    monkeypatch.setattr(sealing, "BATCH", 2)
    rows = [
        AuditEvent.objects.create(at=timezone.now(), actor=f"ann {n}", action="test")
        for n in range(12)
    ]
    while seal_alone():
        pass
    return [row.pk for row in rows]


def verify(*arguments: str) -> str:
    out = StringIO()
    call_command("audit_verify", *arguments, stdout=out)
    return out.getvalue()


def heard(*arguments: str) -> str:
    """What it says before it ends with status 1."""
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("audit_verify", *arguments, stdout=out)
    return out.getvalue()


def do(sql: str, *params: Any) -> None:
    with without_triggers(), connection.cursor() as cursor:
        cursor.execute(sql, params)


def test_a_whole_chain_is_said_to_be_whole(sealed: list[int]) -> None:
    AuditEvent.objects.create(at=timezone.now(), actor="ann", action="test")
    said = verify()
    assert "12 entries are as they were sealed" in said
    assert "1 wait for their seal" in said
    last = AuditSeal.objects.get(number=6).plain().last_link.hex()
    assert f"Position 12, head {last}" in said


def test_a_chain_can_be_read_from_a_position_on(sealed: list[int]) -> None:
    do("UPDATE chatapp_auditevent SET actor = 'eve' WHERE id = %s", sealed[1])
    assert "8 entries are as they were sealed" in verify("--from", "5")
    assert "8 entries" in verify("--from", "6")  # its seal begins with 5
    assert "position 2, entry" in heard("--from", "1")
    with pytest.raises(CommandError, match="no position 13"):
        verify("--from", "13")


def test_a_noted_head_is_found_or_missed(sealed: list[int]) -> None:
    noted = AuditSeal.objects.get(number=3).plain().last_link.hex()
    assert "in the chain, at position 6" in verify("--head", noted)
    assert "not in the chain" in heard("--head", "00" * 32)
    with pytest.raises(CommandError, match="64 hexadecimal digits"):
        verify("--head", "abc")


def test_what_is_wrong_is_listed_with_its_place(
    sealed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    do("UPDATE chatapp_auditevent SET action = 'tent' WHERE id = %s", sealed[0])
    do("DELETE FROM chatapp_auditevent WHERE id = %s", sealed[4])
    do("DELETE FROM chatapp_auditseal WHERE number = 5")
    said = heard()
    assert f"position 1, entry {sealed[0]}: it was changed" in said
    assert f"position 5: entry {sealed[4]} was removed" in said
    assert "seal 5: removed, with positions 9 to 10" in said
    assert f"entries {sealed[8]} to {sealed[9]}: in no seal" in said
    monkeypatch.setattr("chatapp.management.commands.audit_verify.MOST_SHOWN", 1)
    assert "and 3 more" in heard()


def test_it_reads_a_part_at_a_time(sealed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatapp.entries.FETCH", 2)
    assert "12 entries" in verify()


# -- content ---------------------------------------------------------------------------------------


@pytest.fixture
async def answered(store: MemoryStore, chat: Chat, user: User) -> Response:
    """In a chat, asked and answered, as services write it."""
    return await _answered(chat, user)


async def _answered(chat: Chat, user: User) -> Response:
    row: Response = await sync_to_async(_ask)(chat, user)
    await Records().finalize(outcome(row.pk))
    await row.arefresh_from_db()
    return row


def _ask(chat: Chat, user: User, content: Any = "hello") -> Response:
    _, answer = talk(chat, "hello", "")
    row = make_row(user, asked=content, chat=chat)
    answer.response = row
    answer.save()
    audit.created(row, actor=user.username, detail={})
    return row


check = sync_to_async(verify)
complaint = sync_to_async(heard)


async def test_content_matches_what_the_trail_says(answered: Response) -> None:
    assert "1 responses match their digests; 0 were erased; 0 are from" in await check("--content")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE chatapp_response SET fold = replace(fold, 'tea', 'rum')", "the answer differs"),
        ("UPDATE chatapp_response SET request = request || ' '", "what was asked differs"),
        ("UPDATE chatapp_response SET fold = ''", "it is gone, and no entry says why"),
        ("UPDATE chatapp_message SET text = 'rum' WHERE role = 'assistant'", "shows another text"),
        ("UPDATE chatapp_message SET text = 'rum' WHERE role = 'user'", "shows another question"),
    ],
)
async def test_content_that_was_changed_is_found(
    answered: Response, change: str, said: str
) -> None:
    await sync_to_async(do)(change)
    found = await complaint("--content")
    assert f"response {answered.pk}: " in found
    assert said in found


@pytest.mark.parametrize(
    "content",
    [
        f"{UNSEEN}\n\n{UNSEEN}\n\nhello",
        [reference(1), {"type": "text", "text": "hello"}],
    ],
    ids=["not seen", "seen"],
)
async def test_a_question_is_compared_without_its_pictures(
    chat: Chat, user: User, store: MemoryStore, content: Any
) -> None:
    row: Response = await sync_to_async(_ask)(chat, user, content)
    await Records().finalize(outcome(row.pk))
    assert "1 responses match" in await check("--content")
    await Message.objects.filter(role="user").aupdate(text="ello")
    assert "shows another question" in await complaint("--content")


async def test_a_question_that_was_said_otherwise_while_it_waited_is_no_finding(
    chat: Chat, user: User, store: MemoryStore
) -> None:
    """Its request is made anew when it begins; this one was stopped before."""
    row: Response = await sync_to_async(_ask)(chat, user)
    await Message.objects.filter(role="user").aupdate(text="good day")
    await sync_to_async(audit.rewritten)(row, actor=user.username, question="good day")
    await Records().finalize(outcome(row.pk))
    said = await check("--content")
    assert "1 responses match" in said
    assert "0 questions of chats have no digest" in said
    await Message.objects.filter(role="user").aupdate(text="hello")  # as it was
    assert "shows another question" in await complaint("--content")


async def test_a_question_has_a_digest_of_its_own(
    chat: Chat, user: User, store: MemoryStore
) -> None:
    """Where it was emptied, or is not kept letter by letter as it was sent, that alone tells."""
    sent = await send_message(user=user, chat=chat, text="hello\0")
    await Records().finalize(outcome(sent.response.pk))
    said = await check("--content")
    assert "1 responses match" in said
    assert "0 questions of chats have no digest" in said
    questions = Message.objects.filter(pk=sent.message.pk)
    await questions.aupdate(text="")
    assert "shows no question any more, and no entry says why" in await complaint("--content")
    for text in ("rum", " ", "hello\N{REPLACEMENT CHARACTER} "):
        await questions.aupdate(text=text)
        assert "shows another question" in await complaint("--content")


async def test_a_question_without_a_digest_is_not_covered(
    chat: Chat, user: User, store: MemoryStore
) -> None:
    row: Response = await sync_to_async(_ask)(chat, user)
    await Records().finalize(outcome(row.pk))
    await Message.objects.filter(role="user").aupdate(text="")
    assert "1 questions of chats have no digest of their own (not covered)" in await check(
        "--content"
    )


async def test_a_question_that_was_dropped_with_one_of_its_answers_is_no_finding(
    chat: Chat, user: User, store: MemoryStore
) -> None:
    """Retention goes by answers: a newer one to the same question stays."""
    sent = await send_message(user=user, chat=chat, text="hello")
    await Records().finalize(outcome(sent.response.pk))
    again = await regenerate(message=sent.answer, by=user)
    await Records().finalize(outcome(again.response.pk))
    now = timezone.now()
    await Response.objects.all().aupdate(ended_at=now)
    await Response.objects.filter(pk=sent.response.pk).aupdate(ended_at=now - timedelta(days=9))
    await Chat.objects.all().aupdate(updated_at=now)
    await Message.objects.filter(pk=sent.message.pk).aupdate(created_at=now - timedelta(days=9))
    await drop(Term(days=7, plan_id=None), now)
    assert not (await Message.objects.aget(pk=sent.message.pk)).text
    await seal_batch()
    assert "1 responses match their digests; 1 were erased" in await check("--content")
    await Message.objects.filter(pk=sent.message.pk).aupdate(text="rum")
    assert "shows another question" in await complaint("--content")


async def test_erased_content_leaves_chain_and_digests_whole(
    answered: Response, chat: Chat, user: User
) -> None:
    await seal_batch()
    await delete_chat(chat=chat, by=user)
    await seal_batch()
    said = await check("--content")
    assert "3 entries are as they were sealed" in said
    assert "0 responses match their digests; 1 were erased" in said
    row = Response.objects.filter(pk=answered.pk)
    await row.aupdate(fold="{}")
    assert "was erased, and is there" in await complaint("--content")


async def test_a_removed_record_is_found(answered: Response, chat: Chat) -> None:
    await Message.objects.all().aupdate(response=None)
    await Response.objects.all().adelete()
    assert f"response {answered.pk}: its record was removed" in await complaint("--content")


async def test_records_from_before_digests_are_counted_apart(row: Response) -> None:
    now = timezone.now()
    await Response.objects.aupdate(status="completed", ended_at=now, fold="{}")
    await AuditEvent.objects.acreate(at=now, action="ended", response_id=row.pk)
    assert "1 are from before digests" in await check("--content")


async def test_a_trail_that_was_emptied_with_its_chain_is_found_by_what_it_told_of(
    answered: Response,
) -> None:
    """Nothing is left that could be whole or not; but each end was written with its entry."""
    await seal_batch()
    await sync_to_async(do)("DELETE FROM chatapp_auditevent")
    await sync_to_async(do)("DELETE FROM chatapp_auditseal")
    await sync_to_async(do)("DELETE FROM chatapp_audithead")
    found = await complaint("--content")
    assert f"response {answered.pk}: no entry tells of it; they were removed" in found
