"""At the door: where a request comes from, and how much one address or person may have open.

Outermost, and raw ASGI, so that it also holds for event streams and under any server. It counts
what is open in this process; nothing is shared, so that the door needs no store. An address behind
a proxy is believed only from TRUSTED_PROXIES: otherwise whoever sends `X-Forwarded-For` would
choose under which address to be counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final

from django.utils import translation
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from structlog.contextvars import bind_contextvars
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from chatapp.middleware.language import language_asked_for
from chatapp.middleware.problems import PROBLEM_TYPE, REQUEST_ID, new_request_id, problem_body
from relay import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from django_stubs_ext import StrPromise

    from chatapp.middleware.asgi_types import App, Receive, Scope, Send

VISIT: Final = "chatapp.visit"
"""Where an ASGI scope keeps its Visit."""
RETRY_AFTER_S: Final = 5
MAX_PARAMETERS: Final = 1000
"""Django's DATA_UPLOAD_MAX_NUMBER_FIELDS."""
IPV6_PREFIX: Final = 64
"""What one household is given: every single address of it is its to choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """At a time and per process; 0 = no limit."""

    requests_per_address: int = 0
    requests_per_user: int = 0
    streams_per_address: int = 0
    streams_per_user: int = 0


class TooMany(Exception):
    """`str()` is a sentence for whoever asked, in their language. Nothing was begun."""

    def __init__(self, sentence: str | StrPromise) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class Places:
    """So many at a time for each name."""

    def __init__(self, kind: str, limit: int, sentence: str | StrPromise) -> None:
        self._kind = kind
        self._limit = limit
        self._sentence = sentence
        self._taken: Counter[Hashable] = Counter()

    def __repr__(self) -> str:
        return f"<Places {self._taken.total()} taken, {self._limit} for each>"

    def take(self, name: Hashable) -> None:
        """Until `leave`. Raises TooMany. A name that is None is nobody's: nothing is counted."""
        if name is None or not self._limit:
            return
        if self._taken[name] >= self._limit:
            COUNTERS.refusals.add(self._kind)
            raise TooMany(format_lazy(self._sentence, limit=self._limit))
        self._taken[name] += 1

    def leave(self, name: Hashable) -> None:
        if name is None or not self._limit:
            return
        self._taken[name] -= 1
        if not self._taken[name]:
            del self._taken[name]  # names come from outside: keep only those that are in


class House:
    """The places of one process."""

    def __init__(self, limits: Limits) -> None:
        self.requests_of_address = Places(
            "requests_of_address",
            limits.requests_per_address,
            _(
                "At most {limit} requests of one address are worked on at a time. Wait until some "
                "are done, then try again."
            ),
        )
        self.requests_of_user = Places(
            "requests_of_person",
            limits.requests_per_user,
            _(
                "At most {limit} requests of one person are worked on at a time. Wait until some "
                "are done, then try again."
            ),
        )
        self.streams_of_address = Places(
            "streams_of_address",
            limits.streams_per_address,
            _(
                "At most {limit} event streams may be open from one address. Close some of them, "
                "then come back: nothing is lost, your cursor stays good."
            ),
        )
        self.streams_of_user = Places(
            "streams_of_person",
            limits.streams_per_user,
            _(
                "At most {limit} event streams of one person may be open. Close some of them, "
                "then come back: nothing is lost, your cursor stays good."
            ),
        )


class Visit:
    """One request, from its arrival until `end`, and the places that it takes meanwhile.

    Plain lists and no context managers: every open stream has one, and those were 4 KB of it.
    """

    __slots__ = ("_address", "_house", "_person", "_places")

    def __init__(self, house: House, address: str | None) -> None:
        self._house = house
        self._address = address
        self._person: Hashable = None
        self._places: list[tuple[Places, Hashable]] = []

    def begin(self) -> None:
        """Raises TooMany."""
        self._take(self._house.requests_of_address, self._address)

    def end(self) -> None:
        while self._places:
            places, name = self._places.pop()
            places.leave(name)

    def known_as(self, person: Hashable) -> None:
        """It is known who asks. Raises TooMany."""
        if self._person is None:
            self._take(self._house.requests_of_user, person)
            self._person = person

    def becomes_stream(self, person: Hashable) -> None:
        """It is a stream from now on, and no request any more. Raises TooMany."""
        asked, self._places = self._places, []
        try:
            self._take(self._house.streams_of_address, self._address)
            self._take(self._house.streams_of_user, person)
        except TooMany:
            self.end()
            self._places = asked
            raise
        for places, name in asked:
            places.leave(name)

    def _take(self, places: Places, name: Hashable) -> None:
        places.take(name)
        self._places.append((places, name))


