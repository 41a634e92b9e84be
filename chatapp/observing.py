"""Settings of metrics, traces and logs, read by chatapp/settings.py as all others are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from chatapp.logs import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Observing:
    metrics_token: str
    """Whoever sends it may read metrics, from anywhere; empty: nobody by a token."""
    metrics_from: list[str]
    """Addresses and networks that may read metrics at the site's own address."""
    metrics_host: str
    metrics_port: int
    """First of `PORTS` ports of which each process takes one; 0: none listens."""
    log_format: Shape
    otlp_endpoint: str
    """Empty: no traces, and no exporter is imported."""


def read(env: Callable[..., Any], reader: Any) -> Observing:
    """`env` and `reader` are those of settings.py. Raises ImproperlyConfigured."""
    observing = Observing(
        metrics_token=env(
            reader.str,
            "METRICS_TOKEN",
            "",
            "a bearer token that /metrics is shown for, from anywhere",
            shown="none",
        ),
        metrics_from=env(
            reader.list,
            "METRICS_FROM",
            [],
            "addresses or networks that /metrics is shown to; separated by commas",
            shown="none",
        ),
        metrics_host=env(
            reader.str,
            "METRICS_HOST",
            "127.0.0.1",
            "where METRICS_PORT is listened on; elsewhere only with METRICS_TOKEN",
        ),
        metrics_port=env(
            reader.int,
            "METRICS_PORT",
            0,
            "each web process and worker shows its own /metrics on the first free port from this "
            "one on; 0 = none",
        ),
        log_format=_shape(
            env(reader.str, "LOG_FORMAT", "lines", "`lines` for people, or `json` for machines")
        ),
        otlp_endpoint=env(
            reader.str,
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "",
            "where OpenTelemetry traces and metrics are sent (OTLP over HTTP), as in "
            "http://127.0.0.1:4318; the other OTEL_ variables are heard as well",
            shown="none",
        ),
    )
    if not (observing.metrics_token or _is_loopback(observing.metrics_host)):
        raise ImproperlyConfigured(
            "METRICS_HOST: set METRICS_TOKEN as well, or everybody on the network reads the metrics"
        )
    for allowed in observing.metrics_from:
        try:
            ip_network(allowed, strict=False)
        except ValueError as exc:
            raise ImproperlyConfigured(f"METRICS_FROM: {exc}") from exc
    return observing


def _shape(text: str) -> Shape:
    match text:
        case "lines" | "json":
            return text
        case _:
            raise ImproperlyConfigured("LOG_FORMAT: `lines` or `json`")


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (
        (host[:1].isdigit() or ":" in host) and ip_address(host).is_loopback
    )
