"""System checks: what a deployment got wrong is said at start, with a hint (`manage.py check`)."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final

import redis
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.module_loading import import_string
from redis.exceptions import RedisClusterException

from chatapp import catalog
from chatapp.redis_clients import connect
from chatapp.settings import TEMPORARY_KEY_PREFIX
from relay import read_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from relay import ModelConfig

REDIS_S: Final = 2.0
SHARDS_TRIED: Final = 200
LONG_RETENTION_S: Final = 7 * 86_400
OLDEST_REDIS: Final = (7, 2)
"""Before it a consumer that waits and gets nothing leaves no trace, so idle workers seem absent."""


def register_all() -> None:
    register(check_models)
    register(check_redaction)
    register(check_limits)
    register(check_proxies, Tags.security)
    register(check_middleware, Tags.security)
    register(check_secret_key, Tags.security, deploy=True)
    register(check_transport, Tags.security, deploy=True)
    register(check_spans, deploy=True)
    register(check_redis, deploy=True)
    register(check_database, deploy=True)


def check_models(**kwargs: Any) -> list[CheckMessage]:
    try:
        found = catalog.catalog()
    except catalog.CatalogError as exc:
        return [Error(str(exc), hint="See deploy/models.example.toml.", id="chatapp.E001")]
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


def check_redaction(**kwargs: Any) -> list[CheckMessage]:
    if not settings.REDACT:
        return []
    try:
        if callable(import_string(settings.REDACT)):
            return []
        trouble = "it is not callable"
    except ImportError as exc:
        trouble = str(exc)
    hint = "Texts would be refused. It is a dotted path, such as chatapp.redaction.mask."
    return [Error(f"REDACT: {trouble}.", hint=hint, id="chatapp.E006")]


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


def check_proxies(**kwargs: Any) -> list[CheckMessage]:
    wrong = [proxy for proxy in settings.TRUSTED_PROXIES if not _is_network(proxy)]
    return [
        Error(
            f"TRUSTED_PROXIES: {proxy!r} is neither an address nor a network.",
            hint="Name each proxy, as in 10.0.0.5 or 10.0.0.0/24; never everybody.",
            id="chatapp.E004",
        )
        for proxy in wrong
    ]


def _is_network(text: str) -> bool:
    try:
        return ip_network(text).prefixlen > 0  # 0: the whole internet
    except ValueError:
        return False


def check_middleware(**kwargs: Any) -> list[CheckMessage]:
    """What Django's security.W001 to W003 ask, of classes instead of names."""
    used = [import_string(name) for name in settings.MIDDLEWARE]
    return [
        Error(f"MIDDLEWARE has no {wanted.__name__} nor anything made from it.", id="chatapp.E005")
        for wanted in (SecurityMiddleware, CsrfViewMiddleware, XFrameOptionsMiddleware)
        if not any(isinstance(one, type) and issubclass(one, wanted) for one in used)
    ]


def check_transport(**kwargs: Any) -> list[CheckMessage]:
    """What Django asks only where it finds its own SecurityMiddleware by name.

    But for includeSubDomains and preload: whether the domain's other hosts speak TLS is not for
    this site to say.
    """
    found: list[CheckMessage] = []
    if not settings.SECURE_SSL_REDIRECT:
        found.append(
            Warning(
                "SECURE_SSL_REDIRECT is not set: what is sent over http:// can be read on its way.",
                hint="Set it to 1, behind a proxy together with TRUSTED_PROXIES.",
                id="chatapp.W008",
            )
        )
    if not settings.SECURE_HSTS_SECONDS:
        found.append(
            Warning(
                "SECURE_HSTS_SECONDS is 0: a browser's first request can be led astray each time.",
                id="chatapp.W009",
            )
        )
    return found


def check_spans(**kwargs: Any) -> list[CheckMessage]:
    """Lengths of time that contradict each other."""
    relay = settings.RELAY
    odd = []
    for name, limit_s in (("READ_S", relay.read_s), ("FIRST_BYTE_S", relay.first_byte_s)):
        if relay.lease_s >= limit_s:
            odd.append(
                f"RELAY_LEASE_S ({relay.lease_s:g}) is not below RELAY_{name} ({limit_s:g}): an "
                "answer whose worker died is silent for longer than one that is given up."
            )
    if relay.retention_s < relay.cancel_after_s:
        odd.append(
            f"RELAY_RETENTION_S ({relay.retention_s:g}) is below RELAY_CANCEL_AFTER_S "
            f"({relay.cancel_after_s:g}): who comes back in time finds no log to resume from."
        )
    if relay.retention_s > LONG_RETENTION_S:
        odd.append(
            f"RELAY_RETENTION_S ({relay.retention_s:g}) keeps the logs of days in Redis, whose "
            "memory they fill; the database has every answer anyway."
        )
    return [Warning(text, id="chatapp.W003") for text in odd]


