"""A whole log read page by page and folded: what a snapshot and a record are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from relay.events import NOTABLE, decode_event
from relay.fold import Folder, Snapshot

if TYPE_CHECKING:
    from relay.events import Event
    from relay.store.protocol import Store


class Log(NamedTuple):
    events: list[bytes]
    """From seq 1 on."""
    epochs: list[int]
    """One per event."""


async def read_log(store: Store, response_id: str) -> Log | None:
    """A whole log up to its tail. None: no log. Begins again when the history changes meanwhile."""
    log = Log([], [])
    while True:
        seq, epoch = len(log.events), log.epochs[-1] if log.epochs else None
        page = await store.read(response_id, after=seq, epoch=epoch)
        if page is None:
            return None
        if not page.valid:
            log = Log([], [])
            continue
        log.events.extend(page.events)
        log.epochs.extend(page.epochs)
        if len(log.events) >= page.tail.seq:
            return log


async def fold_log(
    store: Store, response_id: str, notable: list[Event] | None = None
) -> tuple[Snapshot, int] | None:
    """The fold of a log up to its tail, with the epoch of its last entry. None: no log.

    Reading is not atomic over pages; the cursor (epoch, seq) of each read proves that the next page
    belongs to the same history, else the fold starts again. Those of the events that a story is
    made of are added to `notable`.
    """
    notable = [] if notable is None else notable
    while True:
        folder = Folder()
        notable.clear()
        seq, epoch = 0, 0
        while True:
            page = await store.read(response_id, after=seq, epoch=epoch or None)
            if page is None:
                return None
            if not page.valid:
                break
            for data, writer in zip(page.events, page.epochs, strict=True):
                event = decode_event(data)
                folder.apply(event, writer)
                if type(event) in NOTABLE:
                    notable.append(event)
            if page.events:
                seq, epoch = seq + len(page.events), page.epochs[-1]
            if seq >= page.tail.seq:
                return folder.snapshot(), epoch


async def written_around(store: Store, response_id: str, seq: int) -> tuple[int, int] | None:
    """Characters of the deltas up to event `seq`, and after it, of a log that has ended.

    None: no log.
    """
    before = after = at = 0
    while True:
        page = await store.read(response_id, after=at)
        if page is None:
            return None
        for data in page.events:
            at += 1
            size = len(getattr(decode_event(data), "delta", ""))
            if at <= seq:
                before += size
            else:
                after += size
        if not page.events:
            return before, after
