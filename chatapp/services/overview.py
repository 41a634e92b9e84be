"""The dashboard's numbers: sums of a range of time in steps, by model and by person."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db.models import Sum
from django.db.models.functions import TruncDay

from chatapp.models import Figure, User
from chatapp.services.buckets import percentile
from chatapp.services.figures import Sums, between, most_used

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Placed = Iterable[tuple[datetime, Sums]]

ENDS: Final = ("completed", "incomplete", "failed", "cancelled", "interrupted")
MOST_PEOPLE: Final = 10


class Range(NamedTuple):
    name: str
    step: timedelta
    steps: int
    label: str
    """For strftime."""


RANGES: Final = {
    one.name: one
    for one in (
        Range("hour", timedelta(minutes=5), 12, "%H:%M"),
        Range("day", timedelta(hours=1), 24, "%H:%M"),
        Range("week", timedelta(days=1), 7, "%a %d"),
        Range("month", timedelta(days=1), 30, "%d %b"),
    )
}


@dataclass(slots=True)
class Part:
    """Of one step, or of one model."""

    ends: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Of failures."""
    first: Counter[int] = field(default_factory=Counter)
    between: Counter[int] = field(default_factory=Counter)
    input_tokens: int = 0
    output_tokens: int = 0
    zombie_tokens: int = 0
    cost: Decimal = Decimal(0)

    @property
    def answers(self) -> int:
        return self.ends.total()

    @property
    def zombie_share(self) -> float | None:
        """0 to 1, of output tokens."""
        return self.zombie_tokens / self.output_tokens if self.output_tokens else None

    def first_ms(self, share: float) -> float | None:
        return percentile(self.first, share)

    def between_ms(self, share: float) -> float | None:
        return percentile(self.between, share)

    def add(self, one: Sums) -> None:
        match one.kind:
            case Figure.Kind.FIRST:
                self.first[int(one.key)] += one.count
            case Figure.Kind.BETWEEN:
                self.between[int(one.key)] += one.count
            case _:
                status, _, reason = one.key.partition(" ")
                self.ends[status] += one.count
                if status == "failed":
                    self.reasons[reason or "unknown"] += one.count
                self.input_tokens += one.input_tokens
                self.output_tokens += one.output_tokens
                self.zombie_tokens += one.zombie_tokens
                self.cost += one.cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    name: str
    pk: int
    answers: int
    output_tokens: int
    cost: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    range: Range
    labels: list[str]
    steps: list[Part]
    models: dict[str, Part]
    """Most asked first."""
    model_steps: dict[str, list[Part]]
    whole: Part
    people: list[Person]
    """Who used most, by output tokens."""


def overview(name: str, now: datetime, model: str = "") -> Overview:
    """Of the range that ends now. Some ten statements, however long it is."""
    chosen = RANGES.get(name, RANGES["day"])
    starts = _starts(chosen, now)
    placed = _recent(chosen, starts) if chosen.name == "hour" else _kept(chosen, starts)
    index = {start: n for n, start in enumerate(starts)}
    steps, whole = [Part() for _ in starts], Part()
    models: dict[str, Part] = defaultdict(Part)
    model_steps: dict[str, list[Part]] = defaultdict(lambda: [Part() for _ in starts])
    for at, one in placed:
        if model and one.model != model:
            continue
        n = index[at]
        for part in (steps[n], whole, models[one.model], model_steps[one.model][n]):
            part.add(one)
    order = sorted(models, key=lambda one: -models[one].answers)
    return Overview(
        range=chosen,
        labels=[start.strftime(chosen.label) for start in starts],
        steps=steps,
        models={one: models[one] for one in order},
        model_steps={one: model_steps[one] for one in order},
        whole=whole,
        people=_people(chosen, starts[0], now, model),
    )


def _starts(chosen: Range, now: datetime) -> list[datetime]:
    now = now.astimezone(UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    last = midnight + (now - midnight) // chosen.step * chosen.step
    return [last - chosen.step * n for n in reversed(range(chosen.steps))]


def _recent(chosen: Range, starts: list[datetime]) -> Iterator[tuple[datetime, Sums]]:
    for start in starts:
        for one in between(start, start + chosen.step):
            yield start, one


def _kept(chosen: Range, starts: list[datetime]) -> Iterator[tuple[datetime, Sums]]:
    rows = Figure.objects.filter(at__gte=starts[0]).exclude(kind=Figure.Kind.PERSON)
    if chosen.step < timedelta(days=1):
        for figure in rows:
            yield figure.at, _sums(figure.kind, figure.model, figure.key, vars(figure))
        return
    days = rows.annotate(day=TruncDay("at", tzinfo=UTC)).values("kind", "model", "key", "day")
    names = ("count", "input_tokens", "output_tokens", "zombie_tokens", "cost")
    summed: Any = days.annotate(**{f"{name}_sum": Sum(name) for name in names})
    for row in summed.order_by():
        values = {name: row[f"{name}_sum"] for name in names}
        yield row["day"], _sums(row["kind"], row["model"], row["key"], values)


def _sums(kind: str, model: str, key: str, values: dict[str, object]) -> Sums:
    names = ("count", "input_tokens", "output_tokens", "zombie_tokens", "cost")
    given = {name: values[name] for name in names}
    return Sums(kind=kind, model=model, key=key, **given)  # type: ignore[arg-type]  # as in Figure


def _people(chosen: Range, since: datetime, now: datetime, model: str) -> list[Person]:
    """Whole days as they were kept, and what is not a whole day from the answers themselves."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    used: dict[int, list[Decimal | int]] = defaultdict(lambda: [0, 0, Decimal(0)])

    def add(key: str, count: int, output_tokens: int, cost: Decimal) -> None:
        mine = used[int(key)]
        mine[0], mine[1], mine[2] = mine[0] + count, mine[1] + output_tokens, mine[2] + cost

    by_days = chosen.step >= timedelta(days=1)
    for one in most_used(midnight if by_days else since, now, model, MOST_PEOPLE * 20):
        add(one.key, one.count, one.output_tokens, one.cost)
    if by_days:
        rows = Figure.objects.filter(kind=Figure.Kind.PERSON, at__gte=since, at__lt=midnight)
        rows = rows.filter(model=model) if model else rows
        summed = rows.values("key").annotate(
            n=Sum("count"), tokens=Sum("output_tokens"), paid=Sum("cost")
        )
        for row in summed.order_by("-tokens")[: MOST_PEOPLE * 20]:
            add(row["key"], row["n"], row["tokens"], row["paid"])
    most = sorted(used, key=lambda pk: -used[pk][1])[:MOST_PEOPLE]
    names = dict(User.objects.filter(pk__in=most).values_list("pk", "username"))
    return [
        Person(
            name=names.get(pk, "removed"),
            pk=pk,
            answers=int(used[pk][0]),
            output_tokens=int(used[pk][1]),
            cost=Decimal(used[pk][2]),
        )
        for pk in most
    ]
