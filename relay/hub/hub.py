"""One subscription per process, handed out to local viewers (PROTOCOL 5).

Pub/sub is a wake-up that carries its payload; it may lose messages. Numbers make it reliable: what
does not follow on what was seen makes the hub read the log, and every `check_s` it looks at the
tails of everything it follows, since a lost *last* message leaves no jump to notice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence, Set
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from relay.errors import LogGone, StoreUnavailable
from relay.hub.forever import forever
from relay.hub.watch import Attendant, Watch
from relay.metrics import COUNTERS
from relay.store import Gone, Lost, Published, Stopped, Store, Subscription, shard_of

if TYPE_CHECKING:
    from relay.config import RelayConfig

logger = logging.getLogger(__name__)

TICK_S: Final = 1.0
MOVE_ON: Final = "this server is going away; resume with Last-Event-ID"


class Visit(NamedTuple):
    """One view of one response, from its attach until it was closed."""

    response_id: str
    viewer: str
    from_seq: int
    """The cursor it came with; 0: from the start, or for a snapshot."""
    to_seq: int
    """The last event that was handed to its socket."""
    stayed_s: float


class Hub:
    """The process's ear. Belongs to one event loop; `start` before use, `aclose` after."""

    def __init__(self, store: Store, config: RelayConfig, shards: Sequence[int] = (0,)) -> None:
        self.store = store
        self.config = config
        self._shards = shards
        self._watches: dict[str, Watch] = {}
        self._viewers: set[Attendant] = set()
        self._subscription: Subscription | None = None
        self._subscribing = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._on_stop: list[Callable[[str, str], None]] = []
        self._on_gone: list[Callable[[Visit], None]] = []
        self._gone: list[tuple[str, str, int]] = []
        """Last heartbeats of viewers that have gone, sent with the next tick."""
        self._looking: set[int] = set()
        """Shards whose tails are asked for: a node of a cluster that hangs is not asked again and
        again, nor does it hold back the others."""
        self._left: set[str] = set()
        """Responses whose last viewer has gone, unsubscribed with the next tick."""
        self._started = False
        self.leaving = False
        """This process was told to stop: it takes no more viewers, and `/readyz` says so."""

    def __repr__(self) -> str:
        return f"<Hub [Responses: {len(self._watches)} | Viewers: {len(self._viewers)}]>"

    @property
    def viewers(self) -> int:
        """Streams that are open here."""
        return len(self._viewers)

    @property
    def followed(self) -> int:
        """Responses that they follow."""
        return len(self._watches)

    @property
    def present(self) -> int:
        """Presences (PROTOCOL 7) that this process keeps up."""
        return len({viewer.present_as for viewer in self._viewers} - {""})

    def start(self) -> None:
        if not self._started:
            self._started = True
            for loop in (self._listen, self._check, self._tick):
                name = f"relay hub {loop.__name__}"
                self._spawn(forever(loop, name), name)

    async def aclose(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._subscription is not None:
            await self._subscription.aclose()

    def hear_stops(self, callback: Callable[[str, str], None]) -> None:
        """Call `callback(response_id, reason)` for every stop that is published."""
        self._on_stop.append(callback)

    def hear_visits(self, callback: Callable[[Visit], None]) -> None:
        """Call `callback` whenever a viewer of this process has gone. It must not raise."""
        self._on_gone.append(callback)

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
            self._left.add(watch.response_id)

    async def _unsubscribe(self) -> None:
        """Let go of what nobody follows any more: once a tick, since many come and go together."""
        left, self._left = self._left, set()
        # Somebody may have come back meanwhile; theirs is a SUBSCRIBE sent after or before this.
        unwatched = [response_id for response_id in left if response_id not in self._watches]
        if unwatched and self._subscription is not None:
            await self._subscription.remove(unwatched)

    def add(self, viewer: Attendant) -> None:
        """Until `remove` it is ticked, and shut when this process goes away."""
        self._viewers.add(viewer)
        if self.leaving:  # it came while the server was closing its door
            viewer.shut(MOVE_ON)

    def remove(self, viewer: Attendant) -> None:
        self._viewers.discard(viewer)

    def move_on(self) -> None:
        """This process is going away: every stream ends with a comment, and clients resume."""
        self.leaving = True
        for viewer in list(self._viewers):
            viewer.shut(MOVE_ON)

    def note_gone(self, visit: Visit) -> None:
        """A viewer has gone: the last thing it was handed counts, its presence lapses by itself."""
        if visit.to_seq:
            self._gone.append((visit.response_id, "", visit.to_seq))
        for callback in self._on_gone:
            callback(visit)

    # -- messages -------------------------------------------------------------------------------
    async def _subscribed(self) -> Subscription:
        # One, however many ask at once: messages of a second one would be heard by nobody.
        async with self._subscribing:
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
                self._look()

    def catch_up(self, watch: Watch) -> None:
        """Read what is missing from the log, once at a time per response."""
        if not watch.catching_up:
            watch.catching_up = True
            COUNTERS.gap_fills += 1
            self._spawn(self._read_on(watch), "relay hub catch up")
        else:
            # What is on its way may be a page from before: nobody else would look for `check_s`.
            watch.outran = True

    async def _read_on(self, watch: Watch) -> None:
        try:
            while watch.seq is not None and not watch.ended:
                watch.outran = False
                page = await self.store.read(
                    watch.response_id, after=watch.seq, epoch=watch.epoch if watch.seq else None
                )
                if page is None:
                    self._missing(watch)
                    return
                watch.missing_s = None
                if not page.valid:
                    watch.reset(page)
                    return
                before = watch.seq
                watch.offer_page(page)
                COUNTERS.gap_events += watch.seq - before
                if watch.seq >= page.tail.seq and not watch.outran:
                    return
        except StoreUnavailable:
            logger.info("catch up of %s waits for the store", watch.response_id)
        finally:
            watch.catching_up = False

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(self.config.check_s)
            self._look(but=frozenset(self._looking))

    def _look(self, *, but: Set[int] = frozenset()) -> None:
        """Compare the tails of all followed logs with what was delivered (one round trip)."""
        by_shard: dict[int, list[Watch]] = {}
        for watch in self._watches.values():
            if watch.seq is not None and not watch.ended:
                by_shard.setdefault(shard_of(watch.response_id), []).append(watch)
        for shard in by_shard.keys() - but:
            self._looking.add(shard)
            self._spawn(self._look_at(shard, by_shard[shard]), "relay hub look")

    async def _look_at(self, shard: int, watches: Sequence[Watch]) -> None:
        try:
            tails = await self.store.tails([w.response_id for w in watches])
        except StoreUnavailable:
            return
        finally:
            self._looking.discard(shard)
        for watch, tail in zip(watches, tails, strict=True):
            if tail is None:
                self._missing(watch)
                continue
            watch.missing_s = None
            if (tail.seq, tail.epoch) != (watch.seq, watch.epoch):
                self.catch_up(watch)

    def _missing(self, watch: Watch) -> None:
        """A log that is not there may be lost: its writer has a lease's time to restore it."""
        now_s = time.monotonic()
        if watch.missing_s is None:
            watch.missing_s = now_s
        if now_s - watch.missing_s > self.config.lease_s:
            watch.fail(LogGone(watch.response_id))

    # -- time -----------------------------------------------------------------------------------
    async def _tick(self) -> None:
        while True:
            asked_s = time.monotonic()
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            COUNTERS.loop_lag.observe(now_s - asked_s - TICK_S)
            beats, self._gone = self._gone, []
            beats += [beat for viewer in list(self._viewers) if (beat := viewer.tick(now_s))]
            lags_s = [viewer.lag_s for viewer in self._viewers if viewer.lag_s]
            COUNTERS.viewers_lagging, COUNTERS.viewer_lag_s = len(lags_s), max(lags_s, default=0.0)
            if beats:
                self._spawn(self._beat(beats), "relay hub beat")
            if self._left:
                self._spawn(self._unsubscribe(), "relay hub unsubscribe")

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
