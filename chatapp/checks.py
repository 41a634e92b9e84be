"""System checks: what a deployment got wrong is said at start, with a hint (`manage.py check`)."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured

from chatapp import catalog
from chatapp.settings import TEMPORARY_KEY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from relay import ModelConfig


def register_all() -> None:
    register(check_models)
    register(check_limits)
    register(check_secret_key, Tags.security, deploy=True)


def check_models(**kwargs: Any) -> list[CheckMessage]:
    try:
        found = catalog.catalog()
    except catalog.CatalogError as exc:
        return [Error(str(exc), hint="See the models file in README.md.", id="chatapp.E001")]
    return [
        *(Warning(text, id="chatapp.W001") for text in found.warnings),
        *(Warning(text, id="chatapp.W002") for text in odd_fallbacks(found.models)),
    ]


def odd_fallbacks(found: Mapping[str, ModelConfig]) -> list[str]:
    """What a fallback list cannot mean. Only the list of the model that was asked is used."""
    warnings = []
    for name, model in found.items():
        if name in model.fallback:
            warnings.append(f"models.{name}: it is its own fallback; a failed request is retried")
        if len(set(model.fallback)) < len(model.fallback):
            warnings.append(f"models.{name}: fallback names a model twice")
    others = {name: set(model.fallback) - {name} for name, model in found.items()}
    try:
        TopologicalSorter(others).prepare()
    except CycleError as exc:
        way = " → ".join(reversed(exc.args[1]))
        warnings.append(
            f"models: fallback goes round ({way}). The fallbacks of a fallback are not asked, so "
            "each list should name all who may answer for its model."
        )
    return warnings


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
