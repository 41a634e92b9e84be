"""What answers came to by hour and model: kept by the sweep, read by admin's dashboard.

The database alone is asked, so a new machine shows all of it. An hour is added up anew until it is
over and everything in it has been judged, and then never again; to do it twice is harmless.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from django.db import transaction
from django.db.models import Case, Count, F, IntegerField, Q, Sum, Value, When
from django.db.models.functions import Coalesce
from django.utils import timezone

from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Figure, FigureHead, Response
from chatapp.services.buckets import BOUNDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet

EVERY: Final = timedelta(minutes=1)
"""Between two updates, by whichever process comes first."""
HOUR: Final = timedelta(hours=1)
SETTLED: Final = timedelta(minutes=15)
"""After its end an hour may still change: zombie tokens are judged, lost workers' answers end."""
MOST_AT_ONCE: Final = 48
"""Hours of an update: an installation that is new to this catches up within the hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """As a `Figure`, of any stretch of time."""

    kind: str
    model: str
    key: str
    count: int
    input_tokens: int = 0
    output_tokens: int = 0
    zombie_tokens: int = 0
    cost: Decimal = Decimal(0)


async def keep() -> None:
    """For the sweep: bring the figures up to date, if nobody did within `EVERY`.

    Raises RecordUnavailable.
    """
    await _keep(timezone.now())


@on_database_thread
def _keep(now: datetime) -> None:
    with database_errors():
        if take(now):
            bring_up_to_date(now)


def take(now: datetime) -> bool:
    """Whether this process is to do it. One statement, which one process wins."""
    FigureHead.objects.get_or_create(pk=1)
    free = FigureHead.objects.exclude(taken_at__gt=now - EVERY)
    return free.filter(pk=1).update(taken_at=now) == 1


def bring_up_to_date(now: datetime) -> None:
    head, _ = FigureHead.objects.get_or_create(pk=1)
    begin = head.done_until or _first_hour()
    if begin is None:
        return
    hour = begin
    for _ in range(MOST_AT_ONCE):
        if hour > now:
            break
        _write(hour, now)
        hour += HOUR
        if hour + SETTLED <= now:
            FigureHead.objects.filter(pk=1).update(done_until=hour)


@transaction.atomic
def _write(hour: datetime, now: datetime) -> None:
    """The sums of one hour; with the last hour of a day those of its people."""
    person = str(Figure.Kind.PERSON)
    _replace(hour, between(hour, hour + HOUR), but=person)
    day = hour.replace(hour=0)
    if hour + HOUR == day + timedelta(days=1) and hour + HOUR <= now:
        _replace(day, people_between(day, day + timedelta(days=1)), only=person)


def _replace(at: datetime, sums: Iterable[Sums], *, but: str = "", only: str = "") -> None:
    old = Figure.objects.filter(at=at)
    (old.filter(kind=only) if only else old.exclude(kind=but)).delete()
    Figure.objects.bulk_create(
        Figure(
            at=at,
            kind=one.kind,
            model=one.model,
            key=one.key,
            count=one.count,
            input_tokens=one.input_tokens,
            output_tokens=one.output_tokens,
            zombie_tokens=one.zombie_tokens,
            cost=one.cost,
        )
        for one in sums
    )


def _first_hour() -> datetime | None:
    first = Response.objects.final().order_by("ended_at").values_list("ended_at", flat=True)[:1]
    at = next(iter(first), None)
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0) if at else None


def between(since: datetime, until: datetime) -> list[Sums]:
    """Ends, times to the first token and between tokens of what ended then. Three statements."""
    ended = _ended(since, until)
    ends: dict[tuple[str, str], Sums] = {}
    for row in _summed(ended.values("answered_by", "model", "status", "reason")):
        one = _sums(Figure.Kind.END, row, f"{row['status']} {row['reason']}")
        ends[one.model, one.key] = _added(ends.get((one.model, one.key)), one)
    found = list(ends.values())
    first = Case(*_bounds("first_token_ms"), default=len(BOUNDS), output_field=IntegerField())
    timed = ended.filter(first_token_ms__isnull=False).annotate(bucket=first)
    found += _bucketed(Figure.Kind.FIRST, timed)
    # writing_ms over the tokens after the first, without a division that databases round apart.
    slower = Case(
        *(
            When(writing_ms__lte=(F("output_tokens") - 1) * bound, then=Value(n))
            for n, bound in enumerate(BOUNDS)
        ),
        default=len(BOUNDS),
        output_field=IntegerField(),
    )
    written = ended.filter(writing_ms__isnull=False, output_tokens__gt=1).annotate(bucket=slower)
    return found + _bucketed(Figure.Kind.BETWEEN, written)


def people_between(since: datetime, until: datetime) -> list[Sums]:
    rows = _summed(_ended(since, until).values("user_id", "answered_by", "model"))
    merged: dict[tuple[str, str], Sums] = {}
    for row in rows:
        one = _sums(Figure.Kind.PERSON, row, str(row["user_id"]))
        merged[one.model, one.key] = _added(merged.get((one.model, one.key)), one)
    return list(merged.values())


def most_used(since: datetime, until: datetime, model: str, most: int) -> list[Sums]:
    """The people who used most then, of one model or of all (""). One statement."""
    ended = _ended(since, until)
    if model:
        ended = ended.filter(Q(answered_by=model) | Q(answered_by="", model=model))
    rows = _summed(ended.values("user_id")).order_by("-output_sum")[:most]
    return [
        _sums(Figure.Kind.PERSON, row | {"answered_by": model, "model": ""}, str(row["user_id"]))
        for row in rows
    ]


def _ended(since: datetime, until: datetime) -> QuerySet[Response]:
    return Response.objects.final().filter(ended_at__gte=since, ended_at__lt=until).order_by()


def _summed(rows: Any) -> Any:
    return rows.annotate(
        count=Count("pk"),
        input_sum=Coalesce(Sum("input_tokens"), 0),
        output_sum=Coalesce(Sum("output_tokens"), 0),
        zombie_sum=Coalesce(Sum("zombie_tokens"), 0),
        cost_sum=Sum("cost"),
    )


def _sums(kind: Figure.Kind, row: dict[str, Any], key: str) -> Sums:
    return Sums(
        kind=str(kind),
        # Nobody was asked: then it counts for the model that was meant.
        model=row["answered_by"] or row["model"],
        key=key.strip(),
        count=row["count"],
        input_tokens=row["input_sum"],
        output_tokens=row["output_sum"],
        zombie_tokens=row["zombie_sum"],
        cost=Decimal(row["cost_sum"] or 0),
    )


def _added(one: Sums | None, other: Sums) -> Sums:
    if one is None:
        return other
    return Sums(
        kind=one.kind,
        model=one.model,
        key=one.key,
        count=one.count + other.count,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        zombie_tokens=one.zombie_tokens + other.zombie_tokens,
        cost=one.cost + other.cost,
    )


def _bounds(column: str) -> list[When]:
    return [When(**{f"{column}__lte": bound}, then=Value(n)) for n, bound in enumerate(BOUNDS)]


def _bucketed(kind: Figure.Kind, rows: QuerySet[Any]) -> list[Sums]:
    counted = rows.values("answered_by", "model", "bucket").annotate(count=Count("pk"))
    merged: dict[tuple[str, str], Sums] = {}
    for row in counted:
        model, key = row["answered_by"] or row["model"], str(row["bucket"])
        one = Sums(kind=str(kind), model=model, key=key, count=row["count"])
        merged[model, key] = _added(merged.get((model, key)), one)
    return list(merged.values())
