"""What this site decides where allauth asks (https://docs.allauth.org, account adapter)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allauth.account.adapter import DefaultAccountAdapter
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext_lazy as _

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

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return settings.SIGN_UP

    def get_client_ip(self, request: HttpRequest) -> Any:
        try:
            return super().get_client_ip(request)
        except PermissionDenied:  # allauth's word for "there is none"
            return NOWHERE
