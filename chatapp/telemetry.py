"""OpenTelemetry: a trace from the request to the generation, and the metrics of the GenAI
conventions, from the record of each end. Off, and no tracer or exporter imported, without an
endpoint.

A generation's span is made when its end is recorded, of the times that the record has: nothing is
carried through the relay but one `traceparent` in the request, and it is right whoever brings the
end. No content, no person: https://opentelemetry.io/docs/specs/semconv/gen-ai/ (as of v1.41).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from django.conf import settings

if TYPE_CHECKING:
    from datetime import datetime

    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider

    from chatapp.middleware.asgi_types import App, Message, Receive, Scope, Send
    from relay import ModelConfig, Snapshot

SERVICE: Final = "unbroken"
TOKEN_BOUNDS: Final = tuple(4.0**n for n in range(14))
SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48)
WHOLE_S: Final = (*SECONDS, 40.96, 81.92, 163.84, 327.68, 655.36, 1310.72)
TOKEN_S: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
"""Boundaries that the conventions ask for, and longer ones for whole answers."""
PROVIDERS: Final = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "anthropic": "anthropic",
    "llamacpp": "llamacpp",
    "vllm-tokens": "vllm",
    "sglang-tokens": "sglang",
}
"""By dialect: which conventions its answers follow, whoever runs the server."""
_IDS: Final = re.compile(r"resp_\w+|[0-9a-f]{8}-[0-9a-f-]{27}|\b\d+\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a span and its measurements are made of."""

    response_id: str
    model: ModelConfig | None
    snapshot: Snapshot
    created_at: datetime
    started_at: datetime | None
    first_token_at: datetime | None
    ended_at: datetime
    input_tokens: int | None
    output_tokens: int | None


