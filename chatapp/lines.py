"""One stream for everything that a browser follows (PROTOCOL 15), beside Django as in streams.py.

HTTP/1.1 lets a browser have six connections to a site, for all of its tabs: with a stream for each
answer the seventh tab could neither send nor stop. So a browser has one line, which carries the
events of all answers that its tabs follow, and what changes of its person's chats.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from chatapp import services
from chatapp.models import Response
from chatapp.streams import (
    HEADERS,
    RETRY,
    Problem,
    Streams,
    Wish,
    admit_all,
    check_host,
    no_such,
    read_number,
    read_viewer,
    record_frames,
    send_body,
    send_problem,
    send_start,
    shut_when_gone,
    take_place,
)
from relay import RecordUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from chatapp.auth import LiveCredentials, Principal
    from chatapp.feed import Feed
    from chatapp.middleware.asgi_types import App, Message, Receive, Scope, Send
    from chatapp.middleware.threads import DatabaseThreads

MOST: Final = 32
"""Answers on one line: more than one person has tabs in which something is written."""
_ID: Final = re.compile(rb"^id: ", re.MULTILINE)
"""Of a frame. Data is one line of JSON, so no line of it begins like that."""
_FOLLOW: Final = re.compile(r"(?P<id>[A-Za-z0-9_-]{1,48})(?:,(?P<what>[^,]*)(?:,(?P<seq>[^,]*))?)?")


class Lines:
    """Owns `GET /api/events`."""

    def __init__(
        self,
        streams: Streams,
        feed: Feed,
        threads: DatabaseThreads,
        live: LiveCredentials,
        api: App,
    ) -> None:
        self._streams = streams
        self._feed = feed
        self._threads = threads
        self._live = live
        self._api = api

    async def events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """GET /api/events?viewer=&changes=&follow=…"""
        if scope["method"].upper() != "GET":
            await self._api(scope, receive, send)
            return
        try:
            check_host(scope)
            wishes, watches, since = read_wishes(scope["query_string"].decode("latin-1"))
            ids = [wish.response_id for wish in wishes]
            principal, visible = await self._threads.run(admit_all, scope, ids)
            take_place(scope, principal)
        except Problem as problem:
            await send_problem(problem, scope, send)
            return
        await send_start(200, HEADERS, send)
        line = _Line(send)
        gone = asyncio.create_task(shut_when_gone(line.shut, receive))
        try:
            await line.send(RETRY)
            async with asyncio.TaskGroup() as group:
                for wish in wishes:
                    seen = wish.response_id in visible
                    group.create_task(self._follow(line, wish, principal, gone, seen=seen))
                if watches:
                    group.create_task(self._watch(line, principal, since))
        except* OSError:
            pass  # how ASGI 2.4 tells of a closed socket
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone
        with suppress(OSError):
            await send_body(b"", send)

    async def _follow(
        self,
        line: _Line,
        wish: Wish,
        principal: Principal,
        gone: asyncio.Task[None],
        *,
        seen: bool,
    ) -> None:
        """One answer, from its verdict until nothing more of it comes."""
        try:
            if not seen:
                raise no_such()
            if gone.done():
                return  # its leave may have been faster than this: attending now would undo it
            source = await self._streams.open(wish, principal)
        except Problem as problem:
            wait = problem.headers.get("Retry-After")
            await line.say("follow", wish.response_id, status=problem.status, retry_after=wait)
            return
        if isinstance(source, Response):
            frames = record_frames(source, wish)
            await line.say("follow", wish.response_id, status=200 if frames else 204)
            await line.send(_named(wish.response_id, frames))
            return

        async def send(message: Message) -> None:
            await line.send(_named(wish.response_id, message["body"]))

        async with source as view:
            await line.say("follow", wish.response_id, status=204 if view.at_end else 200)
            if view.at_end:
                return
            with self._live.watching(principal, view), suppress(RecordUnavailable):
                line.hold(view.shut)
                while await self._streams.carry(view, wish, gone, send):
                    pass
            await line.say("closed", wish.response_id)

    async def _watch(self, line: _Line, principal: Principal, since: datetime | None) -> None:
        async with self._feed.watching(principal.user.pk, since) as watcher:
            with self._live.watching(principal, watcher):
                line.hold(watcher.shut)
                async for data in watcher:
                    await line.send(data)
        line.shut("")  # a line without it is of no use to whoever wanted it


class _Line:
    """One socket for several senders: each sends whole frames."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = asyncio.Lock()
        self._held: list[Callable[[str], None]] = []
        self._shut = ""

    def hold(self, shut: Callable[[str], None]) -> None:
        """What is shut with the line."""
        self._held.append(shut)
        if self._shut:
            shut(self._shut)

    def shut(self, comment: str) -> None:
        self._shut = comment or "this line has ended; open it again"
        for shut in self._held:
            shut(self._shut)

    async def send(self, data: bytes) -> None:
        if data:
            # One at a time: a server whose socket is full takes no second message meanwhile.
            async with self._lock:
                await send_body(data, self._send, more=True)

    async def say(self, event: str, response_id: str, **more: Any) -> None:
        data = json.dumps({"id": response_id, **more})
        await self.send(f"event: {event}\ndata: {data}\n\n".encode())


def _named(response_id: str, frames: bytes) -> bytes:
    """Frames whose ids say which answer they are of."""
    return _ID.sub(b"id: " + response_id.encode() + b" ", frames)


def read_wishes(query_string: str) -> tuple[list[Wish], bool, datetime | None]:
    """The answers, whether changes are wanted, and since when. Raises Problem 400."""
    query = parse_qs(query_string, keep_blank_values=True)
    viewer = read_viewer(query.get("viewer", [""])[-1])
    asked = [_wish(text, viewer) for text in query.get("follow", [])]
    wishes = {wish.response_id: wish for wish in asked}
    if len(wishes) > MOST:
        raise Problem(400, format_lazy(_("One line carries at most {most} answers."), most=MOST))
    if "changes" not in query:
        if not wishes:
            raise Problem(400, _("Ask for `changes`, or say what to `follow`."))
        return list(wishes.values()), False, None
    cursor = read_number(query["changes"][-1], "changes")
    try:
        since = None if cursor is None else services.moment(cursor)
    except (ValueError, OverflowError, OSError) as exc:
        raise Problem(400, _("`changes` must be the `at` of an earlier line.")) from exc
    return list(wishes.values()), True, since


def _wish(text: str, viewer: str) -> Wish:
    """`<id>`, `<id>,snapshot` or `<id>,<epoch>,<seq>`."""
    found = _FOLLOW.fullmatch(text)
    if found is None:
        detail = _("`follow` must be an id, perhaps with `,snapshot` or `,<epoch>,<seq>`.")
        raise Problem(400, detail)
    what, seq = found["what"] or "", found["seq"]
    if what == "snapshot" and seq is None:
        return Wish(found["id"], snapshot=True, viewer=viewer)
    return Wish(
        found["id"],
        after=read_number(seq or "", "follow"),
        epoch=read_number(what, "follow") or None,
        viewer=viewer,
    )
