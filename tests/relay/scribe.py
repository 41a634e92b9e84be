"""A writer for tests: makes a response, claims it, and writes what it is told, batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from relay import events as ev
from relay.fold import text_sha256
from relay.generate import End, ended
from relay.generate.end import now_rfc3339
from relay.request import Disconnect, GenerationRequest
from relay.store import Batch, Claimed, Lease, Reply, Store, new_response_id
from tests.waiting import wait_until


class Scribe:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.rid = new_response_id()
        self.lease: Lease | None = None
        self.seq = 0
        self.text = ""

    def request(self, policy: Disconnect | None = None) -> GenerationRequest:
        return GenerationRequest(
            response_id=self.rid,
            model="scripted",
            messages=[{"role": "user", "content": "hello"}],
            created_at=now_rfc3339(),
            on_disconnect=policy or Disconnect(),
        )

    async def create(self, policy: Disconnect | None = None) -> None:
        assert await self.store.create(self.request(policy), upstream_model="scripted-1")
        self.seq = 1

    async def claim(self, worker: str = "scribe") -> None:
        async def jobs() -> list[object]:
            return [
                job
                for job in await self.store.take(0, worker, 100, 0.01)
                if job.response_id == self.rid
            ]

        job = (await wait_until(jobs, "the job to be handed out"))[0]
        claim = await self.store.claim(job, worker, at=now_rfc3339())  # type: ignore[arg-type]
        assert claim.outcome is Claimed.RUN
        self.lease, self.seq = claim.lease, claim.seq

    async def begin(self, policy: Disconnect | None = None) -> None:
        await self.create(policy)
        await self.claim()

    async def say(self, *deltas: str) -> None:
        """One append with one event per delta."""
        await self._append([ev.TextDelta(delta=delta) for delta in deltas], content=True)
        self.text += "".join(deltas)

    async def tell(self, notice: ev.Notice) -> None:
        await self._append([notice], content=False)

    async def repeat(self, events: Sequence[dict[str, Any]]) -> None:
        """Say what a writer of another version said after its `started`, its end included."""
        assert self.lease is not None
        start = next(i for i, event in enumerate(events) if event["type"] == "started") + 1
        own = {"epoch": self.lease.epoch}
        lines = [
            msgspec.json.encode(event | {"seq": self.seq + n} | (own if "epoch" in event else {}))
            for n, event in enumerate(events[start:], start=1)
        ]
        await self._append_lines(lines[:-1], content=True)
        assert events[-1]["type"] == "ended"
        reply = await self.store.close(Batch(self.lease, self.seq + 1, lines[-1:], False))
        self.seq = reply.seq

    async def _append(self, events: Sequence[ev.Event], *, content: bool) -> None:
        first = self.seq + 1
        lines = [ev.encode_event(event, first + i) for i, event in enumerate(events)]
        await self._append_lines(lines, content=content)

    async def _append_lines(self, lines: list[bytes], *, content: bool) -> None:
        assert self.lease is not None
        first = self.seq + 1
        (answer,) = await self.store.append([Batch(self.lease, first, lines, content)])
        assert isinstance(answer, Reply), answer
        self.seq = answer.seq

    async def end(self, end: End | None = None, *, usage: ev.UsageCount | None = None) -> None:
        assert self.lease is not None
        event = ended(
            end or End.finished("stop"),
            epoch=self.lease.epoch,
            text_sha256=text_sha256(self.text),
            usage=usage,
            at=now_rfc3339(),
        )
        data = ev.encode_event(event, self.seq + 1)
        reply = await self.store.close(Batch(self.lease, self.seq + 1, [data], False))
        self.seq = reply.seq

    async def ack(self) -> bool:
        assert self.lease is not None
        return await self.store.ack(self.lease.job)
