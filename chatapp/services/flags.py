"""Flag an answer, or take the flag away. Each leaves an audit entry."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from chatapp import audit
from chatapp.finalize import plain
from chatapp.models import Flag, Response, User
from chatapp.models.people import is_erased


@transaction.atomic
def flag(row: Response, *, by: str, note: str) -> None:
    """Safe to repeat; a new note takes the place of the old one. Of and by who was erased since
    nothing is written down."""
    writer = User.objects.filter(username=by).values_list("pk", flat=True).first()
    if writer is None or is_erased(writer):
        raise PermissionDenied
    if is_erased(row.user_id):
        note = ""
    values = {"note": plain(note.strip())[:500], "by": by, "at": timezone.now()}
    Flag.objects.update_or_create(response=row, defaults=values)
    audit.flagged(row, actor=by, flag=True)


@transaction.atomic
def unflag(row: Response, *, by: str) -> None:
    if Flag.objects.filter(response=row).delete()[0]:
        audit.flagged(row, actor=by, flag=False)
