"""What runs at this moment, as rows, logs and workers tell it together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from chatapp import runtime, switches
from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Response
from relay import StoreUnavailable, read_standing

if TYPE_CHECKING:
    from relay import Pulse

MOST: Final = 200
"""Answers of one page, the oldest: who runs longest is looked for first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One answer that has not ended."""

    pk: str
    username: str
    model: str
    status: str
    age_s: float
    tokens: int = 0
    tokens_per_s: float | None = None
    """Since it was claimed; None before."""
    viewers: int | None = None
    """None: its log is not there, or cannot be read."""
    worker: str = ""
    stopping: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    name: str
    running: int
    drained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    lines: list[Line]
    workers: list[Worker]
    problem: str = ""


async def live() -> Live:
    """Two statements and two round trips, however many run. Never raises for Redis."""
    await switches.refresh()
    rows = await _rows()
    try:
        pulses = await runtime.store().pulses([row.pk for row in rows])
        names = sorted(await read_standing(runtime.store()))
    except StoreUnavailable as exc:
        nothing: list[Pulse | None] = [None] * len(rows)
        lines = [_line(row, pulse) for row, pulse in zip(rows, nothing, strict=True)]
        problem = f"Redis is away, so only the database is shown: {exc}"
        return Live(lines=lines, workers=[], problem=problem)
    lines = [_line(row, pulse) for row, pulse in zip(rows, pulses, strict=True)]
    workers = [
        Worker(
            name=name,
            running=sum(line.worker == name for line in lines),
            drained=not switches.takes_jobs(name),
        )
        for name in names
    ]
    return Live(lines=lines, workers=workers)


def _line(row: Response, pulse: Pulse | None) -> Line:
    now: datetime = runtime.now()
    claims = pulse.claims if pulse is not None else []
    tokens = pulse.output_tokens if pulse is not None else 0
    busy_s = now.timestamp() - claims[-1][0] / 1000 if claims else 0.0
    return Line(
        pk=row.pk,
        username=row.user.username,
        model=row.model,
        status=row.get_status_display(),
        age_s=max(0.0, (now - row.created_at).total_seconds()),
        tokens=tokens,
        tokens_per_s=tokens / busy_s if claims and busy_s > 0 else None,
        viewers=pulse.viewers if pulse is not None else None,
        worker=claims[-1][1] if claims else "",
        stopping=row.stop_requested_at is not None,
    )


@on_database_thread
def _rows() -> list[Response]:
    columns = ("pk", "user__username", "model", "status", "created_at", "stop_requested_at")
    with database_errors():
        rows = Response.objects.running().select_related("user").only(*columns)
        return list(rows.order_by("created_at")[:MOST])
