"""How answers have been of late: charts and tables of one range of time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from chatapp.admin import charts
from chatapp.services.overview import ENDS, RANGES, Overview, Part, overview

if TYPE_CHECKING:
    from django.http import HttpRequest

MOST_MODELS: Final = 5
"""In a chart; the others are one series."""
SHARES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


@dataclass(frozen=True, slots=True)
class Trouble:
    model: str
    kind: str
    count: int
    page: str


def page(request: HttpRequest) -> dict[str, Any]:
    """What the template shows."""
    model = request.GET.get("model", "")
    seen = overview(request.GET.get("range", "day"), timezone.now(), model)
    here = reverse("admin:dashboard")
    return {
        "ranges": [
            (name, f"{here}?{urlencode({'range': name, **_of(model)})}", name == seen.range.name)
            for name in RANGES
        ],
        "model": model,
        "seen": seen,
        "first_ms": _ms(seen.whole.first_ms(0.5)),
        "rows": [
            {
                "name": name,
                "page": f"{here}?{urlencode({'range': seen.range.name, 'model': name})}",
                "cells": _cells(part),
            }
            for name, part in seen.models.items()
        ],
        "all_models": f"{here}?{urlencode({'range': seen.range.name})}",
        "charts": [chart for chart in _charts(seen) if chart is not None],
        "troubles": list(_troubles(seen)),
        "people": [(one, _answers({"user__id__exact": one.pk})) for one in seen.people],
        "failed": seen.whole.ends["failed"] + seen.whole.ends["interrupted"],
    }


def _of(model: str) -> dict[str, str]:
    return {"model": model} if model else {}


def _charts(seen: Overview) -> list[charts.Chart | None]:
    labels, steps = seen.labels, seen.steps
    return [
        charts.lines(
            "Time to the first token, ms",
            labels,
            [(name, [part.first_ms(share) for part in steps]) for name, share in SHARES],
            " ms",
        ),
        charts.lines(
            "Time between two tokens, ms",
            labels,
            [(name, [part.between_ms(share) for part in steps]) for name, share in SHARES],
            " ms",
        ),
        charts.stacks(
            "How answers ended", labels, [(end, [part.ends[end] for part in steps]) for end in ENDS]
        ),
        charts.lines(
            "Zombie tokens, share of all in %",
            labels,
            [("zombie", [_percent(part.zombie_share) for part in steps])],
            " %",
        ),
        charts.stacks("Output tokens by model", labels, _by_model(seen, "output_tokens")),
        charts.stacks("Cost by model", labels, _by_model(seen, "cost")),
    ]


def _cells(part: Part) -> list[str]:
    share = part.zombie_share
    return [
        f"{part.answers:,}",
        f"{part.ends['failed']:,}",
        *(_ms(part.first_ms(share)) for _, share in SHARES),
        _ms(part.between_ms(0.5)),
        "-" if share is None else f"{share:.1%}",
        f"{part.input_tokens:,}",
        f"{part.output_tokens:,}",
        f"{part.cost:.4f}",
    ]


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"


def _percent(share: float | None) -> float | None:
    return None if share is None else share * 100


def _by_model(seen: Overview, what: str) -> list[tuple[str, list[float]]]:
    def values(parts: list[Part]) -> list[float]:
        return [float(getattr(part, what)) for part in parts]

    names = list(seen.model_steps)
    series = [(name, values(seen.model_steps[name])) for name in names[:MOST_MODELS]]
    if len(names) > MOST_MODELS:
        rest = [values(seen.model_steps[name]) for name in names[MOST_MODELS:]]
        series.append(("others", [sum(column) for column in zip(*rest, strict=True)]))
    return series


def _troubles(seen: Overview) -> list[Trouble]:
    """Most frequent first."""
    found: Counter[tuple[str, str]] = Counter()
    for model, part in seen.models.items():
        for kind, count in part.reasons.items():
            found[model, kind] += count
    return [
        Trouble(model, kind, count, _answers({"answered_by": model, "reason": kind}))
        for (model, kind), count in found.most_common(20)
    ]


def _answers(narrowed: dict[str, Any]) -> str:
    return f"{reverse('admin:chatapp_response_changelist')}?{urlencode(narrowed)}"
