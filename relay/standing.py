"""How upstreams stand: each worker judges for itself (PROTOCOL 12) and tells the others' admins.

A report is the whole of what one worker knows, so one that is lost is made good by the next; it is
kept in the store for as long as a lease, so a dead worker's word is not taken for the present.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from relay.errors import StoreUnavailable
from relay.upstream import Circuits, CircuitStatus

if TYPE_CHECKING:
    from relay.config import RelayConfig
    from relay.store import Store

_decoder = msgspec.json.Decoder(dict[str, CircuitStatus])


class Reporter:
    """Of one worker. Belongs to one event loop."""

    def __init__(self, store: Store, worker: str, circuits: Circuits, config: RelayConfig) -> None:
        self._store = store
        self._worker = worker
        self._circuits = circuits
        self._config = config
        self._news = asyncio.Event()
        circuits.on_change = self._changed

    def _changed(self, states: Mapping[str, CircuitStatus]) -> None:
        self._news.set()

    async def run(self) -> None:
        """Report after each change, and as often as leases are renewed. Until cancelled."""
        while True:
            self._news.clear()
            report = msgspec.json.encode(self._circuits.states())
            with suppress(StoreUnavailable):  # the next report says it all again
                await self._store.report_upstreams(self._worker, report, self._config.lease_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._config.renew_s):
                    await self._news.wait()


async def read_standing(store: Store) -> dict[str, dict[str, CircuitStatus]]:
    """By worker, then by model, what workers that live have met. Raises StoreUnavailable."""
    reports = await store.upstreams()
    return {worker: _decoder.decode(report) for worker, report in reports.items()}
