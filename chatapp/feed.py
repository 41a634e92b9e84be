"""What changes of the chats of everybody who has a page open here, looked up for all at once.

One statement a second per process, and none while nobody watches: 1,000 pages cost no more looks
than one. A page that reads slowly is kept one line per chat, the latest.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import defaultdict
from contextlib import asynccontextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Final, Self

from chatapp import runtime, services
from relay import RecordUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""How late a page hears of what another device did; a person has not looked up by then."""
PING: Final = b": ping\n"


class Watcher:
    """One page's ear: an async iterator of bytes for its socket, and the hub's attendant."""

    def __init__(self, user_id: int) -> None:
        self.user_id = user_id
        self.lag_s = 0.0
        self._frames: dict[str, bytes] = {}
        """What waits to be sent, by chat: a later state replaces an earlier one."""
        self._comments: list[bytes] = []
        self._told: dict[str, bytes] = {}
        """Repeats of a look that overlaps the one before are not sent again."""
        self._over = False
        self._wake = asyncio.Event()
        self._opened_s = self._sent_s = time.monotonic()

    def tell(self, changes: list[services.Change]) -> None:
        """All that a look has found for this person."""
        told, self._told = self._told, {}
        for change in changes:
            frame = _frame("chat", change.as_json())
            self._told[change.id] = frame
            if told.get(change.id) != frame:
                self._frames.pop(change.id, None)  # so that the latest comes last
                self._frames[change.id] = frame
        if self._frames:
            self._wake.set()

    def say(self, event: str, data: object) -> None:
        self._comments.append(_frame(event, data))
        self._wake.set()

    # -- called by the hub --------------------------------------------------------------------
    def shut(self, comment: str) -> None:
        """End it from outside, with one comment line."""
        if not self._over:
            self._comments.append(b": " + comment.replace("\n", " ").encode() + b"\n")
            self._over = True
            self._wake.set()

    @property
    def present_as(self) -> str:
        return ""  # at no answer

    def tick(self, now_s: float) -> None:
        config = runtime.config()
        if now_s - self._sent_s >= config.heartbeat_s:
            self._sent_s = now_s
            self._comments.append(PING)
            self._wake.set()
        if config.viewer_max_age_s and now_s - self._opened_s >= config.viewer_max_age_s:
            self.shut("this stream is old enough; resume it")

    # -- called by its owner ------------------------------------------------------------------
    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not (self._frames or self._comments):
            if self._over:
                raise StopAsyncIteration
            await self._wake.wait()
            self._wake.clear()
        data = b"".join([*self._comments, *self._frames.values()])
        self._comments.clear()
        self._frames.clear()
        self._sent_s = time.monotonic()
        return data


class Feed:
    """The watchers of one process. Its task lives as long as there are any."""

    def __init__(self, *, look_s: float = LOOK_S) -> None:
        self._look_s = look_s
        self._watchers: defaultdict[int, set[Watcher]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._looked_at: datetime | None = None

    def __repr__(self) -> str:
        pages = sum(map(len, self._watchers.values()))
        return f"<Feed {len(self._watchers)} people, {pages} pages>"

    @asynccontextmanager
    async def watching(self, user_id: int, since: datetime | None) -> AsyncIterator[Watcher]:
        """While entered, the watcher is told what changes, and first what has changed `since`."""
        watcher = Watcher(user_id)
        self._watchers[user_id].add(watcher)
        runtime.hub().add(watcher)
        if self._task is None or self._task.done():
            self._looked_at = runtime.now()
            # Its own context: it outlives the request that happens to start it.
            self._task = asyncio.create_task(self._look_on(), context=Context())
        try:
            await self._catch_up(watcher, since)
            yield watcher
        finally:
            runtime.hub().remove(watcher)
            self._watchers[user_id].discard(watcher)
            if not self._watchers[user_id]:
                del self._watchers[user_id]
            if not self._watchers and self._task is not None:
                self._task.cancel()

    async def _catch_up(self, watcher: Watcher, since: datetime | None) -> None:
        now = runtime.now()
        since = since or now
        watcher.say("changes", {"at": services.cursor(now)})
        try:
            found = await services.changed_chats(
                users=[watcher.user_id], since=since, limit=services.MOST + 1
            )
        except RecordUnavailable:
            watcher.shut("the database is away; try again")
            return
        if sum(change.at > services.cursor(since) for _, change in found) > services.MOST:
            watcher.say("stale", {})
        watcher.tell([change for _, change in found])

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(self._look_s)
            try:
                await self.look()
            except RecordUnavailable as exc:
                logger.warning("changes of chats could not be looked up: %s", exc)
            except Exception:
                logger.exception("the look for changes of chats failed")

    async def look(self) -> None:
        """Tell everybody what is new to them. Raises RecordUnavailable: the next look finds it."""
        since, now = self._looked_at or runtime.now(), runtime.now()
        changed = await services.changed_chats(users=list(self._watchers), since=since)
        found: defaultdict[int, list[services.Change]] = defaultdict(list)
        for user_id, change in changed:
            found[user_id].append(change)
        self._looked_at = now
        for user_id, watchers in list(self._watchers.items()):
            for watcher in list(watchers):
                watcher.tell(found[user_id])


def _frame(event: str, data: object) -> bytes:
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
