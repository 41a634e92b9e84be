"""Who watches one response: replay from a cursor, then live, without a gap or a repeat (PROTOCOL 4,
5).

A view pulls. It reads pages of the log until it has reached the tail, then joins the hub's watch
and is pushed what comes. Its buffer is bounded: a viewer that does not read falls out of the live
set and goes back to paged reads of the log when it wakes up, so a slow viewer costs a buffer, never
more (law 9).
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, Self

from relay.errors import LogGone, StoreUnavailable, ViewersFull
from relay.events import encode_event
from relay.fold import Snapshot, ended_event
from relay.hub import Hub, Visit, Watch, frame, is_ended
from relay.metrics import COUNTERS
from relay.store import Page, fold_log
from relay.wire.sse import Frame, encode_frame

MAX_BUFFER_BYTES: Final = 32 * 1024
"""What one viewer may have waiting for it; more is read from the log when it asks."""
PAGE_BYTES: Final = 12 * 1024
"""Of one read of the log. A viewer that stalls holds one page here and what its server's buffer
takes: with 64 KiB, 200 that read 1 KB a second were 38 MB."""
PING: Final = b": ping\n"
"""One newline: after an `id:` a blank line would make some clients dispatch an empty event."""
RETRY: Final = b"retry: 2000\n"
JOIN_WAIT_S: Final = 0.02
STORE_WAIT_S: Final = 0.5
"""Pause before the log is read again when the store does not answer."""


class View:
    """One viewer of one response: an async iterator of bytes for its socket."""

    def __init__(self, hub: Hub, watch: Watch, *, viewer: str, after: int, epoch: int) -> None:
        self.seq = after
        self.epoch = epoch
        self.lag_s = 0.0
        """At the last tick: for how long it has taken nothing of what waits for it."""
        self.at_end = False
        """The cursor was valid and named `ended`: there is nothing left to send."""
        self._hub = hub
        self._watch = watch
        self._viewer = viewer
        self._pending: list[bytes] = [RETRY]
        self._pending_bytes = 0
        self._came_seq = self._handed_seq = 0
        self._sound = False
        """The log has what its cursor names: until then that is only what somebody says."""
        self._live = False
        self._wants_snapshot = False
        self._waits_since_s: float | None = None
        self._finished = False
        self._closed = False
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        now_s = time.monotonic()
        self._opened_s = self._sent_s = self._ticked_s = now_s
        self._waited = False
        """At the last tick something was there for it."""
        self._catches_up = after > 0
        """It is a resume, and what was missed is not handed out yet."""
        # The first heartbeat is due one interval from now: attending counted as one.
        self._beaten_s = now_s

    def __repr__(self) -> str:
        mode = "live" if self._live else "replaying"
        return f"<View {self._watch.response_id} at ({self.epoch}, {self.seq}), {mode}>"

    @property
    def cursor_is_lost(self) -> bool:
        """What it names is not in the log: a record that is final knows better (PROTOCOL 8.1)."""
        return self._wants_snapshot and self.seq > 0

    @property
    def present_as(self) -> str:
        """Response and viewer whose presence it keeps."""
        return f"{self._watch.response_id} {self._viewer}" if self._viewer else ""

    @property
    def waits(self) -> bool:
        """There was no log yet, and there still is none: whoever asks for more waits on."""
        return self._waits_since_s is not None

    # -- called by the hub --------------------------------------------------------------------
    def push(self, chunk: bytes, seq: int, epoch: int, ended: bool) -> None:
        if self._pending_bytes + len(chunk) > MAX_BUFFER_BYTES and self._pending_bytes:
            self._fall_back()
            return
        self._pending.append(chunk)
        self._pending_bytes += len(chunk)
        self.seq, self.epoch = seq, epoch
        if ended:
            self._finished = True
        self._wake()

    def resync(self) -> None:
        self._live = self._sound = False
        self._wants_snapshot = True
        self._wake()

    def fail(self, error: Exception) -> None:
        self._failure = error
        self._wake()

    def tick(self, now_s: float) -> tuple[str, str, int] | None:
        config = self._hub.config
        # At the last tick something waited for it, and it has taken nothing since.
        stuck = self._waited and self._sent_s < self._ticked_s
        self.lag_s = self.lag_s + now_s - self._ticked_s if stuck else 0.0
        self._waited, self._ticked_s = bool(self._pending), now_s
        if now_s - self._sent_s >= config.heartbeat_s and not self._pending:
            self._sent_s = now_s
            self._pending.append(PING)
            self._wake()
        if config.viewer_max_age_s and now_s - self._opened_s >= config.viewer_max_age_s:
            self.shut("this stream is old enough; resume it with Last-Event-ID")
        if self._viewer and now_s - self._beaten_s >= config.heartbeat_s:
            self._beaten_s = now_s
            return (self._watch.response_id, self._viewer, self._handed_seq)
        return None

    # -- called by its owner --------------------------------------------------------------------
    def shut(self, comment: str) -> None:
        """End this view from outside, with one comment line; what was pushed before is kept."""
        if not self._finished:
            self._pending.append(b": " + comment.replace("\n", " ").encode() + b"\n")
            self._finished = True
            self._wake()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """What is ready for the socket, one or many frames.

        Raises LogGone when the log was retired or has vanished: then the record answers. While it
        `waits` it does so every `lease_s`: a log that never comes is known by its record alone.
        """
        while True:
            if self._pending:
                return self._hand_out()
            if self._failure is not None:
                raise self._failure
            if self._finished:
                raise StopAsyncIteration
            if self._live:
                await self._wait()
            else:
                await self._read_on()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Give the watch back. A disconnect writes nothing but how far this viewer was handed."""
        if self._closed:
            return
        self._closed = True
        self._hub.remove(self)
        self._watch.live.discard(self)
        self._hub.leave(self._watch)
        if self._viewer:
            stayed_s = time.monotonic() - self._opened_s
            self._hub.note_gone(
                Visit(
                    self._watch.response_id,
                    self._viewer,
                    self._came_seq,
                    self._handed_seq,
                    stayed_s,
                )
            )
        self._finished = True

    # -- inside -----------------------------------------------------------------------------------
    def _hand_out(self) -> bytes:
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
        if self._sound:
            self._handed_seq = self.seq
        self._sent_s = time.monotonic()
        return data

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _fall_back(self) -> None:
        self._live = False
        COUNTERS.viewers_lagged += 1
        self._watch.live.discard(self)

    async def _read_on(self) -> None:
        """Read a page, or a snapshot if the cursor names nothing; join the live set at the tail."""
        try:
            if self._wants_snapshot:
                await self._read_snapshot()
                return
            page = await self._hub.store.read(
                self._watch.response_id,
                after=self.seq,
                epoch=self.epoch or None,
                max_bytes=PAGE_BYTES,
            )
        except StoreUnavailable:
            await asyncio.sleep(STORE_WAIT_S)
            return
        if page is None:
            now_s = time.monotonic()
            if self._waits_since_s is None:
                raise LogGone(self._watch.response_id)
            if now_s - self._waits_since_s > self._hub.config.lease_s:
                self._waits_since_s = now_s
                raise LogGone(self._watch.response_id)
            await asyncio.sleep(self._hub.config.check_s)
            return
        self._take(page)
        if not page.events and not self._live and not self._wants_snapshot:
            # At the tail, and the hub is not there yet: it reads on by itself, we must not spin.
            await asyncio.sleep(JOIN_WAIT_S)

    def _take(self, page: Page) -> None:
        self._waits_since_s = None
        if not page.valid:
            self._wants_snapshot = True
            return
        if not self._sound:
            self._sound, self._came_seq = True, self.seq
        if page.events:
            self._append(page)
        elif not self.epoch and self.seq:
            self.epoch = page.tail.epoch  # a cursor without epoch that names the tail is trusted
        if not self._finished and self.seq >= page.tail.seq:
            self._join()

    def _append(self, page: Page) -> None:
        first = page.first_seq
        chunk = b"".join([frame(first + i, event) for i, event in enumerate(page.events)])
        self._pending.append(chunk)
        self._pending_bytes += len(chunk)
        self.seq, self.epoch = first + len(page.events) - 1, page.epochs[-1]
        self._finished = is_ended(page.events[-1])
        if self._finished:
            self._caught_up()
        self._watch.offer_page(page)

    def _join(self) -> None:
        self._live = self._watch.join(self)
        if self._live:
            self._caught_up()
        if self._watch.needs_look:
            self._watch.needs_look = False
            self._hub.catch_up(self._watch)
        if not self._live and self.seq > (self._watch.seq or 0):
            # We have read further than the hub was told: it must come after.
            self._hub.catch_up(self._watch)

    def _caught_up(self) -> None:
        if self._catches_up:
            self._catches_up = False
            COUNTERS.replay.observe(time.monotonic() - self._opened_s)

    async def _read_snapshot(self) -> None:
        folded = await fold_log(self._hub.store, self._watch.response_id)
        if folded is None:
            raise LogGone(self._watch.response_id)
        snapshot, epoch = folded
        self._wants_snapshot = False
        data = snapshot_frame(snapshot)
        self._pending.append(data)
        self._pending_bytes += len(data)
        self.seq, self.epoch, self._sound = snapshot.seq, epoch, True
        if snapshot.ended:
            self._finished = True
        else:
            self._join()


