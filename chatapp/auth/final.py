"""An erase is final also for requests that began before it: what they keep behind it goes at once.

For rows that libraries make, in transactions of their own or in none. Services ask `is_erased`.
"""

from __future__ import annotations

from typing import Any, Final

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.core.exceptions import PermissionDenied
from django.db.models.signals import post_save

from chatapp.models import ApiKey
from chatapp.models.people import is_erased

OF_PEOPLE: Final[tuple[Any, ...]] = (EmailAddress, Authenticator, UserSession, ApiKey)


def keep() -> None:
    """Call once, when all apps are there."""
    for model in OF_PEOPLE:
        post_save.connect(_undo, sender=model, dispatch_uid=f"final {model.__name__}")


def _undo(sender: Any, instance: Any, created: bool, raw: bool, **_: Any) -> None:
    if created and not raw and is_erased(instance.user_id):
        instance.delete()
        raise PermissionDenied
