"""A supervisor on a store, with an upstream and records that a test plays itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from relay import events as ev
from relay.generate import End, ended
from relay.store import Store, fold_log
from relay.supervisor import Supervisor
from tests.relay.actors import MODEL, MemoryRecords, PuppetCall, PuppetUpstream
from tests.relay.scribe import Scribe
from tests.waiting import wait_until

if TYPE_CHECKING:
    from relay.config import RelayConfig
    from relay.generate import Outcome
    from relay.hub import Hub
    from relay.request import Disconnect


STOP = ev.encode_event(ended(End.cancelled("user")), 0)


@dataclass
class Stage:
    store: Store
    hub: Hub
    config: RelayConfig
    upstream: PuppetUpstream
    records: MemoryRecords
    supervisor: Supervisor

    def another(self, name: str, config: RelayConfig | None = None) -> Supervisor:
        return Supervisor(
            self.store,
            self.hub,
            self.records,
            lambda: {"scripted": MODEL},
            config or self.config,
            upstream=self.upstream,
            worker=name,
        )

    async def ask(self, policy: Disconnect | None = None) -> Scribe:
        scribe = Scribe(self.store)
        self.records.requests[scribe.rid] = scribe.request(policy)
        await scribe.create(policy)
        return scribe

    async def call(self, n: int = 0) -> PuppetCall:
        await wait_until(lambda: len(self.upstream.calls) > n, f"upstream call {n}")
        return self.upstream.calls[n]

    async def asked(self, policy: Disconnect | None = None) -> tuple[str, PuppetCall]:
        n = len(self.upstream.calls)
        scribe = await self.ask(policy)
        return scribe.rid, await self.call(n)

    async def outcome(self, rid: str, timeout: float = 10) -> Outcome:
        return await wait_until(
            lambda: self.records.outcomes.get(rid), "the record", timeout=timeout
        )

    async def text(self, rid: str) -> str:
        folded = await fold_log(self.store, rid)
        return folded[0].text if folded else ""

    async def until_text(self, rid: str, text: str) -> None:
        async def shown() -> bool:
            return await self.text(rid) == text

        await wait_until(shown, f"{text!r} in the log")
