"""System checks: what a deployment got wrong is said at start, with a hint (`manage.py check`)."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured

from chatapp import catalog
from chatapp.settings import TEMPORARY_KEY_PREFIX


def register_all() -> None:
    register(check_models)
    register(check_limits)
    register(check_secret_key, Tags.security, deploy=True)


def check_models(**kwargs: Any) -> list[CheckMessage]:
    try:
        found = catalog.catalog()
    except catalog.CatalogError as exc:
        return [Error(str(exc), hint="See the models file in README.md.", id="chatapp.E001")]
    return [Warning(text, id="chatapp.W001") for text in found.warnings]


def check_limits(**kwargs: Any) -> list[CheckMessage]:
    relay = settings.RELAY
    if relay.lease_s >= 2 * relay.renew_s:
        return []
    return [
        Error(
            f"RELAY_LEASE_S ({relay.lease_s:g}) must be at least twice RELAY_RENEW_S "
            f"({relay.renew_s:g}).",
            hint="With less, one renewal that is lost ends an answer as interrupted.",
            id="chatapp.E002",
        )
    ]


def check_secret_key(**kwargs: Any) -> list[CheckMessage]:
    if not _key_is_temporary():
        return []
    return [
        Error(
            "SECRET_KEY is not set.",
            hint="Each process made up its own: people are signed out by every restart.",
            id="chatapp.E003",
        )
    ]


def require_secret_key() -> None:
    """For servers. Raises ImproperlyConfigured when SECRET_KEY is the one made up by settings."""
    if _key_is_temporary() and not settings.DEBUG:
        raise ImproperlyConfigured(
            "Set SECRET_KEY to a long random text, the same for all processes, or DEBUG=1."
        )


def _key_is_temporary() -> bool:
    return str(settings.SECRET_KEY).startswith(TEMPORARY_KEY_PREFIX)
