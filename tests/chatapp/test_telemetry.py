"""One trace from the request to the generation, the metrics of the conventions, and no content."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from chatapp import telemetry
from chatapp.finalize import Records, just_asked
from relay import End, ErrorKind, Outcome, UsageCount, fold_log
from tests.chatapp.conftest import scribe_of

if TYPE_CHECKING:
    from relay import MemoryStore
    from tests.chatapp.asgi_client import Site

ROOT = Path(__file__).resolve().parents[2]
ASKED = "0af7651916cd43dd8448eb211c80319c"
SECRETS = ("why is the sky blue", "because of Rayleigh")


class Kept:
    """Spans and metrics of this test."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._reader = InMemoryMetricReader()
        self.telemetry = telemetry.Telemetry(tracers, MeterProvider([self._reader]))

    def span(self, name: str) -> Any:
        (span,) = (one for one in self.exporter.get_finished_spans() if one.name == name)
        return span

    def points(self) -> dict[str, Any]:
        data = self._reader.get_metrics_data()
        assert data is not None
        (resource,) = data.resource_metrics
        (scope,) = resource.scope_metrics
        return {metric.name: list(metric.data.data_points) for metric in scope.metrics}


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    made = Kept()
    monkeypatch.setattr(telemetry, "current", lambda: made.telemetry)
    return made


async def answered(site: Site, store: MemoryStore, bearer: str, end: End, *, known: bool) -> str:
    """Ask, as somebody who keeps a trace does, and answer as a worker would."""
    body = json.dumps({"model": "fast", "input": SECRETS[0]}).encode()
    parent = f"00-{ASKED}-b7ad6b7169203331-01"
    reply = await site.whole(
        "POST", "/api/responses", body, Authorization=bearer, traceparent=parent
    )
    assert reply.status_code == 202
    rid: str = reply.json()["id"]
    if not known:
        just_asked.take(rid)  # another process than the one that was asked
    records = Records()
    await records.load(rid)
    scribe = await scribe_of(store, rid)
    await scribe.say(SECRETS[1], " scattering", ".")
    usage = UsageCount(input_tokens=7, output_tokens=3, source="provider")
    await scribe.end(end, usage=usage)
    folded = await fold_log(store, rid)
    assert folded is not None
    outcome = Outcome(response_id=rid, snapshot=folded[0], counted_output_tokens=3)
    await records.finalize(outcome)
    await records.finalize(outcome)  # as a repair would
    return rid


@pytest.mark.parametrize("known", [True, False], ids=["same process", "another process"])
async def test_a_generation_belongs_to_the_request_that_asked(
    kept: Kept, site: Site, store: MemoryStore, bearer: str, known: bool
) -> None:
    rid = await answered(site, store, bearer, End.finished("stop"), known=known)
    request, chat = kept.span("POST /api/responses"), kept.span("chat fast-1")
    assert f"{request.context.trace_id:032x}" == ASKED
    assert chat.context.trace_id == request.context.trace_id
    assert chat.parent.span_id == request.context.span_id
    assert request.attributes["http.response.status_code"] == 202
    assert dict(chat.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "fast-1",
        "gen_ai.request.stream": True,
        "gen_ai.response.id": rid,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "server.address": "127.0.0.1",
        "server.port": 9,
        "unbroken.status": "completed",
    }
    assert chat.start_time <= chat.end_time
    assert chat.status.is_ok or chat.status.is_unset


async def test_measurements_are_those_of_the_conventions(
    kept: Kept, site: Site, store: MemoryStore, bearer: str
) -> None:
    await answered(site, store, bearer, End.finished("stop"), known=True)
    points = kept.points()
    usage = {p.attributes["gen_ai.token.type"]: p.sum for p in points["gen_ai.client.token.usage"]}
    assert usage == {"input": 7, "output": 3}
    assert points["gen_ai.client.token.usage"][0].explicit_bounds[:3] == (1, 4, 16)
    (duration,) = points["gen_ai.client.operation.duration"]
    assert duration.count == 1
    assert dict(duration.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "fast-1",
        "server.address": "127.0.0.1",
        "server.port": 9,
    }
    assert points["gen_ai.server.request.duration"][0].count == 1


async def test_a_failure_has_its_kind_and_no_words(
    kept: Kept, site: Site, store: MemoryStore, bearer: str
) -> None:
    end = End.failed(ErrorKind.STALLED, "The provider fell silent after 'because of Rayleigh'.")
    await answered(site, store, bearer, end, known=True)
    chat = kept.span("chat fast-1")
    assert chat.attributes["error.type"] == chat.attributes["unbroken.reason"] == "stalled"
    assert not chat.status.is_ok
    (duration,) = kept.points()["gen_ai.client.operation.duration"]
    assert duration.attributes["error.type"] == "stalled"
    told = " ".join(span.to_json() for span in kept.exporter.get_finished_spans())
    assert not [secret for secret in SECRETS if secret in told]
    assert "fell silent" not in told


def test_an_odd_traceparent_counts_as_none(kept: Kept) -> None:
    for odd in ("", "00-zz-1-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 10_000):
        assert not telemetry._context(odd)
    for n in range(10_100):
        kept.telemetry.remember(f"r{n}", "00-x")
    assert len(kept.telemetry._parents) == 10_000


def test_without_an_endpoint_no_tracer_and_no_exporter_is_imported() -> None:
    """redis-py imports the metrics of the SDK by itself wherever it is installed."""
    wanted = "('opentelemetry.sdk.trace', 'opentelemetry.exporter')"
    script = f"import chatapp.asgi, sys; print([m for m in sys.modules if m.startswith({wanted})])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={"DEBUG": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "[]\n"


class Sink(ThreadingHTTPServer):
    """Takes OTLP over HTTP, as a collector does."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[bytes]] = {"/v1/traces": [], "/v1/metrics": []}
        super().__init__(("127.0.0.1", 0), _Take)


class _Take(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        sink = self.server
        assert isinstance(sink, Sink)
        sink.bodies[self.path].append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """No line per request."""


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    thread = Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


async def test_a_collector_is_sent_both_over_http(
    sink: Sink, site: Site, store: MemoryStore, bearer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "chat of the tests")
    made = telemetry.connected(f"http://127.0.0.1:{sink.server_port}/")
    monkeypatch.setattr(telemetry, "current", lambda: made)
    await answered(site, store, bearer, End.finished("stop"), known=True)
    made.close()
    (traces,) = map(ExportTraceServiceRequest.FromString, sink.bodies["/v1/traces"])
    (resource,) = traces.resource_spans
    assert [a.value.string_value for a in resource.resource.attributes if a.key == "service.name"]
    names = {span.name for scope in resource.scope_spans for span in scope.spans}
    assert "chat fast-1" in names
    assert "chat of the tests" in str(resource.resource)
    metrics = ExportMetricsServiceRequest.FromString(sink.bodies["/v1/metrics"][-1])
    assert "gen_ai.client.token.usage" in str(metrics)
    assert not [secret for secret in SECRETS if secret in f"{traces}{metrics}"]
