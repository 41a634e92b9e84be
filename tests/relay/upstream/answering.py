"""Whole generations over real sockets: asked of scripted providers, logged in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from relay import events as ev
from relay.config import ModelConfig, RelayConfig
from relay.fold import text_sha256
from relay.generate import End, Outcome, ended
from relay.hub import Hub
from relay.store import MemoryStore
from relay.supervisor import Supervisor
from relay.upstream import Upstream
from tests.relay.actors import MemoryRecords
from tests.relay.scribe import Scribe
from tests.waiting import wait_until

if TYPE_CHECKING:
    from relay.fold import Snapshot

CONFIG = RelayConfig(
    connect_s=2.0, first_byte_s=5.0, read_s=5.0, upstream_retries=1, drain_s=0.1, take_over_s=0.2
)
STOP = ev.encode_event(ended(End.cancelled("user")), 0)


@dataclass
class Answering:
    """A worker with everything it needs; `another` makes one that is closed with it."""

    make: Callable[[], Supervisor]
    store: MemoryStore
    records: MemoryRecords
    supervisor: Supervisor
    upstream: Upstream

    def another(self) -> Supervisor:
        """To be started; the present one has drained."""
        self.supervisor = self.make()
        return self.supervisor

    async def begin(self, text: str, model: str = "scripted") -> str:
        """The id of the response."""
        scribe = Scribe(self.store)
        question = [{"role": "user", "content": text}]
        request = msgspec.structs.replace(scribe.request(), messages=question, model=model)
        self.records.requests[scribe.rid] = request
        assert await self.store.create(request, upstream_model="scripted-1")
        return scribe.rid

    async def stop(self, rid: str) -> None:
        await self.store.cancel(rid, "user", ended=STOP)

    async def outcome(self, rid: str) -> Outcome:
        return await wait_until(lambda: self.records.outcomes.get(rid), "the record", timeout=20)

    async def ask(self, text: str) -> tuple[Snapshot, list[ev.Notice]]:
        """How the answer ended, and what was told of the way there."""
        rid = await self.begin(text)
        snapshot = (await self.outcome(rid)).snapshot
        events = await self.events(rid)
        assert [event.seq for event in events] == list(range(1, snapshot.seq + 1))
        assert snapshot.text_sha256 == text_sha256(snapshot.text)
        return snapshot, [event for event in events if isinstance(event, ev.Notice)]

    async def events(self, rid: str) -> list[ev.AnyEvent]:
        page = await self.store.read(rid, after=0, max_bytes=CONFIG.max_log_bytes * 2)
        assert page is not None
        return [ev.decode_event(event) for event in page.events]


@asynccontextmanager
async def answering(
    models: Mapping[str, ModelConfig], config: RelayConfig = CONFIG, **changes: float
) -> AsyncIterator[Answering]:
    config = replace(config, **changes)  # type: ignore[arg-type]
    store, records, upstream = MemoryStore(config), MemoryRecords(), Upstream(config)
    hub = Hub(store, config)
    made: list[Supervisor] = []

    def make() -> Supervisor:
        made.append(Supervisor(store, hub, records, lambda: models, config, upstream=upstream))
        return made[-1]

    worker = Answering(make, store, records, make(), upstream)
    worker.supervisor.start()
    try:
        yield worker
    finally:
        for supervisor in made:
            await supervisor.aclose()
        await upstream.aclose()
        await hub.aclose()
        await store.aclose()
