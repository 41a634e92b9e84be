"""Drives an ASGI application message by message: the only way to vanish in mid-stream.

`httpx.ASGITransport` collects the whole body first, and Django's test client knows no raw ASGI.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from asgiref.testing import ApplicationCommunicator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUIET_S = 20.0
"""Longest wait for a message: the first request imports half of the program, beside other tests."""


@dataclass
class Event:
    """One event as a client sees it."""

    id: str = ""
    type: str = "message"
    data: Any = None


class Exchange:
    """One request under way."""

    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator  # untyped
        self.status_code = 0
        self.headers: dict[str, str] = {}
        self.received = b""
        self.complete = False

    async def start(self) -> None:
        message = await self._communicator.receive_output(QUIET_S)
        assert message["type"] == "http.response.start", message
        self.status_code = message["status"]
        self.headers = {name.decode().title(): value.decode() for name, value in message["headers"]}

    async def chunk(self) -> bytes:
        """The next piece of the body."""
        message = await self._communicator.receive_output(QUIET_S)
        body: bytes = message.get("body", b"")
        self.received += body
        self.complete = not message.get("more_body", False)
        return body

    async def rest(self) -> bytes:
        while not self.complete:
            await self.chunk()
        return self.received

    async def until(self, kind: str) -> list[Event]:
        """Read on until an event of this type has come; all events so far."""
        while not any(event.type == kind for event in self.events) and not self.complete:
            await self.chunk()
        return self.events

    @property
    def events(self) -> list[Event]:
        return parse_events(self.received)

    @property
    def content(self) -> bytes:
        return self.received

    def json(self) -> Any:
        return json.loads(self.received)

    async def disconnect(self) -> None:
        """The client is gone; return when the application has noticed and ended."""
        await self._communicator.send_input({"type": "http.disconnect"})
        await self._communicator.wait(QUIET_S)

    async def quiet(self) -> bool:
        """Nothing more is being sent at the moment."""
        nothing: bool = await self._communicator.receive_nothing(0.05)
        return nothing


class Site:
    def __init__(self, application: Any) -> None:
        self.application = application

    @asynccontextmanager
    async def request(
        self, method: str, url: str, body: bytes = b"", /, **headers: str
    ) -> AsyncIterator[Exchange]:
        communicator = communicate(self.application, method, url, headers)
        await communicator.send_input({"type": "http.request", "body": body, "more_body": False})
        exchange = Exchange(communicator)
        try:
            await exchange.start()
            yield exchange
            if exchange.complete:
                await communicator.wait(QUIET_S)  # what it does after its last byte
        finally:
            communicator.stop(exceptions=False)

    async def whole(self, method: str, url: str, body: bytes = b"", /, **headers: str) -> Exchange:
        """The answer to its last byte."""
        async with self.request(method, url, body, **headers) as exchange:
            await exchange.rest()
            return exchange


def communicate(application: Any, method: str, url: str, headers: dict[str, str]) -> Any:
    made: Any = ApplicationCommunicator
    return made(application, _scope(method, url, headers))


def _scope(method: str, url: str, headers: dict[str, str]) -> dict[str, Any]:
    parts = urlsplit(url)
    named = {"host": "localhost", "content-type": "application/json"} | {
        name.lower().replace("_", "-"): value for name, value in headers.items()
    }
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("localhost", 80),
    }


@dataclass
class _Parser:
    event: Event = field(default_factory=Event)
    data: list[str] = field(default_factory=list)


def parse_events(body: bytes) -> list[Event]:
    """Complete events only; what relay's own decoder tests prove is not proved here again."""
    events = []
    for block in body.decode().split("\n\n")[:-1]:
        parser = _Parser()
        for line in block.split("\n"):
            name, _, value = line.partition(": ")
            if name == "id":
                parser.event.id = value
            elif name == "event":
                parser.event.type = value
            elif name == "data":
                parser.data.append(value)
        if parser.data:
            parser.event.data = json.loads("\n".join(parser.data))
            events.append(parser.event)
    return events
