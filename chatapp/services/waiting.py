"""Messages that wait for the end of another answer: what they say can still be changed."""

from __future__ import annotations

import asyncio

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from chatapp import audit
from chatapp.finalize import database_errors, plain
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Message, Response, User
from chatapp.redaction import RedactionFailed, redact
from chatapp.services import limits
from chatapp.services.errors import BadInput, NotChecked, NotWaiting


async def rewrite(*, message: Message, by: User, text: str) -> Message:
    """Say it otherwise while nobody has been asked yet: no version, the message itself changes.

    Safe to repeat. Raises BadInput, TooLarge; NotWaiting when its answer has begun or was removed,
    and then nothing is changed.
    """
    if message.role != Message.Role.USER:
        raise BadInput(_("Only a message of a person can be edited; this one is an answer."))
    if text.strip() or not message.pictured:
        limits.check_text(text)
    try:
        text = await asyncio.to_thread(redact, text)
    except RedactionFailed as exc:
        raise NotChecked from exc
    return await _rewrite(message, plain(text), by.username)


@on_database_thread
def _rewrite(message: Message, text: str, by: str) -> Message:
    with database_errors(), transaction.atomic():
        rows = Response.objects.waiting().filter(message__parent=message, stop_requested_at=None)
        # Whoever begins it locks the row before it reads what was said (`writing.begin`).
        row = rows.select_for_update(of=("self",)).select_related("user").first()
        if row is None:
            raise NotWaiting
        if text != message.text:
            message.text = text
            message.save(update_fields=["text"])
            audit.rewritten(row, actor=by, question=text)
        return message
