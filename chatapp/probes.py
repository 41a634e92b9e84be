"""`/diag/stream`: streams of known size and rhythm, for who examines the way to this server.

They leave by the same door and with the same headers as answers do, so what befalls them on their
way befalls answers (chatapp/doctor judges it). `/diag/report` tells what became of one: whether its
viewer's leaving was noticed. For staff, and for holders of a ticket; few at a time, short and
small, so that they are no weapon.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from django.conf import settings
from django.core.cache import cache
from django.http import parse_cookie
from django.utils.translation import gettext_lazy as _

from chatapp import runtime
from chatapp.auth import identify
from chatapp.doctor import BadPlan, Plan, TicketRefused, read_ticket
from chatapp.doctor.tickets import TICKET_AGE_S, is_ticket
from chatapp.finalize import database_errors
from chatapp.middleware.admission import TooMany, visit_of
from chatapp.streams import (
    HEADERS,
    RETRY,
    Problem,
    check_host,
    header,
    send_body,
    send_problem,
    send_start,
    shut_when_gone,
)
from relay import RecordUnavailable

if TYPE_CHECKING:
    from chatapp.middleware.asgi_types import Receive, Scope, Send
    from chatapp.middleware.threads import DatabaseThreads

MAX_OPEN: Final = 24
"""Probes of all callers in this process: an examination of two ways has sixteen open at most."""
MAX_PER_TICKET: Final = 200
"""Asked of this process by one ticket or person in a quarter of an hour; an examination takes about
fifty, reports included."""
REPORT_KEPT_S: Final = 120
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-proto", "x-real-ip")
_BARE: Final = [pair for pair in HEADERS if pair[0] not in (b"cache-control", b"x-accel-buffering")]


class Probes:
    """Owns `GET /diag/stream` and `GET /diag/report`."""

    def __init__(self, threads: DatabaseThreads) -> None:
        self._threads = threads
        self._open = 0
        self._asked: dict[str, tuple[float, int]] = {}

    def __repr__(self) -> str:
        return f"<Probes {self._open} open>"

    async def stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """GET /diag/stream?probe=&phase=flow|quiet&gap_ms=&silence_s=&bare=1"""
        try:
            name, query = await self._admit(scope)
            plan = _plan(query)
            if self._open >= MAX_OPEN:
                raise Problem(
                    429, _("Enough probes are under way. Try again."), **{"Retry-After": "15"}
                )
            try:
                visit_of(scope).becomes_stream(name)
            except TooMany as exc:
                raise Problem(429, str(exc), **{"Retry-After": "15"}) from exc
        except Problem as problem:
            await send_problem(problem, scope, send)
            return
        self._open += 1
        try:
            await self._send(plan, name, scope, receive, send)
        finally:
            self._open -= 1

    async def report(self, scope: Scope, receive: Receive, send: Send) -> None:
        """GET /diag/report?probe=: {state: unknown, open, left or finished; after_s}"""
        try:
            name, query = await self._admit(scope)
            plan = _plan(query)
            kept = await self._threads.run(cache.get, _key(name, plan))
        except Problem as problem:
            await send_problem(problem, scope, send)
            return
        body = json.dumps(kept or {"state": "unknown", "after_s": 0.0}).encode()
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        await send_start(200, headers, send)
        await send_body(body, send)

    async def _admit(self, scope: Scope) -> tuple[str, dict[str, str]]:
        """Under which name this caller's probes are counted. Raises Problem 400 to 429."""
        if scope["method"].upper() != "GET":
            raise Problem(405, _("This address does not take that method."), Allow="GET")
        check_host(scope)
        authorization = header(scope, b"authorization")
        scheme, _blank, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and is_ticket(token):
            try:
                name = f"ticket {read_ticket(token)}"
            except TicketRefused as exc:
                raise Problem(401, exc.args[0], **{"WWW-Authenticate": "Bearer"}) from exc
        else:
            session_key = parse_cookie(header(scope, b"cookie")).get(
                settings.SESSION_COOKIE_NAME, ""
            )
            name = await self._threads.run(_staff, authorization, session_key)
        self._count(name)
        return name, dict(parse_qsl(scope["query_string"].decode("latin-1")))

    def _count(self, name: str) -> None:
        now_s = time.monotonic()
        since_s, count = self._asked.get(name, (now_s, 0))
        if now_s - since_s > TICKET_AGE_S:
            since_s, count = now_s, 0
        if count >= MAX_PER_TICKET:
            wait_s = round(TICKET_AGE_S - (now_s - since_s)) + 1
            raise Problem(
                429, _("That were many probes. Take a break."), **{"Retry-After": str(wait_s)}
            )
        # What names are known is bounded by who may call: staff, and tickets of this age.
        self._asked = {
            known: (at_s, times)
            for known, (at_s, times) in self._asked.items()
            if now_s - at_s <= TICKET_AGE_S
        }
        self._asked[name] = (since_s, count + 1)

    async def _send(
        self, plan: Plan, name: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        begun_s = time.monotonic()
        await self._note(plan, name, "open", begun_s)
        gone = asyncio.create_task(shut_when_gone(lambda _: None, receive))
        state = "left"
        try:
            await send_start(200, _BARE if plan.bare else HEADERS, send)
            await send_body(RETRY, send, more=True)
            for step in plan.steps():
                await asyncio.wait([gone], timeout=step.pause_s)
                if gone.done():
                    break
                more = _seen(scope) if step.kind == "hello" else {}
                await send_body(step.frame(time.time(), **more), send, more=True)
            else:
                state = "finished"
        except OSError:
            pass  # how ASGI 2.4 tells of a closed socket
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone
        await self._note(plan, name, state, begun_s)
        with suppress(OSError):
            await send_body(b"", send)

    async def _note(self, plan: Plan, name: str, state: str, begun_s: float) -> None:
        """For whichever process is asked. Redis away: this one alone knows (auth/attempts.py)."""
        kept = {"state": state, "after_s": round(time.monotonic() - begun_s, 3)}
        await self._threads.run(cache.set, _key(name, plan), kept, REPORT_KEPT_S)


def _plan(query: dict[str, str]) -> Plan:
    try:
        return Plan.read(query)
    except BadPlan as exc:
        raise Problem(400, str(exc)) from exc


def _key(name: str, plan: Plan) -> str:
    return f"probe:{name.replace(' ', ':')}:{plan.probe}"


def _staff(authorization: str, session_key: str) -> str:
    """On a database thread. Raises Problem 401, 403, 503."""
    try:
        with database_errors():
            principal = identify(authorization, session_key)
            if principal is None:
                headers = {"WWW-Authenticate": "Bearer"}
                raise Problem(401, _("Sign in as staff, or send a ticket."), **headers)
            if not principal.user.is_staff:
                raise Problem(403, _("Only staff may examine the way to this server."))
            return f"user {principal.user.pk}"
    except RecordUnavailable as exc:
        detail = _("The database is away, so nobody can be known. Send a ticket, or try again.")
        raise Problem(503, detail, **{"Retry-After": "5"}) from exc


def _seen(scope: Scope) -> dict[str, Any]:
    """Of the request as it came here: who stands between adds to it."""
    return {
        "heartbeat_s": runtime.config().heartbeat_s,
        "http_version": scope.get("http_version", ""),
        "via": header(scope, b"via")[:200],
        "forwarded": [name for name in _FORWARDED if header(scope, name.encode())],
    }
