"""A person's own keys, sessions and preferences: what the account page shows and changes.

Whatever is revoked here loses its open streams within 5 s (chatapp/auth/live.py).
"""

from __future__ import annotations

from typing import Final

from allauth.usersessions.models import UserSession
from django.db import transaction
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from chatapp import audit
from chatapp.auth import make_key
from chatapp.auth.second_step import has_second_step, recovery_codes_left
from chatapp.finalize import database_errors, plain
from chatapp.languages import LANGUAGES
from chatapp.middleware.threads import on_database_thread
from chatapp.models import ApiKey, User
from chatapp.services.errors import BadInput

MAX_KEYS: Final = 50
"""Unrevoked ones of a person: more than anybody has scripts, less than a mistake makes."""
NAME_CHARS: Final = 100


@on_database_thread
def usable_keys(user: User) -> list[ApiKey]:
    with database_errors():
        return list(ApiKey.objects.usable().filter(user=user))


@on_database_thread
def make_api_key(user: User, name: str) -> str:
    """The key itself, which is kept nowhere. Raises BadInput at MAX_KEYS."""
    name = plain(" ".join(name.split()))[:NAME_CHARS]
    with database_errors(), transaction.atomic():
        if ApiKey.objects.usable().filter(user=user).count() >= MAX_KEYS:
            full = _("You have {limit} keys. Revoke one that you no longer use first.")
            raise BadInput(format_lazy(full, limit=MAX_KEYS))
        key = make_key(user, name)
        audit.key_changed(user.username, action="key made", name=name)
        return key


@on_database_thread
def revoke_api_key(user: User, key_id: int) -> bool:
    """False if it is not theirs, or was revoked before."""
    with database_errors(), transaction.atomic():
        key = ApiKey.objects.usable().filter(user=user, pk=key_id).first()
        if key is None:
            return False
        key.revoked_at = timezone.now()
        key.save(update_fields=["revoked_at"])
        audit.key_changed(user.username, action="key revoked", name=key.name)
        return True


@on_database_thread
def codes_left(user: User) -> int | None:
    """Recovery codes of somebody who is asked for codes when they sign in; None: nobody asks."""
    with database_errors():
        return recovery_codes_left(user) if has_second_step(user) else None


@on_database_thread
def sessions_of(user: User) -> list[UserSession]:
    """Where this person is signed in, the latest first; what has expired is forgotten."""
    with database_errors():
        found: list[UserSession] = UserSession.objects.purge_and_list(user)
    return sorted(found, key=lambda session: session.created_at, reverse=True)


@on_database_thread
def end_sessions(user: User, *, keep: str, session_id: int | None = None) -> int:
    """Sign out elsewhere: one session, or all but `keep`, the key of this one; how many ended."""
    with database_errors(), transaction.atomic():
        rows = UserSession.objects.filter(user=user).exclude(session_key=keep)
        if session_id is not None:
            rows = rows.filter(pk=session_id)
        sessions = list(rows)
        for session in sessions:
            session.end()
        if sessions:
            audit.sessions_ended(user.username, count=len(sessions))
        return len(sessions)


@on_database_thread
def save_preferences(
    user: User,
    *,
    theme: str,
    language: str,
    announces: str,
    enter_sends: bool,
    keeps_answering: bool,
) -> None:
    """Raises BadInput for a theme, a language or a way to announce answers that there is not."""
    if theme and theme not in User.Theme.values:
        raise BadInput(_("There is no such look. Choose light, dark, or the device's own."))
    if language and language not in dict(LANGUAGES):
        raise BadInput(_("This site does not speak that language. Choose one of the list."))
    if announces and announces not in User.Announces.values:
        raise BadInput(_("Answers are not announced like that. Choose one of the list."))
    user.theme, user.language, user.announces = theme, language, announces
    user.enter_sends, user.keeps_answering = enter_sends, keeps_answering
    with database_errors():
        user.save(
            update_fields=["theme", "language", "announces", "enter_sends", "keeps_answering"]
        )
