"""Open streams lose their viewer's right within 5 s of its revocation (law 15).

A stream authenticates once and may then live for a quarter of an hour. So all credentials behind
the streams of this process are looked up every 3 s, in one query however many there are. For 30 s
a database that is away is no revocation.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, Protocol

from django.contrib.sessions.models import Session
from django.db import InterfaceError, OperationalError
from django.db.models import CharField, QuerySet, Value
from django.db.models.functions import Cast
from django.utils import timezone

from chatapp.models import ApiKey, User

if TYPE_CHECKING:
    from chatapp.auth.identify import Principal
    from chatapp.middleware.threads import DatabaseThreads

logger = logging.getLogger(__name__)

CHECK_S: Final = 3.0
"""With the time of the query itself this stays below the 5 s that law 15 grants."""
BLIND_S: Final = 30.0
"""Without an answer for this long nobody knows who may still look (PROTOCOL 11)."""


class Stream(Protocol):
    def shut(self, comment: str) -> None: ...


class LiveCredentials:
    """The open streams of one process by credential. Its task lives as long as there are any."""

    def __init__(
        self, threads: DatabaseThreads, *, check_s: float = CHECK_S, blind_s: float = BLIND_S
    ) -> None:
        self._threads = threads
        self._check_s = check_s
        self._blind_s = blind_s
        self._streams: defaultdict[Principal, set[Stream]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._answered_s = time.monotonic()

    def __repr__(self) -> str:
        streams = sum(map(len, self._streams.values()))
        return f"<LiveCredentials {len(self._streams)} credentials, {streams} streams>"

    def watching(self, principal: Principal, stream: Stream) -> Watching:
        """While entered, `stream` is shut as soon as `principal` is known to be revoked."""
        return Watching(self, principal, stream)

    def add(self, principal: Principal, stream: Stream) -> None:
        self._streams[principal].add(stream)
        if self._task is None or self._task.done():
            self._answered_s = time.monotonic()
            # Its own context: it outlives the request that happens to start it.
            self._task = asyncio.create_task(self._check_on(), context=Context())

    def remove(self, principal: Principal, stream: Stream) -> None:
        self._streams[principal].discard(stream)
        if not self._streams[principal]:
            del self._streams[principal]
        if not self._streams and self._task is not None:
            self._task.cancel()

    async def _check_on(self) -> None:
        while True:
            await asyncio.sleep(self._check_s)
            try:
                await self.check()
            except Exception:
                logger.exception("the check of live credentials failed")

    async def check(self) -> None:
        """Shut the streams of everybody who lost the right to look."""
        principals = list(self._streams)
        try:
            valid = await self._threads.run(still_valid, principals)
        except (OperationalError, InterfaceError) as exc:
            if time.monotonic() - self._answered_s > self._blind_s:
                self._shut(principals, "it cannot be verified that you may watch this; try again")
            logger.warning("live credentials could not be checked: %s", exc)
            return
        self._answered_s = time.monotonic()
        self._shut(set(principals) - valid, "this session or key is no longer valid")

    def _shut(self, principals: Iterable[Principal], comment: str) -> None:
        for principal in principals:
            for stream in list(self._streams.get(principal, ())):
                stream.shut(comment)


class Watching:
    """Of every open stream: a class, since a context made of a generator is twice as big."""

    __slots__ = ("_live", "_principal", "_stream")

    def __init__(self, live: LiveCredentials, principal: Principal, stream: Stream) -> None:
        self._live, self._principal, self._stream = live, principal, stream

    def __enter__(self) -> None:
        self._live.add(self._principal, self._stream)

    def __exit__(self, *_: object) -> None:
        self._live.remove(self._principal, self._stream)


def still_valid(principals: Iterable[Principal]) -> set[Principal]:
    """Those whose credential still holds; one query."""
    wanted = list(principals)
    rows = set(_sessions(wanted).union(_keys(wanted), _passwords(wanted), all=True))
    return {who for who in wanted if all(row in rows for row in _proof(who))}


def _proof(who: Principal) -> list[tuple[str, str, str]]:
    """The rows that must be there. A changed password ends a session, but not a key."""
    credential = (who.kind, who.credential, "")
    if who.kind == "key":
        return [credential]
    return [credential, ("user", str(who.user.pk), who.user.password)]


def _sessions(principals: list[Principal]) -> QuerySet[Any, Any]:
    keys = [who.credential for who in principals if who.kind == "session"]
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    return rows.values_list(_text("session"), Cast("session_key", CharField()), _text(""))


def _keys(principals: list[Principal]) -> QuerySet[Any, Any]:
    keys = [who.credential for who in principals if who.kind == "key"]
    rows = ApiKey.objects.usable().filter(pk__in=keys).order_by()
    return rows.values_list(_text("key"), Cast("pk", CharField()), _text(""))


def _passwords(principals: list[Principal]) -> QuerySet[Any, Any]:
    people = {who.user.pk for who in principals if who.kind == "session"}
    rows = User.objects.filter(pk__in=people, is_active=True)
    return rows.values_list(_text("user"), Cast("pk", CharField()), "password")


def _text(text: str) -> Value:
    return Value(text, output_field=CharField())