class Telemetry:
    """Of one process.

    Args:
        tracers, meters: where spans and measurements go; tests hand in their own.
    """

    def __init__(self, tracers: TracerProvider, meters: MeterProvider) -> None:
        self._providers = (tracers, meters)
        self._tracer = tracers.get_tracer(SERVICE)
        meter = meters.get_meter(SERVICE)

        def histogram(name: str, unit: str, bounds: tuple[float, ...]) -> Any:
            return meter.create_histogram(name, unit, explicit_bucket_boundaries_advisory=bounds)

        self._usage = histogram("gen_ai.client.token.usage", "{token}", TOKEN_BOUNDS)
        self._duration = histogram("gen_ai.client.operation.duration", "s", WHOLE_S)
        self._first_chunk = histogram("gen_ai.client.operation.time_to_first_chunk", "s", SECONDS)
        self._request = histogram("gen_ai.server.request.duration", "s", WHOLE_S)
        self._first_token = histogram("gen_ai.server.time_to_first_token", "s", SECONDS)
        self._per_token = histogram("gen_ai.server.time_per_output_token", "s", TOKEN_S)
        self._parents: dict[str, str] = {}

    def close(self) -> None:
        """Send what is left; blocks for as long as that takes. The SDK does it at exit, too."""
        for provider in self._providers:
            provider.shutdown()

    # -- from the request to the worker -----------------------------------------------------------
    def traceparent(self) -> str | None:
        """Of the span in whose context this is called (W3C Trace Context)."""
        from opentelemetry import trace

        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            return None
        flags = f"{int(context.trace_flags):02x}"
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags}"

    def remember(self, response_id: str, traceparent: str | None) -> None:
        """Of a response that this process is to end. The oldest are forgotten."""
        if traceparent:
            self._parents[response_id] = traceparent
            while len(self._parents) > 10_000:
                del self._parents[next(iter(self._parents))]

    # -- an end -----------------------------------------------------------------------------------
    def generated(self, end: Ended) -> None:
        """Tell of one ended response, once. One that was never begun has no span."""
        parent = self._parents.pop(end.response_id, None)
        if end.started_at is None:
            return
        attributes = _attributes(end)
        self._measure(end, attributes)
        self._span(end, attributes, parent)

    def _measure(self, end: Ended, attributes: dict[str, Any]) -> None:
        for kind, count in (("input", end.input_tokens), ("output", end.output_tokens)):
            if count:
                self._usage.record(count, attributes | {"gen_ai.token.type": kind})
        error = _error(end.snapshot)
        finished = attributes | ({"error.type": error} if error else {})
        started_at = end.started_at or end.created_at
        self._duration.record(_s(started_at, end.ended_at), finished)
        self._request.record(_s(end.created_at, end.ended_at), finished)
        if end.first_token_at is not None:
            self._first_chunk.record(_s(started_at, end.first_token_at), attributes)
            self._first_token.record(_s(end.created_at, end.first_token_at), attributes)
            if (end.output_tokens or 0) > 1 and end.snapshot.status == "completed":
                rest_s = _s(end.first_token_at, end.ended_at)
                self._per_token.record(rest_s / ((end.output_tokens or 0) - 1), attributes)

    def _span(self, end: Ended, attributes: dict[str, Any], parent: str | None) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode

        snapshot = end.snapshot
        more = {
            "gen_ai.response.id": end.response_id,
            "gen_ai.request.stream": True,
            "gen_ai.usage.input_tokens": end.input_tokens,
            "gen_ai.usage.output_tokens": end.output_tokens,
            "gen_ai.response.finish_reasons": [snapshot.finish_reason or "error"],
            "unbroken.status": snapshot.status,
            "unbroken.reason": snapshot.reason,
            "error.type": _error(snapshot),
        }
        span = self._tracer.start_span(
            f"chat {attributes['gen_ai.request.model']}",
            context=_context(parent),
            kind=SpanKind.CLIENT,
            attributes=attributes | {k: v for k, v in more.items() if v is not None},
            start_time=_ns(end.started_at or end.created_at),
        )
        if end.first_token_at is not None:
            span.add_event("first token", timestamp=_ns(end.first_token_at))
        if error := _error(snapshot):
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(_ns(end.ended_at))

    # -- a request --------------------------------------------------------------------------------
    def around(self, app: App) -> App:
        """`app` with a span around each POST, which continues the trace of whoever asks."""
        from opentelemetry.trace import SpanKind

        async def traced(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["method"] != "POST":
                await app(scope, receive, send)
                return
            parent = dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1")
            route = _IDS.sub("{id}", scope["path"])
            with self._tracer.start_as_current_span(
                f"POST {route}",
                context=_context(parent),
                kind=SpanKind.SERVER,
                attributes={"http.request.method": "POST", "url.path": route},
            ) as span:

                async def told(message: Message) -> None:
                    if message["type"] == "http.response.start":
                        span.set_attribute("http.response.status_code", message["status"])
                    await send(message)

                await app(scope, receive, told)

        return traced


def _attributes(end: Ended) -> dict[str, Any]:
    model = end.model
    found: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": PROVIDERS.get(model.dialect, "other") if model else "other",
        "gen_ai.request.model": model.upstream_model if model else "other",
    }
    if model is not None:
        address = urlsplit(model.base_url)
        found["server.address"] = address.hostname or ""
        if address.port:
            found["server.port"] = address.port
    return found


def _error(snapshot: Snapshot) -> str | None:
    return (snapshot.reason or "other") if snapshot.status in {"failed", "interrupted"} else None


def _context(traceparent: str | None) -> Any:
    """An odd one counts as none."""
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {"traceparent": traceparent or ""}
    return TraceContextTextMapPropagator().extract(carrier, context=Context())


def _ns(moment: datetime) -> int:
    return round(moment.timestamp() * 1e9)


def _s(begun: datetime, ended: datetime) -> float:
    return max(0.0, (ended - begun).total_seconds())


@cache
def current() -> Telemetry | None:
    """This process's, made when first asked for; None without OTEL_EXPORTER_OTLP_ENDPOINT."""
    endpoint: str = settings.OBSERVING.otlp_endpoint
    return connected(endpoint) if endpoint else None


def connected(endpoint: str) -> Telemetry:
    """Sends to `endpoint`, in batches and from threads of their own. What cannot be sent is dropped
    and said in the log; nobody waits for it."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    base = endpoint.rstrip("/")
    resource = Resource.create()  # hears OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": SERVICE}))
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{base}/v1/traces")))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{base}/v1/metrics"))
    return Telemetry(tracers, MeterProvider([reader], resource=resource))
