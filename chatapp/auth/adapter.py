"""What this site decides where allauth asks (https://docs.allauth.org, account adapter)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allauth.account.adapter import DefaultAccountAdapter
from django.conf import settings
from django.core.exceptions import PermissionDenied, ValidationError
from django.utils.translation import gettext_lazy as _

from chatapp.models import AuditEvent
from chatapp.models.people import ERASED

if TYPE_CHECKING:
    from django.http import HttpRequest

NOWHERE: Final = "::"
"""Address of whoever comes over a Unix socket, where there are none."""


class Adapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth is untyped
    error_messages = DefaultAccountAdapter.error_messages | {
        # Of settings.ACCOUNT_RATE_LIMITS the longest.
        "too_many_login_attempts": _(
            "Too many failed attempts to sign in. Wait five minutes, then try again; nothing was "
            "changed."
        )
    }

    def clean_username(self, username: str, shallow: bool = False) -> Any:
        """A name that the audit trail has stays with whoever had it, also if they were erased."""
        name = super().clean_username(username, shallow)
        of_others = AuditEvent.objects.filter(username=name)
        if not shallow and (name.lower().startswith(ERASED) or of_others.exists()):
            raise ValidationError(_("This name was used here before. Choose another one."))
        return name

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return settings.SIGN_UP

    def get_client_ip(self, request: HttpRequest) -> Any:
        try:
            return super().get_client_ip(request)
        except PermissionDenied:  # allauth's word for "there is none"
            return NOWHERE
