"""One subscription per process, handed out to local viewers (PROTOCOL 5).

Pub/sub is a wake-up that carries its payload; it may lose messages. Numbers make it reliable: what
does not follow on what was seen makes the hub read the log, and every `check_s` it looks at the
tails of everything it follows, since a lost *last* message leaves no jump to notice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, Protocol

from relay.errors import LogGone, StoreUnavailable
from relay.metrics import COUNTERS
from relay.store import Gone, Lost, Page, Published, Stopped, Store, Subscription

if TYPE_CHECKING:
    from relay.config import RelayConfig

logger = logging.getLogger(__name__)

RECENT: Final = 16
"""Deliveries a watch remembers, so that a viewer that has just read up to the tail can join a fast
log."""
HELD: Final = 256
"""Messages kept while nobody knows yet where the log stands; older ones are found in the log."""
TICK_S: Final = 1.0


class Viewer(Protocol):
    """What the hub needs of whoever watches."""

    seq: int
    epoch: int

    def push(self, chunk: bytes, seq: int, epoch: int, ended: bool) -> None: ...
    def resync(self) -> None:
        """What was seen is no longer in the log: start again from a snapshot."""

    def fail(self, error: Exception) -> None: ...
    def shut(self, comment: str) -> None: ...
    def tick(self, now_s: float) -> tuple[str, str, int] | None:
        """Once a second. A heartbeat of presence (response id, viewer, seq), when one is due."""


def frame(seq: int, event: bytes) -> bytes:
    """One event of the log as a server-sent event; its type is read off its fixed beginning."""
    kind = event[9 : event.index(b'"', 9)]
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (seq, kind, event)


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
        self.needs_look = False
        """A held message did not follow on what the first viewer had read."""
        self._held: deque[Published] = deque(maxlen=HELD)
        self._recent: deque[tuple[int, int, int, bytes, bool]] = deque(maxlen=RECENT)

    def offer(self, message: Published) -> bool:
        """Deliver what is new. False when the log must be looked at instead."""
        if self.seq is None:
            self._held.append(message)
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
        self._recent.append((first, last, epoch, chunk, self.ended))
        for viewer in list(self.live):
            viewer.push(chunk, last, epoch, self.ended)

    def join(self, viewer: Viewer) -> bool:
        """Make a viewer that has read up to a tail live. False: it must read on first."""
        if self.seq is None:
            self.seq, self.epoch = viewer.seq, viewer.epoch
            self.live.add(viewer)
            held = list(self._held)
            self._held.clear()
            self.needs_look = not all([self.offer(message) for message in held])  # noqa: C419 - offer every one
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
        live, self.live = list(self.live), set()
        for viewer in live:
            viewer.resync()

    def fail(self, error: Exception) -> None:
        live, self.live = list(self.live), set()
        for viewer in live:
            viewer.fail(error)


class Hub:
    """The process's ear. Belongs to one event loop; `start` before use, `aclose` after."""

    def __init__(self, store: Store, config: RelayConfig, shards: Sequence[int] = (0,)) -> None:
        self.store = store
        self.config = config
        self._shards = shards
        self._watches: dict[str, Watch] = {}
        self._viewers: set[Viewer] = set()
        self._subscription: Subscription | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._on_stop: list[Callable[[str, str], None]] = []
        self._delivered: dict[str, int] = {}
        self._started = False

    def __repr__(self) -> str:
        return f"<Hub [Responses: {len(self._watches)} | Viewers: {len(self._viewers)}]>"

    def start(self) -> None:
        if not self._started:
            self._started = True
            self._spawn(self._listen(), "relay hub listen")
            self._spawn(self._check(), "relay hub check")
            self._spawn(self._tick(), "relay hub tick")

    async def aclose(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._subscription is not None:
            await self._subscription.aclose()

    def hear_stops(self, callback: Callable[[str, str], None]) -> None:
        """Call `callback(response_id, reason)` for every stop that is published."""
        self._on_stop.append(callback)

    def take_delivered(self) -> dict[str, int]:
        """Highest seq handed to a socket per response whose viewer has gone since the last call."""
        delivered, self._delivered = self._delivered, {}
        return delivered

    # -- viewers --------------------------------------------------------------------------------
    async def enter(self, response_id: str) -> Watch:
        """Watch a response: returns once its messages are sure to be received.

        Raises StoreUnavailable. Every `enter` needs its `leave`.
        """
        watch = self._watches.get(response_id)
        if watch is None:
            watch = self._watches[response_id] = Watch(response_id)
            watch.ready = asyncio.get_running_loop().create_future()
            watch.users += 1
            try:
                await (await self._subscribed()).add(response_id)
            except BaseException as error:
                if not watch.ready.done():
                    watch.ready.set_exception(
                        error if isinstance(error, Exception) else StoreUnavailable("cancelled")
                    )
                    watch.ready.exception()
                self._unwatch(watch)
                raise
            watch.ready.set_result(None)
            return watch
        watch.users += 1
        try:
            if watch.ready is not None:
                await asyncio.shield(watch.ready)
        except BaseException:
            self._unwatch(watch)
            raise
        return watch

    def leave(self, watch: Watch) -> None:
        self._unwatch(watch)

    def _unwatch(self, watch: Watch) -> None:
        watch.users -= 1
        if watch.users <= 0 and self._watches.get(watch.response_id) is watch:
            del self._watches[watch.response_id]
            if self._subscription is not None:
                self._spawn(self._unsubscribe(watch.response_id), "relay hub unsubscribe")

    async def _unsubscribe(self, response_id: str) -> None:
        # Somebody may have come back meanwhile; theirs is a SUBSCRIBE sent after or before this.
        if response_id not in self._watches and self._subscription is not None:
            await self._subscription.remove(response_id)

    def add(self, viewer: Viewer) -> None:
        self._viewers.add(viewer)

    def remove(self, viewer: Viewer, watch: Watch) -> None:
        self._viewers.discard(viewer)
        watch.live.discard(viewer)

    def move_on(self) -> None:
        """This process is going away: every stream ends with a comment, and clients resume."""
        for viewer in list(self._viewers):
            viewer.shut("this server is going away; resume with Last-Event-ID")

    def note_delivered(self, response_id: str, seq: int) -> None:
        """A viewer has gone: the last thing it was handed counts, its presence lapses by itself."""
        if seq > self._delivered.get(response_id, 0):
            self._delivered[response_id] = seq
        self._spawn(self._beat([(response_id, "", seq)]), "relay hub delivered")

    # -- messages -------------------------------------------------------------------------------
    async def _subscribed(self) -> Subscription:
        if self._subscription is None:
            self._subscription = await self.store.subscribe(self._shards)
        return self._subscription

    async def _listen(self) -> None:
        subscription = await self._subscribed()
        async for message in subscription.messages():
            if isinstance(message, Published):
                watch = self._watches.get(message.response_id)
                if watch is not None and not watch.offer(message):
                    self.catch_up(watch)
            elif isinstance(message, Stopped):
                for callback in self._on_stop:
                    callback(message.response_id, message.reason)
            elif isinstance(message, Gone):
                if watch := self._watches.get(message.response_id):
                    watch.fail(LogGone(message.response_id))
            elif isinstance(message, Lost):
                self._spawn(self._look(), "relay hub look")

    def catch_up(self, watch: Watch) -> None:
        """Read what is missing from the log, once at a time per response."""
        if not watch.catching_up:
            watch.catching_up = True
            COUNTERS.gap_fills += 1
            self._spawn(self._read_on(watch), "relay hub catch up")

    async def _read_on(self, watch: Watch) -> None:
        try:
            while watch.seq is not None and not watch.ended:
                page = await self.store.read(
                    watch.response_id, after=watch.seq, epoch=watch.epoch if watch.seq else None
                )
                if page is None:
                    watch.fail(LogGone(watch.response_id))
                    return
                if not page.valid:
                    watch.reset(page)
                    return
                watch.offer_page(page)
                if watch.seq >= page.tail.seq:
                    return
        except StoreUnavailable:
            logger.info("catch up of %s waits for the store", watch.response_id)
        finally:
            watch.catching_up = False

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(self.config.check_s)
            await self._look()

    async def _look(self) -> None:
        """Compare the tails of all followed logs with what was delivered (one round trip)."""
        watches = [w for w in self._watches.values() if w.seq is not None and not w.ended]
        if not watches:
            return
        try:
            tails = await self.store.tails([w.response_id for w in watches])
        except StoreUnavailable:
            return
        for watch, tail in zip(watches, tails, strict=True):
            if tail is None:
                watch.fail(LogGone(watch.response_id))
            elif (tail.seq, tail.epoch) != (watch.seq, watch.epoch):
                self.catch_up(watch)

    # -- time -----------------------------------------------------------------------------------
    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            beats = [beat for viewer in list(self._viewers) if (beat := viewer.tick(now_s))]
            if beats:
                self._spawn(self._beat(beats), "relay hub beat")

    async def _beat(self, beats: list[tuple[str, str, int]]) -> None:
        with suppress(StoreUnavailable):
            await self.store.beat(beats)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        # Tasks are held until done, and start without the context of whoever caused them.
        task = asyncio.get_running_loop().create_task(work, name=name, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed", task.get_name(), exc_info=error)
