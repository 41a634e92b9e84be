"""What the models page shows: the models file, what workers have met, and the last hour's ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from asgiref.sync import async_to_sync
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Count, Q
from django.urls import reverse
from django.utils import timezone

from chatapp import audit, catalog, runtime, services
from chatapp.admin.read_only import actor_of, page_of
from chatapp.admin.texts import may_ask_for_text
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
    """Of the provider, who may quote what was asked. Empty: not for whoever looks."""
    at: datetime
    code: str = ""
    """What the answer's record calls it, where that is not its kind."""
    response_id: str = ""
    """Of the answer that it ended, where only that is known of it."""

    @property
    def page(self) -> str | None:
        return page_of(self.response_id) if self.response_id else None


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
    """What providers said is a text: told to who may read texts and asks for it, and noted."""
    made = report()
    may_ask = any(line.failure and line.failure.message for line in made.lines)
    may_ask = may_ask and may_ask_for_text(request)
    if request.method != "POST":
        return {"report": _without_words(made), "may_ask": may_ask}
    if not may_ask_for_text(request):
        raise PermissionDenied
    with transaction.atomic():
        for line in made.lines:
            if (failure := line.failure) and failure.message:
                name, pk = line.config.name, failure.response_id
                audit.error_read(name, actor=actor_of(request), response_id=pk)
    return {"report": made, "may_ask": False}


def _without_words(made: Report) -> Report:
    lines = [
        replace(line, failure=replace(line.failure, message="")) if line.failure else line
        for line in made.lines
    ]
    return replace(made, lines=lines)


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
                code=error.code if error and error.code != row.reason else "",
                response_id=row.pk,
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