def check_redis(**kwargs: Any) -> list[CheckMessage]:
    address = read_address(settings.REDIS_URL)
    found: list[CheckMessage] = []
    if address.kind != "server" and len(address.hosts) == 1:
        found.append(
            Warning(
                f"REDIS_URL names one host of a {address.kind}: while it is away nothing starts.",
                hint="Name several, separated by commas.",
                id="chatapp.W010",
            )
        )
    try:
        with connect(settings.REDIS_URL, REDIS_S) as client:
            infos = [primary.info() for primary in _primaries(client)]
            if isinstance(client, redis.RedisCluster):
                found += _idle_primaries(client)
    except (redis.RedisError, RedisClusterException) as exc:
        # Not the text: with a bad address it may quote REDIS_URL, whose password it is.
        unasked = Warning(
            f"Redis could not be asked how it is set up ({type(exc).__name__}).",
            hint="Run this where REDIS_URL can be reached.",
            id="chatapp.W004",
        )
        return [*found, unasked]
    found += _too_old({str(info["redis_version"]) for info in infos})
    policies = {info.get("maxmemory_policy", "noeviction") for info in infos} - {"noeviction"}
    if policies:
        found.append(
            Warning(
                f"Redis evicts ({', '.join(sorted(policies))}): it would throw away logs of "
                "running answers.",
                hint="Set maxmemory-policy noeviction; a full Redis then refuses new answers.",
                id="chatapp.W005",
            )
        )
    if not all(info.get("aof_enabled") for info in infos):
        found.append(
            Warning(
                "Redis keeps no append-only file: its restart ends every running answer.",
                hint="Set appendonly yes and appendfsync everysec.",
                id="chatapp.W006",
            )
        )
    # Told only where min-replicas-to-write is set; CONFIG may be forbidden.
    if any(info["connected_slaves"] and "min_slaves_good_slaves" not in info for info in infos):
        found.append(
            Warning(
                "A primary that was cut off from its replicas goes on taking writes, which are "
                "lost when one of them has replaced it.",
                hint="Set min-replicas-to-write 1 and min-replicas-max-lag 10 on all servers.",
                id="chatapp.W011",
            )
        )
    return found


def _too_old(versions: set[str]) -> list[CheckMessage]:
    """Valkey calls itself Redis 7.2.4 there, whichever it is."""
    old = {one for one in versions if tuple(map(int, one.split(".")[:2])) < OLDEST_REDIS}
    if not old:
        return []
    return [
        Error(
            f"Redis {', '.join(sorted(old))} is too old: workers that wait for questions are not "
            "seen there, so /readyz and an alert say that there are none.",
            hint="Use Valkey 8 or later, or Redis 7.2 or later.",
            id="chatapp.E007",
        )
    ]


def _primaries(client: redis.Redis | redis.RedisCluster) -> list[redis.Redis]:
    if isinstance(client, redis.RedisCluster):
        primaries = client.get_primaries()  # type: ignore[no-untyped-call]
        return [client.get_redis_connection(node) for node in primaries]
    return [client]


def _idle_primaries(client: redis.RedisCluster) -> list[CheckMessage]:
    """Those that no answer is written to: each shard is one slot (PROTOCOL 13.5)."""
    primaries = client.get_primaries()  # type: ignore[no-untyped-call]
    wanted = {node.name for node in primaries}

    def met(shards: int) -> set[str]:
        names = [f"{{{shard}}}" for shard in range(shards)]
        return {client.get_node_from_key(name).name for name in names}  # type: ignore[no-untyped-call]

    idle = len(wanted - met(settings.RELAY.shards))
    if not idle:
        return []
    enough = next((n for n in range(1, SHARDS_TRIED) if met(n) >= wanted), SHARDS_TRIED)
    return [
        Warning(
            f"{idle} of {len(wanted)} primaries of the cluster get no answers.",
            hint=f"Set RELAY_SHARDS={enough}, the least that gives each of them some.",
            id="chatapp.W012",
        )
    ]


def check_database(**kwargs: Any) -> list[CheckMessage]:
    if settings.WEB_CONCURRENCY <= 1 or connection.vendor != "sqlite":
        return []
    return [
        Warning(
            f"{settings.WEB_CONCURRENCY} web processes share SQLite, which has one writer.",
            hint="Set WEB_CONCURRENCY=1, or use PostgreSQL.",
            id="chatapp.W007",
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
