"""Stand-ins for what a supervisor talks to: an upstream on strings, and an application's
records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from relay import events as ev
from relay.config import ModelConfig
from relay.errors import RecordUnavailable, UpstreamError
from relay.generate import Outcome, Record

if TYPE_CHECKING:
    from relay.request import GenerationRequest

MODEL = ModelConfig(
    name="scripted", dialect="openai-chat", base_url="http://127.0.0.1:9", upstream_model="s-1"
)


@dataclass(frozen=True)
class Finished:
    finish_reason: str | None


class PuppetCall:
    """One opened upstream. The test says what it sends; leaving it early is an abort."""

    def __init__(self, request: GenerationRequest) -> None:
        self.request = request
        self.finish: Finished | None = None
        self.counted_output_ids: int | None = None
        self.aborted = False
        self.closed = asyncio.Event()
        self.read = 0
        """Items handed to the reader."""
        self._items: asyncio.Queue[Sequence[ev.Event] | Finished | Exception] = asyncio.Queue()

    def say(self, *deltas: str) -> None:
        self._items.put_nowait([ev.TextDelta(delta=delta) for delta in deltas])

    def send(self, *events: ev.Event) -> None:
        self._items.put_nowait(list(events))

    def end(self, finish_reason: str | None = "stop") -> None:
        self._items.put_nowait(Finished(finish_reason))

    def fail(self, error: Exception) -> None:
        self._items.put_nowait(error)

    def abandon(self) -> list[ev.Event]:
        return []

    async def __aiter__(self) -> AsyncIterator[list[ev.Event]]:
        while True:
            item = await self._items.get()
            self.read += 1
            if isinstance(item, Exception):
                raise item
            if isinstance(item, Finished):
                self.finish = item
                return
            yield list(item)


class PuppetUpstream:
    def __init__(self) -> None:
        self.calls: list[PuppetCall] = []
        self.refusal: UpstreamError | None = None

    @asynccontextmanager
    async def open(
        self, request: GenerationRequest, model: ModelConfig, *, stream: bool = True
    ) -> AsyncIterator[PuppetCall]:
        if self.refusal is not None:
            raise self.refusal
        call = PuppetCall(request)
        self.calls.append(call)
        try:
            yield call
        except asyncio.CancelledError:
            call.aborted = True
            raise
        finally:
            call.closed.set()

    @property
    def open_calls(self) -> int:
        return sum(not call.closed.is_set() for call in self.calls)


@dataclass
class MemoryRecords:
    """Rows as a dict; `away` makes the next calls fail as a database that is down."""

    requests: dict[str, GenerationRequest] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    writes: int = 0
    away: int = 0

    def _reach(self) -> None:
        if self.away:
            self.away -= 1
            raise RecordUnavailable("the database is away")

    async def load(self, response_id: str) -> Record:
        self._reach()
        return Record(
            final=response_id in self.outcomes or response_id not in self.requests,
            request=self.requests.get(response_id),
        )

    async def finalize(self, outcome: Outcome) -> None:
        self._reach()
        if outcome.response_id not in self.outcomes:
            self.outcomes[outcome.response_id] = outcome
            self.writes += 1
