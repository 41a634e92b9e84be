"""What runs now: looked at as a page, kept up to date by a stream of its own, and stopped."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from asgiref.sync import async_to_sync
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponseRedirect, StreamingHttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from chatapp import runtime
from chatapp.admin.incidents import may_steer
from chatapp.admin.read_only import actor_of, page_of
from chatapp.admin.stopping import may_stop, stop
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Response, User
from chatapp.services import incidents
from chatapp.services.running import Live, live

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from django.http import HttpRequest, HttpResponse
    from django.http.response import HttpResponseBase

EVERY_S: Final = 2.0
OLDEST_S: Final = 900.0
"""Then the browser asks anew, as with all streams."""
MOST_STREAMS: Final = 16
"""Of one process: operators are few, and each stream looks at everything that runs."""
SHOWN_BY: Final = ("chatapp.view_response", "chatapp.stop_response", "chatapp.steer_models")
"""What the tables show goes by these."""
_open: set[object] = set()


class Rights(NamedTuple):
    """What somebody may here, by which password."""

    password: str
    """Its hash: with a new one all sessions end."""
    permissions: frozenset[str]


def page(request: HttpRequest) -> dict[str, Any] | HttpResponseBase:
    if request.method == "POST":
        return _act(request)
    if "stream" in request.GET:
        return _stream(request)
    return _context(async_to_sync(live)(), request)


def _context(seen: Live, request: HttpRequest) -> dict[str, Any]:
    return {
        "seen": seen,
        "lines": [(page_of(line.pk), line) for line in seen.lines],
        "may_stop": may_stop(request),
        "may_steer": may_steer(request),
    }


def _act(request: HttpRequest) -> HttpResponse:
    given = request.POST
    if "stop" in given:
        if not may_stop(request):
            raise PermissionDenied
        # One, or all that are ticked.
        wanted = [given["stop"]] if given["stop"] else given.getlist("answer")
        rows = Response.objects.running().filter(pk__in=wanted)
        if wanted:
            stop(request, rows)
        else:
            messages.warning(request, "No answer was chosen.")
    elif worker := given.get("drain") or given.get("resume"):
        if not may_steer(request):
            raise PermissionDenied
        incidents.drain(worker, by=actor_of(request), drained="drain" in given)
        done = "takes no new jobs" if "drain" in given else "takes jobs again"
        messages.success(request, f"Within a sweep, {worker} {done}.")
    return HttpResponseRedirect(reverse("admin:live"))


def _stream(request: HttpRequest) -> HttpResponseBase:
    pieces = _events(request, _of(request.user))
    reply = StreamingHttpResponse(pieces, content_type="text/event-stream; charset=utf-8")
    reply["Cache-Control"] = "no-cache, no-transform"
    reply["X-Accel-Buffering"] = "no"
    return reply


async def _events(request: HttpRequest, rights: Rights) -> AsyncIterator[bytes]:
    """The tables as the server draws them, whenever they look different.

    `rights`: those that it began with. With others it ends, and the browser asks anew (law 15).
    """
    me = object()
    if len(_open) >= MOST_STREAMS:
        yield b"retry: 30000\nevent: full\ndata: too many\n\n"
        return
    _open.add(me)
    try:
        began_s, before = time.monotonic(), ""
        yield b"retry: 2000\n\n"
        while time.monotonic() - began_s < OLDEST_S and not runtime.hub().leaving:
            html = render_to_string(
                "admin/live_tables.html", _context(await live(), request), request
            )
            # After the look, which takes time: what it found is not sent to who lost a right.
            if await _now(request.user.pk, request.session.session_key) != rights:
                return
            if html != before:
                before = html
                lines = "".join(f"data: {line}\n" for line in html.splitlines())
                yield f"event: tables\n{lines}\n".encode()
            else:
                yield b": ping\n\n"
            await asyncio.sleep(EVERY_S)
    finally:
        _open.discard(me)


def _of(user: Any) -> Rights:
    return Rights(user.password, frozenset(right for right in SHOWN_BY if user.has_perm(right)))


@on_database_thread
def _now(user_id: Any, session_key: str | None) -> Rights | None:
    """None: the session was ended or has run out, or the person is not of the staff any more."""
    from django.contrib.sessions.models import Session

    user = User.objects.filter(pk=user_id, is_active=True, is_staff=True).first()
    there = Session.objects.filter(session_key=session_key, expire_date__gt=timezone.now())
    return _of(user) if user is not None and there.exists() else None