def visit_of(scope: Mapping[str, Any]) -> Visit:
    """The visit of a request; one without limits where nobody keeps the door (Django's test client,
    other servers)."""
    visit: Visit = scope.get(VISIT) or Visit(House(Limits()), None)
    return visit


class Admission:
    """ASGI: the door. Refuses before anything is read or parsed."""

    def __init__(self, app: App, limits: Limits, trusted_proxies: Sequence[str]) -> None:
        self._app = app
        self._house = House(limits)
        # uvicorn's own, so that it is the same under Daphne; deploy/ turns the server's off.
        proxied: Any = ProxyHeadersMiddleware
        self.entrance: App = (
            proxied(self._enter, trusted_hosts=list(trusted_proxies))
            if trusted_proxies
            else self._enter
        )
        """The same as this object, for less: one frame fewer in every open stream."""

    def __repr__(self) -> str:
        return f"<Admission {self._house.requests_of_address!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.entrance(scope, receive, send)

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # Daphne speaks WebSocket unasked, and nobody here answers to it: refused as 403.
            await send({"type": "websocket.close", "code": 1000})
            return
        if any(name == b"content-encoding" for name, _ in scope["headers"]):
            # Nothing here unpacks: what would be parsed is noise, and unpacking invites bombs.
            detail = "Compressed bodies are not taken. Send it without Content-Encoding."
            await refuse(send, 415, detail, accept_encoding="identity")
            return
        if not _is_address(scope["path"]):
            await refuse(send, 400, "No address has `..`, NUL or half a character in it.")
            return
        if scope.get("query_string", b"").count(b"&") >= MAX_PARAMETERS:
            # Django's exception for it would be raised anew by whatever answers that exception.
            await refuse(send, 400, f"An address has at most {MAX_PARAMETERS} parameters.")
            return
        # The id by which its log lines are found; a task's context ends with it.
        asked = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        scope[REQUEST_ID] = request_id = new_request_id(asked)
        bind_contextvars(request_id=request_id)
        visit = Visit(self._house, counted_as(scope))
        try:
            visit.begin()
        except TooMany as exc:
            with translation.override(language_asked_for(scope["headers"])):
                sentence = str(exc)
            await refuse(send, 429, sentence, retry_after=str(RETRY_AFTER_S))
            return
        # In place: a copy of the scope for every open stream is 1 KB.
        scope[VISIT] = visit
        try:
            await self._app(scope, receive, send)
        finally:
            visit.end()


def _is_address(path: str) -> bool:
    """Without NUL, which PostgreSQL refuses, and halves of characters, which no database takes: ids
    of addresses are looked up there. Nor with a way up, which clients resolve before they ask: with
    DEBUG static files answer 500 to it."""
    if ".." in path and ".." in path.split("/"):
        return False
    if path.isascii():
        return "\0" not in path
    return not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in path)


def counted_as(scope: Mapping[str, Any]) -> str | None:
    """The address that a request counts for; None where the server knows none (a Unix socket)."""
    client = scope.get("client")
    return _network(client[0]) if client and client[0] else None


@lru_cache(maxsize=4096)
def _network(address: str) -> str:
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ip_network((found, IPV6_PREFIX), strict=False))


async def refuse(send: Send, status: int, detail: str, **headers: str) -> None:
    """Answer with a problem document before Django, and close: the body was not read."""
    body = problem_body(status, detail)
    named = {
        "content-type": PROBLEM_TYPE,
        "x-content-type-options": "nosniff",
        "connection": "close",
    }
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    pairs = [(name.encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body, "more_body": False})
