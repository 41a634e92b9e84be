"""What the models page shows: the models file, what workers have met, and the last hour's ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from asgiref.sync import async_to_sync
from django.db.models import Count, Q
from django.urls import reverse
from django.utils import timezone

from chatapp import catalog, runtime, services
from chatapp.admin.read_only import page_of
from chatapp.models import Response
from relay import CircuitState, CircuitStatus, Status, StoreUnavailable, read_standing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.http import HttpRequest

    from relay import ModelConfig

LATELY: Final = timedelta(hours=1)
FAILED: Final = {"status__exact": str(Status.FAILED)}
_WORST_FIRST: Final = (CircuitState.OPEN, CircuitState.HALF_OPEN, CircuitState.CLOSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The last thing that went wrong, as far as anybody knows."""

    kind: str
    message: str
    at: datetime
    page: str | None = None
    """Of the answer that it ended, where only that is known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One model."""

    config: ModelConfig
    is_default: bool
    host: str
    key_variable: str | None
    """None: it needs no key."""
    key_is_set: bool
    limits: list[tuple[str, str]]
    circuit: CircuitState | None
    """The worst that a worker has met; None while no worker has asked."""
    circuit_where: str
    failure: Failure | None
    answers: int
    failures: int
    failed_page: str
    """The list of answers that this model failed to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    lines: list[Line]
    problem: str | None = None
    """Why there are no models, or why nothing is known of circuits."""
    workers: int = 0
    """Processes that answer and have reported of late."""


def page(request: HttpRequest) -> dict[str, Any]:
    return {"report": report()}


def report() -> Report:
    """Never raises for what is away: an operator looks at this page just then."""
    try:
        declared = catalog.catalog()
    except catalog.CatalogError as exc:
        return Report(lines=[], problem=str(exc))
    met: dict[str, dict[str, CircuitStatus]] = {}
    problem = None
    try:
        met = async_to_sync(_standing)()
    except StoreUnavailable as exc:
        problem = f"Redis is away, so the state of circuits is not known: {exc}"
    counts, last_failed = _last_hour()
    responses = reverse("admin:chatapp_response_changelist")
    lines = []
    for name, config in declared.models.items():
        of_model = [states[name] for states in met.values() if name in states]
        circuit, where = _circuit(of_model, len(met))
        answers, failures = counts.get(name, (0, 0))
        line = Line(
            config=config,
            is_default=name == declared.default,
            host=urlsplit(config.base_url).netloc.rpartition("@")[2],
            key_variable=declared.key_variables.get(name),
            key_is_set=config.api_key is not None,
            limits=_limits(config),
            circuit=circuit,
            circuit_where=where,
            # What a worker has met is the cause; an answer may have failed by its circuit alone.
            failure=_newest(of_model) or last_failed.get(name),
            answers=answers,
            failures=failures,
            failed_page=f"{responses}?{urlencode({**FAILED, 'answered_by': name})}",
        )
        lines.append(line)
    return Report(lines=lines, problem=problem, workers=len(met))


async def _standing() -> dict[str, dict[str, CircuitStatus]]:
    return await read_standing(runtime.store())


def _circuit(states: list[CircuitStatus], workers: int) -> tuple[CircuitState | None, str]:
    for state in _WORST_FIRST:
        count = sum(status.state is state for status in states)
        if count:
            everywhere = count == len(states) and state is CircuitState.CLOSED
            return state, "" if everywhere or workers == 1 else f"in {count} of {workers} workers"
    return None, "not asked yet" if workers else "no worker reports"


def _newest(states: Iterable[CircuitStatus]) -> Failure | None:
    failures = [
        Failure(
            kind=status.last_error_kind,
            message=status.last_error_message or "",
            at=datetime.fromisoformat(status.last_error_at),
        )
        for status in states
        if status.last_error_at and status.last_error_kind
    ]
    return max(failures, key=lambda failure: failure.at, default=None)


def _last_hour() -> tuple[dict[str, tuple[int, int]], dict[str, Failure]]:
    """Answers and failures by the model that answered, and the last failure of each."""
    ended = Response.objects.ended_since(timezone.now() - LATELY).exclude(answered_by="")
    failed = Q(status=Status.FAILED)
    rows: Any = (
        ended.order_by()
        .values("answered_by")
        .annotate(
            answers=Count("pk", filter=Q(status__in=(Status.COMPLETED, Status.INCOMPLETE))),
            failures=Count("pk", filter=failed),
        )
    )
    counts = {row["answered_by"]: (row["answers"], row["failures"]) for row in rows}
    last: dict[str, Failure] = {}
    for name, (_, failures) in counts.items():
        row = ended.filter(failed, answered_by=name).order_by("-ended_at").first()
        if failures and row is not None and row.ended_at is not None:
            error = services.recorded(row).error
            last[name] = Failure(
                kind=row.reason,
                message=error.message if error else "",
                at=row.ended_at,
                page=page_of(row.pk),
            )
    return counts, last


def _limits(config: ModelConfig) -> list[tuple[str, str]]:
    defaults = runtime.config()
    tokens = {"context": config.context_tokens, "output": config.max_output_tokens}
    silences = {
        "connect": (config.connect_s, defaults.connect_s),
        "first byte": (config.first_byte_s, defaults.first_byte_s),
        "silence": (config.read_s, defaults.read_s),
        "whole answer": (config.total_s, defaults.total_s),
    }
    return [
        ("takes", ", ".join(["text", *sorted(config.supports & {"images", "tools"})])),
        *((name, f"{count:,} tokens") for name, count in tokens.items() if count),
        *(
            (name, f"{default if own is None else own:g} s")
            for name, (own, default) in silences.items()
        ),
    ]
