"""Retention: text is dropped when its time is over; figures and the trail stay.

How long it is kept says a person's plan, or `TEXT_RETENTION_DAYS` where there is none. A chat in
which nobody wrote for that long goes as a whole; of one that lives on, what is older goes. Bounded
batches, by any process, safe to repeat.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from chatapp import audit, runtime
from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Chat, Message, MessageHtml, Picture, Plan, Response
from chatapp.services.chats import remove_chat

if TYPE_CHECKING:
    from collections.abc import Sequence

WHY: Final = "retention"
CHATS: Final = 20
ANSWERS: Final = 100
PICTURES: Final = 100
"""At a time, and per term: about 50 ms of the database's thread."""
LOOK_EVERY_S: Final = 600.0
"""When nothing was left to drop. A term is of days."""


class Term(NamedTuple):
    days: int
    plan_id: int | None
    """Null: of people without a plan."""


class Retention:
    """For the sweep; one per process."""

    def __init__(self) -> None:
        self._look_at_s = 0.0

    async def __call__(self) -> None:
        """Raises RecordUnavailable, StoreUnavailable; the next sweep goes on."""
        if time.monotonic() < self._look_at_s:
            return
        more = False
        for term in await terms():
            more = await drop(term, timezone.now()) or more
        self._look_at_s = 0.0 if more else time.monotonic() + LOOK_EVERY_S


@on_database_thread
def terms() -> list[Term]:
    """Whose text is not kept for ever."""
    with database_errors():
        limited = Plan.objects.filter(text_retention_days__isnull=False)
        plans = limited.values_list("pk", "text_retention_days")
        found = [Term(days, pk) for pk, days in plans if days is not None]
    if settings.TEXT_RETENTION_DAYS > 0:
        found.append(Term(settings.TEXT_RETENTION_DAYS, None))
    return found


async def drop(term: Term, now: datetime) -> bool:
    """Drop some of what is older than a term; whether there may be more."""
    before = now - timedelta(days=term.days)
    dropped, more = await _drop(term, before)
    if term.days * 86_400 < runtime.config().retention_s:
        for response_id in dropped:
            await runtime.store().retire(response_id)
    return more


@on_database_thread
def _drop(term: Term, before: datetime) -> tuple[list[str], bool]:
    with database_errors():
        busy = Response.objects.running().filter(chat=OuterRef("pk"))
        old = Chat.objects.filter(~Exists(busy), user__plan=term.plan_id, updated_at__lt=before)
        chats = list(old.order_by("updated_at")[:CHATS])
        dropped = [pk for chat in chats for pk in remove_chat(chat, "", WHY)]
        answers = _drop_answers(term, before)
        shown = Picture.objects.filter(chat__user__plan=term.plan_id, created_at__lt=before)
        ids = list(shown.values_list("pk", flat=True)[:PICTURES])
        Picture.objects.filter(pk__in=ids).delete()
    more = len(chats) == CHATS or len(answers) == ANSWERS or len(ids) == PICTURES
    return dropped + answers, more


@transaction.atomic
def _drop_answers(term: Term, before: datetime) -> list[str]:
    rows = Response.objects.final().filter(erased_at=None, ended_at__lt=before)
    mine = rows.filter(user__plan=term.plan_id).select_related("user").order_by("ended_at")
    responses = list(mine.select_for_update(of=("self",), skip_locked=True)[:ANSWERS])
    erase(responses, actor="", why=WHY)
    ids = [row.pk for row in responses]
    answers = Message.objects.filter(response__in=ids)
    questions = Message.objects.filter(
        children__in=answers, role=Message.Role.USER, created_at__lt=before
    )
    gone = [*answers.values_list("pk", flat=True), *questions.values_list("pk", flat=True)]
    # In this order: whoever keeps HTML locks its message first (rendering/kept.py).
    Message.objects.filter(pk__in=gone).update(text="", pictured=[])
    MessageHtml.objects.filter(message__in=gone).delete()
    return ids


def erase(responses: Sequence[Response], *, actor: str, why: str) -> list[str]:
    """In a transaction: remove their content, and say so in the trail. The records stay.

    Returns ids of those that are final: their logs can go. One that is not keeps its request, which
    its worker may need; its end drops that, and its log.
    """
    ids = [row.pk for row in responses]
    rows = Response.objects.filter(pk__in=ids)
    rows.update(erased_at=timezone.now(), fold="", metadata="{}")
    rows.final().update(request="")
    for row in responses:
        audit.erased(row, actor=actor, why=why)
    return list(rows.final().values_list("pk", flat=True))
