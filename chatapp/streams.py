"""Event streams, as a raw ASGI application beside Django (PROTOCOL 4, 5).

Django keeps a thread per open response, so streams do not pass through it: one is authenticated on
a borrowed thread and then costs a task and a buffer. A POST that wants events is first answered by
Django (who, CSRF, validation, 202), and that answer is replaced by the events.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from django.conf import settings
from django.http import parse_cookie
from django.http.request import split_domain_port, validate_host
from django.utils import translation
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from structlog.contextvars import bind_contextvars, get_contextvars

import relay
from chatapp import runtime
from chatapp.auth import PRINCIPAL, LiveCredentials, Principal, identify
from chatapp.finalize import database_errors
from chatapp.middleware.admission import TooMany, visit_of
from chatapp.middleware.answer import Answer
from chatapp.middleware.language import language_asked_for
from chatapp.middleware.problems import PROBLEM_TYPE, problem_body
from chatapp.middleware.turnstile import Turnstile
from chatapp.models import Response
from chatapp.services import recorded
from relay import (
    LogGone,
    RecordUnavailable,
    StoreUnavailable,
    ViewersFull,
    snapshot_frame,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_stubs_ext import StrPromise

    from chatapp.middleware.asgi_types import App, Receive, Scope, Send
    from chatapp.middleware.threads import DatabaseThreads
    from relay import View

HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]
RETRY: Final = b"retry: 2000\n"
RETRY_AFTER_S: Final = 5
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_VIEWER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Problem(Exception):
    """Answer with a problem document instead of a stream."""

    def __init__(self, status: int, detail: str | StrPromise, **headers: str) -> None:
        super().__init__(detail)  # in which language is known when it is sent
        self.status = status
        self.headers = headers


@dataclass(frozen=True, slots=True)
class Wish:
    """What a viewer asks for."""

    response_id: str
    after: int | None = None
    epoch: int | None = None
    snapshot: bool = False
    viewer: str = ""


class Streams:
    """Owns `GET …/events`, and looks at the Accept header of the POSTs that start an answer."""

    def __init__(self, django: App, threads: DatabaseThreads, live: LiveCredentials) -> None:
        self._django = django
        self._threads = threads
        self._live = live
        self._turnstile = Turnstile()

    async def events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """GET /api/responses/{id}/events."""
        # Daphne passes `get` on; Django takes it for GET, and so does this.
        if scope["method"].upper() != "GET":
            await self._django(scope, receive, send)
            return
        try:
            check_host(scope)
            wish = read_wish(scope, scope["url_route"]["kwargs"]["response_id"])
            bind_contextvars(response_id=wish.response_id)
            principal = await self._threads.run(admit, scope, wish.response_id)
            take_place(scope, principal)
            view = await self.open(wish, principal)
        except Problem as problem:
            await send_problem(problem, scope, send)
            return
        await self._stream(view, wish, principal, [], receive, send)

    async def ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        """POST /api/responses and /api/chats/{id}/messages."""
        if scope["method"] == "POST":
            await self._turnstile.enter()
        if scope["method"] != "POST" or not wants_events(header(scope, b"accept")):
            await self._django(scope, receive, send)
            return
        try:
            wish = read_wish(scope)
        except Problem as problem:
            await send_problem(problem, scope, send)
            return
        answer = Answer()
        await self._django(scope, receive, answer.send)
        if answer.status != 202:
            await answer.relay(send)
            return
        principal: Principal = scope[PRINCIPAL]
        wish = replace(wish, response_id=json.loads(answer.body)["id"])
        bind_contextvars(response_id=wish.response_id)
        try:
            take_place(scope, principal)
            view = await self.open(wish, principal)
        except Problem:
            # Accepted all the same: the answer comes, and its events can be asked for later.
            await answer.relay(send)
            return
        location = answer.location
        del answer  # the rest of it would be kept as long as the stream
        await self._stream(view, wish, principal, location, receive, send)

    async def _stream(
        self,
        source: View | Response,
        wish: Wish,
        principal: Principal,
        headers: list[tuple[bytes, bytes]],
        receive: Receive,
        send: Send,
    ) -> None:
        if isinstance(source, Response):
            await self._send_record(source, wish, headers, send)
            return
        async with source as view:
            if view.at_end:
                await send_start(204, [], send)
                await send_body(b"", send)
                return
            with self._live.watching(principal, view):
                await send_start(200, HEADERS + headers, send)
                await self._pump(view, wish, receive, send)

    async def open(self, wish: Wish, principal: Principal) -> View | Response:
        """A view of the log; the final record if that is all that is left. Raises Problem."""
        viewer = f"{principal.login}/{wish.viewer}"
        try:
            try:
                view = await self._follow(wish, viewer, wait=False)
                if view.cursor_is_lost and (final := await self._final(wish.response_id)):
                    # The store has lost the end that this viewer may have seen.
                    await view.aclose()
                    return final
                return view
            except LogGone:
                row = await self._threads.run(_row, wish.response_id)
                if row.is_final:
                    return row
                return await self._follow(wish, viewer, wait=True)
        except ViewersFull as exc:
            relay.COUNTERS.refusals.add("viewers")
            limit = runtime.config().max_viewers_per_response
            detail = format_lazy(_("This answer already has {limit} viewers."), limit=limit)
            raise Problem(429, detail, **{"Retry-After": "15"}) from exc
        except StoreUnavailable as exc:
            if (final := await self._final(wish.response_id)) is not None:
                return final  # the record needs no store
            raise _away() from exc
        except RecordUnavailable as exc:
            raise _away() from exc

    async def _final(self, response_id: str) -> Response | None:
        try:
            row = await self._threads.run(_row, response_id)
        except RecordUnavailable:
            return None
        return row if row.is_final else None

    async def _follow(self, wish: Wish, viewer: str, *, wait: bool) -> View:
        return await relay.follow(
            runtime.hub(),
            wish.response_id,
            after=wish.after,
            epoch=wish.epoch,
            snapshot=wish.snapshot,
            viewer=viewer,
            wait=wait,
        )

    async def _pump(self, view: View, wish: Wish, receive: Receive, send: Send) -> None:
        """Hand chunks to the socket until the view ends or the viewer is gone."""
        gone = asyncio.create_task(shut_when_gone(view.shut, receive))
        try:
            while await self.carry(view, wish, gone, send):
                pass
        except (OSError, RecordUnavailable):
            pass  # OSError: how ASGI 2.4 tells of a closed socket; in both cases the client resumes
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone
        with suppress(OSError):
            await send_body(b"", send)

    async def carry(self, view: View, wish: Wish, gone: asyncio.Task[None], send: Send) -> bool:
        """What the view has. True: its log was to come, has not, and may still."""
        try:
            async for chunk in view:
                if gone.done():
                    break
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except LogGone:
            row = await self._threads.run(_row, wish.response_id)
            if not row.is_final:
                return view.waits and not gone.done()
            snapshot = recorded(row)
            # Who waited at the very end for a log that is lost has seen all of it.
            at_end = view.seq == snapshot.seq > 0 and view.epoch in (0, snapshot.epoch)
            if not at_end:
                await send_body(snapshot_frame(snapshot), send, more=True)
        return False

    async def _send_record(
        self, row: Response, wish: Wish, headers: list[tuple[bytes, bytes]], send: Send
    ) -> None:
        """The log has expired: the stored snapshot and its `ended`, or 204 for who has both."""
        frames = record_frames(row, wish)
        await send_start(200 if frames else 204, HEADERS + headers if frames else [], send)
        await send_body(RETRY + frames if frames else b"", send)


def header(scope: Scope, name: bytes) -> str:
    """The value of a header; "" when it was not sent."""
    values: list[bytes] = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1").strip() if values else ""


def check_host(scope: Scope) -> None:
    """As Django does for every other address. Raises Problem 400."""
    domain = split_domain_port(header(scope, b"host"))[0]
    if not (domain and validate_host(domain, settings.ALLOWED_HOSTS)):
        raise Problem(400, _("This server does not answer to that host name."))


def wants_events(accept: str) -> bool:
    return "text/event-stream" in accept.lower()


def read_wish(scope: Scope, response_id: str = "") -> Wish:
    """Raises Problem 400 for a cursor or a viewer that cannot be one."""
    query: dict[str, list[str]] = parse_qs(
        scope["query_string"].decode("latin-1"), keep_blank_values=True
    )

    def last(name: str) -> str:
        return query.get(name, [""])[-1]

    return Wish(
        response_id=response_id,
        # PROTOCOL 4: the header is what the browser knows; the query is as old as the page.
        after=read_number(header(scope, b"last-event-id"), "Last-Event-ID")
        if header(scope, b"last-event-id")
        else read_number(last("after"), "after"),
        epoch=read_number(last("epoch"), "epoch"),
        snapshot=last("snapshot") in ("1", "true"),
        viewer=read_viewer(last("viewer")),
    )


def read_viewer(text: str) -> str:
    """Of whoever names none the server makes one. Raises Problem 400."""
    if text and not _VIEWER.fullmatch(text):
        detail = _("`viewer` must be 1 to 64 letters, digits, hyphens or underscores.")
        raise Problem(400, detail)
    return text or secrets.token_hex(8)


def read_number(text: str, name: str) -> int | None:
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        detail = _("`{name}` must be a number from 0, the `id` of an event.")
        raise Problem(400, format_lazy(detail, name=name))
    return int(text)


def _away() -> Problem:
    detail = _("Events cannot be read right now; the answer is not lost. Try again shortly.")
    return Problem(503, detail, **{"Retry-After": str(RETRY_AFTER_S)})


def admit(scope: Scope, response_id: str) -> Principal:
    """Who may watch this response. On a database thread. Raises Problem 401, 404, 503."""
    principal, visible = admit_all(scope, [response_id])
    if not visible:
        raise no_such()
    return principal


def admit_all(scope: Scope, response_ids: Sequence[str]) -> tuple[Principal, frozenset[str]]:
    """Who asks, and which of these they may watch. On a database thread.

    Raises Problem 401, 503.
    """
    session_key = parse_cookie(header(scope, b"cookie")).get(settings.SESSION_COOKIE_NAME, "")
    try:
        with database_errors():
            principal = identify(header(scope, b"authorization"), session_key)
            if principal is None:
                headers = {"WWW-Authenticate": "Bearer"}
                raise Problem(401, _("Sign in, or send a valid bearer key."), **headers)
            if not response_ids:
                return principal, frozenset()
            rows = Response.objects.visible_to(principal.user).filter(pk__in=response_ids)
            return principal, frozenset(rows.order_by().values_list("pk", flat=True))
    except RecordUnavailable as exc:
        raise _away() from exc


def record_frames(row: Response, wish: Wish) -> bytes:
    """The stored snapshot and its `ended`; nothing for whoever has both."""
    snapshot = recorded(row)
    if wish.after == snapshot.seq and wish.epoch in (None, snapshot.epoch):
        return b""
    return snapshot_frame(snapshot)


def take_place(scope: Scope, principal: Principal) -> None:
    """Raises Problem 429 for an address or a person that has too many streams open."""
    try:
        visit_of(scope).becomes_stream(principal.user.pk)
    except TooMany as exc:
        raise Problem(429, exc.sentence, **{"Retry-After": "15"}) from exc


def no_such() -> Problem:
    return Problem(404, _("There is no such response, or it is not yours."))


def _row(response_id: str) -> Response:
    with database_errors():
        return Response.objects.get(pk=response_id)


async def shut_when_gone(shut: Callable[[str], None], receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # the rest of a body that nobody reads
    shut("the viewer is gone")


async def send_problem(problem: Problem, scope: Scope, send: Send) -> None:
    with translation.override(language_asked_for(scope["headers"])):
        body = problem_body(problem.status, str(problem))
    headers = [(b"content-type", PROBLEM_TYPE.encode()), (b"x-content-type-options", b"nosniff")]
    headers += [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
    await send_start(problem.status, headers, send)
    await send_body(body, send)


async def send_start(status: int, headers: list[tuple[bytes, bytes]], send: Send) -> None:
    request_id: str = get_contextvars().get("request_id", "")  # of the door
    named = [(b"x-request-id", request_id.encode())] if request_id else []
    await send({"type": "http.response.start", "status": status, "headers": headers + named})


async def send_body(body: bytes, send: Send, *, more: bool = False) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})
