"""Where this process stands in one followed log, and who is live there (PROTOCOL 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from relay.metrics import COUNTERS

if TYPE_CHECKING:
    from relay.store import Page, Published

RECENT: Final = 16
"""Deliveries a watch remembers, so that a viewer that has just read up to the tail can join a fast
log."""
HELD: Final = 64
"""Messages kept while nobody knows yet where the log stands; older ones are found in the log."""
KEPT_BYTES: Final = 32 * 1024
"""Bound of either: a big delivery is read from the log again rather than kept."""


Delivery = tuple[int, int, int, bytes, bool]
"""First seq, last seq, epoch, frames, whether the last one is `ended`."""


class Attendant(Protocol):
    """Whoever has a stream open here, of whatever."""

    def shut(self, comment: str) -> None: ...

    lag_s: float
    """At the last tick: for how long it has taken nothing of what waits for it."""

    @property
    def present_as(self) -> str:
        """Response and viewer whose presence it keeps; "" where nobody's."""

    def tick(self, now_s: float) -> tuple[str, str, int] | None:
        """Once a second. A heartbeat of presence (response id, viewer, seq), when one is due."""


class Viewer(Attendant, Protocol):
    """What the hub needs of whoever watches a response."""

    seq: int
    epoch: int

    def push(self, chunk: bytes, seq: int, epoch: int, ended: bool) -> None: ...
    def resync(self) -> None:
        """What was seen is no longer in the log: start again from a snapshot."""

    def fail(self, error: Exception) -> None: ...


def frame(seq: int, event: bytes) -> bytes:
    """One event of the log as a server-sent event; its type is read off its fixed beginning."""
    kind = event[9 : event.index(b'"', 9)]
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (seq, kind, event)


def _size(message: Published) -> int:
    return sum(map(len, message.events))


def is_ended(event: bytes) -> bool:
    return event.startswith(b'{"type":"ended"')


class Watch:
    """One followed response: where this process stands in its log, and who is live there."""

    def __init__(self, response_id: str) -> None:
        self.response_id = response_id
        self.seq: int | None = None
        """Last event delivered to live viewers; None until a viewer has reached the tail."""
        self.epoch = 0
        self.ended = False
        self.live: set[Viewer] = set()
        self.users = 0
        self.ready: asyncio.Future[None] | None = None
        self.catching_up = False
        self.outran = False
        """While the log was read something came that did not follow on what was delivered."""
        self.missing_s: float | None = None
        """Since when its log is not there, by time.monotonic."""
        self.needs_look = False
        """A held message did not follow on what the first viewer had read."""
        # Lists, since there are few: an empty deque takes 750 bytes.
        self._held: list[Published] = []
        self._held_bytes = 0
        self._recent: list[Delivery] = []
        self._recent_bytes = 0

    def offer(self, message: Published) -> bool:
        """Deliver what is new. False when the log must be looked at instead."""
        if self.seq is None:
            self._hold(message)
            return True
        if message.epoch < self.epoch:
            return True  # a late copy of what a later writer has built on
        last = message.first_seq + len(message.events) - 1
        if message.first_seq > self.seq + 1:
            return False
        if message.epoch > self.epoch and self.seq > 1:
            # Another writer: only the log can say whether what was delivered is still in it.
            # Event 1 is the same in every history, so the usual first claim costs no read.
            return False
        if last > self.seq:
            new = message.events[self.seq + 1 - message.first_seq :]
            self._deliver(self.seq + 1, new, message.epoch)
        return True

    def offer_page(self, page: Page) -> None:
        """Deliver what a read of the log brought, if it follows on what was delivered."""
        if self.seq is None or not page.events:
            return
        skip = self.seq + 1 - page.first_seq
        if skip < 0 or skip >= len(page.events):
            return
        if skip > 0 and page.epochs[skip - 1] != self.epoch:
            return
        self._deliver(self.seq + 1, page.events[skip:], page.epochs[-1])

    def _deliver(self, first: int, events: Sequence[bytes], epoch: int) -> None:
        if len(events) == 1:
            chunk = frame(first, events[0])
        else:
            chunk = b"".join([frame(first + i, event) for i, event in enumerate(events)])
        self.seq = last = first + len(events) - 1
        self.epoch = epoch
        self.ended = is_ended(events[-1])
        COUNTERS.events_delivered += len(events)
        self._remember((first, last, epoch, chunk, self.ended))
        for viewer in list(self.live):
            viewer.push(chunk, last, epoch, self.ended)

    def _hold(self, message: Published) -> None:
        self._held.append(message)
        self._held_bytes += _size(message)
        while self._held_bytes > KEPT_BYTES or len(self._held) > HELD:
            self._held_bytes -= _size(self._held.pop(0))
            self.needs_look = True

    def _remember(self, delivery: Delivery) -> None:
        self._recent.append(delivery)
        self._recent_bytes += len(delivery[3])
        while self._recent_bytes > KEPT_BYTES or len(self._recent) > RECENT:
            self._recent_bytes -= len(self._recent.pop(0)[3])

    def join(self, viewer: Viewer) -> bool:
        """Make a viewer that has read up to a tail live. False: it must read on first."""
        if self.seq is None:
            self.seq, self.epoch = viewer.seq, viewer.epoch
            self.live.add(viewer)
            held = list(self._held)
            self._held.clear()
            self._held_bytes = 0
            self.needs_look = self.needs_look or not all([self.offer(message) for message in held])  # noqa: C419 - offer every one
            return True
        if viewer.seq > self.seq:
            return False
        if viewer.seq == self.seq:
            if viewer.epoch != self.epoch:
                return False
            self.live.add(viewer)
            return True
        missing = [d for d in self._recent if d[1] > viewer.seq]
        if not missing or missing[0][0] != viewer.seq + 1:
            return False
        self.live.add(viewer)
        for _, seq, epoch, chunk, ended in missing:
            viewer.push(chunk, seq, epoch, ended)
        return True

    def reset(self, page: Page) -> None:
        """The log is another one than what was delivered: everybody starts from a snapshot."""
        self.seq, self.epoch, self.ended = page.tail.seq, page.tail.epoch, page.tail.ended
        self._recent.clear()
        self._recent_bytes = 0
        live, self.live = list(self.live), set()
        for viewer in live:
            viewer.resync()

    def fail(self, error: Exception) -> None:
        live, self.live = list(self.live), set()
        for viewer in live:
            viewer.fail(error)
