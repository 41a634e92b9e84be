"""One series: its name, its help, and how its value is found in a scene."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

if TYPE_CHECKING:
    from chatapp.runtime import Runtime
    from chatapp.services.sealing import Backlog
    from relay import Counters, Histogram, Vitals


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that is read, as of one moment."""

    counted: Counters
    runtime: Runtime
    vitals: Vitals | None
    """None: the store did not answer."""
    backlog: Backlog | None
    """Of the audit trail; None: the database did not answer."""


Labelled = Iterable[tuple[tuple[str, ...], Any]]


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    read: Callable[[Scene], Labelled]
    labels: tuple[str, ...] = ()

    def metric(self, scene: Scene) -> Metric:
        values = self.read(scene)
        if self.kind == "histogram":
            family = HistogramMetricFamily(self.name, self.help, labels=self.labels)
            for labels, histogram in values:
                family.add_metric(labels, _buckets(histogram), histogram.total)
            return family
        kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
        plain: Any = kinds[self.kind](self.name, self.help, labels=self.labels)
        for labels, value in values:
            plain.add_metric(labels, value)
        metric: Metric = plain
        return metric


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*map(str, histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))
