"""Invariants that the database itself keeps."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from chatapp.models import (
    FINAL,
    RUNNING,
    AppendOnly,
    AuditEvent,
    Chat,
    Message,
    Response,
    User,
)
from tests.chatapp.conftest import make_row, talk


def event(**columns: Any) -> AuditEvent:
    return AuditEvent.objects.create(at=timezone.now(), actor="ann", action="created", **columns)


def test_states_are_running_or_final() -> None:
    assert RUNNING == ["queued", "in_progress"]
    assert FINAL == ["completed", "incomplete", "failed", "cancelled", "interrupted"]


@pytest.mark.parametrize("status", ["", "done", "COMPLETED"])
def test_an_unknown_state_is_refused(user: User, status: str) -> None:
    with pytest.raises(IntegrityError, match=r"response_status_known|response_final_has_end"):
        make_row(user, status=status)


def test_a_final_row_has_a_time_of_its_end(user: User) -> None:
    with pytest.raises(IntegrityError, match="response_final_has_end"):
        make_row(user, status="completed")


def test_a_chat_answers_one_message_at_a_time(user: User, chat: Chat) -> None:
    make_row(user, chat=chat)
    make_row(user, chat=chat, status="completed", ended_at=timezone.now())
    with pytest.raises(IntegrityError):
        make_row(user, chat=chat, status="in_progress")
    make_row(user)
    make_row(user)


def test_a_key_is_used_once_per_person(user: User, stranger: User) -> None:
    make_row(user, idempotency_key="k")
    make_row(stranger, idempotency_key="k")
    with pytest.raises(IntegrityError):
        make_row(user, idempotency_key="k")


def test_a_position_is_taken_once(chat: Chat) -> None:
    Message.objects.create(chat=chat, role="user", position=1)
    with pytest.raises(IntegrityError):
        Message.objects.create(chat=chat, role="user", position=1)


def test_a_role_is_one_of_three(chat: Chat) -> None:
    with pytest.raises(IntegrityError, match="message_role_known"):
        Message.objects.create(chat=chat, role="tool", position=1)


def test_a_person_with_records_is_not_deleted(user: User, row: Response) -> None:
    with pytest.raises(ProtectedError):
        user.delete()


def test_others_and_erased_responses_are_not_visible(user: User, stranger: User) -> None:
    mine = make_row(user)
    make_row(stranger)
    make_row(user, erased_at=timezone.now())
    assert list(Response.objects.visible_to(user)) == [mine]


def test_a_path_leads_to_one_leaf_and_leaves_other_versions_out(user: User, chat: Chat) -> None:
    asked, first, *_ = talk(chat, "asked", "half", "more", "")
    beside = Message.objects.create(
        chat=chat, role="assistant", text="whole", position=5, parent=asked
    )

    def said(leaf: int | None) -> list[str]:
        path = Message.objects.path_to(leaf).said().order_by("position")
        return [message.text for message in path]

    assert said(beside.pk) == ["asked", "whole"]
    assert said(chat.current_id) == ["asked", "half", "more"], "an empty answer says nothing"
    assert said(first.pk) == ["asked", "half"]
    assert said(None) == []


def test_an_answer_answers_something_and_nothing_hangs_below_itself(user: User, chat: Chat) -> None:
    with pytest.raises(IntegrityError, match="has_question"), transaction.atomic():
        Message.objects.create(chat=chat, role="assistant", position=1)
    asked = Message.objects.create(chat=chat, role="user", position=1)
    with pytest.raises(IntegrityError, match="own_parent"), transaction.atomic():
        Message.objects.filter(pk=asked.pk).update(parent=asked)


def test_audit_entries_are_neither_changed_nor_removed(transactional_db: None) -> None:
    entry = event()
    entry.actor = "somebody else"
    for change in (
        entry.save,
        entry.delete,
        AuditEvent.objects.all().delete,
        lambda: AuditEvent.objects.update(actor="x"),
        lambda: AuditEvent.objects.bulk_update([entry], ["actor"]),
    ):
        with pytest.raises(AppendOnly):
            change()
    assert AuditEvent.objects.get().actor == "ann"


def test_the_database_refuses_a_changed_audit_entry_too(transactional_db: None) -> None:
    event()
    with (
        pytest.raises(DatabaseError, match="never changed"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute("UPDATE chatapp_auditevent SET actor = 'x'")


def test_the_database_refuses_to_replace_an_audit_entry(transactional_db: None) -> None:
    """SQLite removes the row that is replaced without asking its DELETE trigger."""
    event()
    statement = (
        "INSERT OR REPLACE INTO chatapp_auditevent SELECT * FROM chatapp_auditevent"
        if connection.vendor == "sqlite"
        else "INSERT INTO chatapp_auditevent SELECT * FROM chatapp_auditevent "
        "ON CONFLICT (id) DO UPDATE SET actor = 'x'"
    )
    with (
        pytest.raises(DatabaseError, match=r"never (replaced|changed)"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    assert AuditEvent.objects.get().actor == "ann"


def test_names_are_shown(user: User, chat: Chat, row: Response) -> None:
    chat.title = "Tea"  # made of what was said, which admin shows to nobody unasked
    message = Message(chat=chat, role="user", position=3)
    assert [str(thing) for thing in (chat, row, message)] == [str(chat.pk), row.pk, "user 3"]
    assert str(AuditEvent(action="ended", response_id="r")) == "ended r"
