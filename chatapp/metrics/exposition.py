"""What /metrics answers: each process shows its own, and nothing outlives it in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from chatapp import catalog, runtime
from chatapp.metrics.scene import Scene
from chatapp.metrics.series import SERIES
from chatapp.services import sealing
from relay import COUNTERS, RecordUnavailable, StoreUnavailable

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from relay import Vitals

WORKER_SEEN_S: Final = 10.0
"""A worker asks for jobs every second or two; one unheard for this long takes none."""
STORE_S: Final = 0.5
"""How long a look at store or database may take: what takes longer serves nobody, and a scraper
that asks each second still hears of it."""


class _Collected(Collector):
    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def collect(self) -> Iterator[Metric]:
        for series in SERIES:
            yield series.metric(self._scene)


async def exposition(accept: str) -> tuple[bytes, str]:
    """All series in the format that `accept` asks for, and its content type."""
    for name in catalog.models():
        COUNTERS.model(name)  # there from the start: a series that begins with 1 is no increase
    vitals, backlog = await asyncio.gather(_vitals(), _backlog())
    scene = Scene(COUNTERS, runtime.current(), vitals, backlog)
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    registry.register(_Collected(scene))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


async def _backlog() -> sealing.Backlog | None:
    try:
        async with asyncio.timeout(STORE_S):
            return await sealing.backlog()
    except (RecordUnavailable, TimeoutError):
        return None


async def _vitals() -> Vitals | None:
    try:
        async with asyncio.timeout(STORE_S):
            shards = range(runtime.config().shards)
            return await runtime.store().vitals(shards, WORKER_SEEN_S)
    except (StoreUnavailable, TimeoutError):
        return None
