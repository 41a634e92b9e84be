"""Erasing a person: nothing that they said is left, and nothing that says who they were.

What stays are figures, under a pseudonym, and the audit trail, which is never changed: it has the
user name, and no text. That name can therefore not be taken by anybody else (auth/adapter.py).
"""

from __future__ import annotations

import asyncio
from typing import Final

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.utils.translation import gettext_lazy as _

from chatapp import audit, runtime
from chatapp.acting import acting
from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread
from chatapp.models import ApiKey, Chat, Flag, Response, User
from chatapp.models.people import ERASED
from chatapp.services.chats import remove_chat
from chatapp.services.errors import BadInput
from chatapp.services.retention import erase
from chatapp.services.stopping import cancel
from relay import StopReason

WHY: Final = "person erased"
ANSWERS: Final = 200
"""Per transaction."""


async def erase_user(*, user: User, by: str) -> str:
    """Erase a person; the name that their records have from now on.

    First nothing of theirs can begin any more: keys and sessions are gone. Then running answers are
    stopped, chats, pictures and the content of answers removed with their logs, and at last what
    says who it was. Safe to repeat: a second call goes on where one broke off. `by`: the user name
    of whoever wishes it, empty for the server's operator.

    Raises BadInput for the last administrator. Raises StoreUnavailable, RecordUnavailable: if that
    comes in the middle, nobody can sign in as them any more, and the rest is done by a repeat.
    """
    await runtime.store().ping()  # one that is away would leave it half done
    await _lock_out(user, by)
    await asyncio.gather(*[_stop(row, by == user.username) for row in await _running(user)])
    while True:
        for chat in await _chats(user):
            await _retire(await on_database_thread(remove_chat)(chat, by, WHY))
        more = True
        while more:
            more, ended = await _erase_some(user, by)
            await _retire(ended)
        if name := await _forget(user, by):
            return name


async def _stop(row: Response, by_themselves: bool) -> None:
    reason = StopReason.USER if by_themselves else StopReason.ADMIN
    await cancel(response=row, by=None, reason=reason)


async def _retire(response_ids: list[str]) -> None:
    for response_id in response_ids:
        await runtime.store().retire(response_id)


@on_database_thread
def _lock_out(user: User, by: str) -> None:
    with database_errors(), transaction.atomic(), acting(by):
        others = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk)
        if user.is_superuser and user.is_active and not others.exists():
            raise BadInput(
                _("This is the last administrator. Make somebody else one first; nothing is gone.")
            )
        user.is_active = user.is_staff = user.is_superuser = False
        user.set_unusable_password()
        user.save(update_fields=["is_active", "is_staff", "is_superuser", "password"])
        user.groups.clear()
        user.user_permissions.clear()
        _remove_credentials(user)


def _remove_credentials(user: User) -> None:
    for session in UserSession.objects.filter(user=user):
        session.end()
    ApiKey.objects.filter(user=user).delete()
    Authenticator.objects.filter(user=user).delete()
    EmailAddress.objects.filter(user=user).delete()


@on_database_thread
def _running(user: User) -> list[Response]:
    with database_errors():
        return list(Response.objects.running().filter(user=user).order_by("-waits"))


@on_database_thread
def _chats(user: User) -> list[Chat]:
    with database_errors():
        return list(Chat.objects.filter(user=user))


@on_database_thread
def _erase_some(user: User, by: str) -> tuple[bool, list[str]]:
    with database_errors(), transaction.atomic():
        rows = Response.objects.filter(user=user, erased_at=None).select_related("user")
        some = list(rows[:ANSWERS])
        return bool(some), erase(some, actor=by, why=WHY)


@on_database_thread
def _forget(user: User, by: str) -> str:
    """Empty, and nothing done, if a question that was let in before has come since."""
    with database_errors(), transaction.atomic():
        # Who writes something of theirs shares this row until the commit (`is_erased`); whoever
        # comes later sees the new name.
        user = User.objects.select_for_update().get(pk=user.pk)
        unerased = Response.objects.filter(user=user, erased_at=None)
        if unerased.exists() or Chat.objects.filter(user=user).exists():
            return ""
        name = user.username
        if name.startswith(ERASED):
            return name  # it was done before
        pseudonym = f"{ERASED}{user.pk}"
        _remove_credentials(user)  # what came since
        answers = Response.objects.filter(user=user).count()
        Response.objects.filter(user=user, stop_by=name).update(stop_by=pseudonym)
        Flag.objects.filter(response__user=user).update(note="")
        Flag.objects.filter(by=name).update(by=pseudonym, note="")
        about = {"content_type": ContentType.objects.get_for_model(User), "object_id": str(user.pk)}
        LogEntry.objects.filter(**about).update(object_repr=pseudonym)
        user.username = pseudonym
        user.first_name = user.last_name = user.email = ""
        user.theme = user.language = user.announces = ""
        user.last_login = None
        user.save()
        audit.person_erased(name, actor=by, pseudonym=pseudonym, answers=answers)
        return pseudonym
