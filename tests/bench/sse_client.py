"""A small client of this project's API for scripts that need single events and their times.

`load.py` measures streams in bulk and parses afterwards; here each event is looked at as it comes.
Times are CLOCK_MONOTONIC in ns, the same clock the fake provider stamps its deltas with.
"""

from __future__ import annotations

import asyncio
import json
import time

from targets import http
from wire import Dechunker, split_response

now_ns = time.monotonic_ns


class EventStream(asyncio.Protocol):
    """One event stream. `events` holds (type, data, received_ns) of all so far."""

    def __init__(self, request):
        self._request = request
        self._head, self._body, self._rest = b"", Dechunker(), b""
        self._changed = asyncio.Event()
        self.events = []
        self.status, self.headers = 0, b""
        self.head_ns = None
        self.sent_ns = 0
        self.closed = False
        self.last_id = ""
        """Of the last event that had one, as a browser remembers it."""

    def connection_made(self, transport):
        self._transport = transport
        self.sent_ns = now_ns()
        transport.write(self._request)

    def data_received(self, data):
        received_ns = now_ns()
        if self.head_ns is None:
            self._head += data
            self.status, self.headers, start = split_response(self._head)
            if not self.status:
                return
            self.head_ns, data = received_ns, self._head[start:]
        chunked = b"transfer-encoding: chunked" in self.headers
        self._rest += self._body.feed(data) if chunked else data
        *frames, self._rest = self._rest.split(b"\n\n")
        for frame in frames:
            fields = dict(line.split(b": ", 1) for line in frame.split(b"\n") if b": " in line)
            if b"event" in fields:
                data = json.loads(fields[b"data"])
                self.events.append((fields[b"event"].decode(), data, received_ns))
                self.last_id = fields.get(b"id", self.last_id.encode()).decode()
        self._changed.set()

    def connection_lost(self, exc):
        self.closed = True
        self._changed.set()

    def find(self, kind):
        return next((e for e in self.events if e[0] == kind), None)

    async def event(self, kind, within_s=20):
        """The first event of this type. Raises TimeoutError, or RuntimeError when the stream closed."""
        async with asyncio.timeout(within_s):
            return await self.when(lambda: self.find(kind))

    async def when(self, look):
        while not (found := look()):
            if self.closed:
                raise RuntimeError(
                    f"HTTP {self.status}, closed after {[e[0] for e in self.events]}"
                )
            self._changed.clear()
            await self._changed.wait()
        return found

    def close(self):
        self._transport.abort()


class Api:
    """Calls to one web process of a site."""

    def __init__(self, port, headers):
        self._port, self._headers = port, headers

    async def ask(self, spec):
        """POST /api/responses, answered with its events."""
        return await self._open(http("POST", "/api/responses", _question(spec), self._headers))

    async def follow(self, response_id):
        return await self._open(
            http("GET", f"/api/responses/{response_id}/events", headers=self._headers)
        )

    async def create(self, spec):
        """POST /api/responses, answered with 202; returns (answer, ns it took)."""
        return await self.call("POST", "/api/responses", _question(spec))

    async def cancel(self, response_id):
        return await self.call("POST", f"/api/responses/{response_id}/cancel")

    async def call(self, method, path, body=None):
        headers = {**self._headers, "Accept": "application/json"}
        stream = await self._open(http(method, path, body, headers))
        async with asyncio.timeout(30):
            while not stream.closed:
                stream._changed.clear()
                await stream._changed.wait()
        if not 200 <= stream.status < 300:
            raise RuntimeError(f"{method} {path}: HTTP {stream.status} {stream._rest[:300]!r}")
        return json.loads(stream._rest), stream.head_ns - stream.sent_ns

    async def _open(self, request):
        loop = asyncio.get_running_loop()
        _, stream = await loop.create_connection(
            lambda: EventStream(request), "127.0.0.1", self._port
        )
        return stream


def _question(spec):
    return {"model": "bench", "input": spec}


class Provider:
    """What the fake provider saw of a stream."""

    def __init__(self, port):
        self._api = Api(port, {})

    async def record(self, name):
        return (await self._api.call("GET", f"/stats?id={name}"))[0]

    async def record_when(self, name, look, within_s=10):
        async with asyncio.timeout(within_s):
            while not ((record := await self.record(name)) and look(record)):
                await asyncio.sleep(0.005)
            return record