def snapshot_frame(snapshot: Snapshot) -> bytes:
    """The `snapshot` frame, followed by the rebuilt `ended` when the response has ended."""
    body = snapshot.to_json().decode()
    data = encode_frame(Frame(data=body, event="snapshot", id=str(snapshot.seq)))
    if snapshot.ended:
        data += frame(snapshot.seq, encode_event(ended_event(snapshot), snapshot.seq))
    return data


async def follow(
    hub: Hub,
    response_id: str,
    *,
    after: int | None = None,
    epoch: int | None = None,
    snapshot: bool = False,
    viewer: str = "",
    wait: bool = False,
) -> View:
    """Open a view after cursor (epoch, after); None: from the start, or from a snapshot if asked.

    `viewer` names a presence (`<login>/<viewer id>`); without one nobody counts. With `wait` a log
    that does not exist yet is waited for.

    Raises LogGone when there is no log (and no `wait`), ViewersFull, StoreUnavailable.
    """
    COUNTERS.resumes += bool(after)
    watch = await hub.enter(response_id)
    view = View(hub, watch, viewer=viewer, after=after or 0, epoch=epoch or 0)
    try:
        page, present = await asyncio.gather(
            hub.store.read(
                response_id, after=view.seq, epoch=view.epoch or None, max_bytes=PAGE_BYTES
            ),
            hub.store.attend(response_id, viewer) if viewer else _nobody(),
        )
        limit = hub.config.max_viewers_per_response
        if limit and present > limit:
            await hub.store.leave(response_id, viewer)
            raise ViewersFull(response_id)
        if page is None:
            if not wait:
                raise LogGone(response_id)
            view._waits_since_s = time.monotonic()
        elif after is None and snapshot:
            view._wants_snapshot = True
        else:
            view.at_end = page.valid and page.tail.ended and view.seq == page.tail.seq > 0
            view._take(page)
            view._finished = view._finished or view.at_end
    except BaseException:
        await view.aclose()
        raise
    hub.add(view)
    return view


async def _nobody() -> int:
    return 0


async def wait_ended(hub: Hub, response_id: str, timeout_s: float) -> bool:
    """Wait until the log has ended or is gone. False if that took longer than `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            (tail,) = await hub.store.tails([response_id])
            if tail is None or tail.ended:
                return True
            async with await follow(hub, response_id, after=tail.seq, epoch=tail.epoch) as view:
                async for _ in view:
                    pass
            return True
    except LogGone:
        return True
    except TimeoutError:
        return False
