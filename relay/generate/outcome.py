"""What the application is told of an ended response, and what relay asks of it (PROTOCOL 8)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from relay.errors import LogGone, StoreUnavailable
from relay.generate.story import Story
from relay.store import Store, fold_log

if TYPE_CHECKING:
    from relay.events import Event
    from relay.fold import Snapshot
    from relay.generate.holder import Holder
    from relay.request import GenerationRequest


@dataclass(frozen=True, slots=True)
class Record:
    """The application's word on a response. It wins over any log."""

    final: bool
    """The row has an end already, or there is no such row."""
    request: GenerationRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """An ended response, ready to be recorded."""

    response_id: str
    snapshot: Snapshot
    """The fold of the whole log; it has ended."""
    counted_output_tokens: int | None = None
    """Our own count of what the upstream made; None when its log is lost."""
    delivered_seq: int = 0
    """Highest seq known to have been handed to a socket, at this moment."""
    worker: str = ""
    story: Story | None = None
    """How it came about; None when its log is lost."""


class Records(Protocol):
    """Implemented by the application."""

    async def load(self, response_id: str) -> Record:
        """Raises RecordUnavailable when the database cannot be reached."""

    async def finalize(self, outcome: Outcome) -> None:
        """Write the end in one transaction, unless the row is final already. Safe to repeat.

        Raises RecordUnavailable when the database cannot be reached.
        """


async def conclude(
    store: Store,
    response_id: str,
    *,
    counted_output_tokens: int | None = None,
    worker: str = "",
    holder: Holder | None = None,
) -> Outcome:
    """Fold an ended log into an outcome. Who has no count of its own is given the last writer's.

    Where the log cannot be read, or has lost its end, the `holder` that wrote it folds its own
    events (PROTOCOL 8). Raises LogGone and StoreUnavailable when there is none.
    """
    notable: list[Event] = []
    try:
        folded, delivered_seq, (pulse,) = await asyncio.gather(
            fold_log(store, response_id, notable),
            store.delivered(response_id),
            store.pulses([response_id]),
        )
    except StoreUnavailable:
        if holder is None:
            raise
        folded, delivered_seq, pulse = None, 0, None
    if folded is None or not folded[0].ended:
        if holder is None:
            raise LogGone(response_id)
        notable = []
        folded = holder.folded(notable), 0
    if counted_output_tokens is None:
        counted_output_tokens = await store.counted(response_id)
    return Outcome(
        response_id=response_id,
        snapshot=folded[0],
        counted_output_tokens=counted_output_tokens,
        delivered_seq=delivered_seq,
        worker=worker,
        story=Story.of(
            notable,
            pulse.claims if pulse else [],
            holder.writer.timeline if holder is not None else None,
        ),
    )
