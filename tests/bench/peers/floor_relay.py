"""Not a peer: the cheapest store-backed relay plain asyncio can do, as a yardstick for what is possible.

No framework. Every delta is written to a Valkey stream and goes to readers only
after the store has confirmed it. One store connection is shared; replies come in
order, so a reader that asks for a range is attached exactly where the range ends.

POST /r/ID (stream), GET /r/ID (Last-Event-ID), POST /r/ID/cancel, GET /health
"""

from __future__ import annotations

import asyncio
import collections
import json
import os
import pathlib
import sys
from urllib.parse import urlsplit

import uvloop

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from wire import Dechunker

UPSTREAM = urlsplit(os.environ["BENCH_UPSTREAM"])
responses = {}
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Connection: close\r\n\r\n"
)


def take(buf, pos):
    """One RESP value at pos: (value, next position), or None when it is not all there yet."""
    eol = buf.find(b"\r\n", pos)
    if eol < 0:
        return None
    kind, line, pos = buf[pos], buf[pos + 1 : eol], eol + 2
    if kind == 36:  # $ bulk
        size = int(line)
        if size < 0:
            return None, pos
        if len(buf) < pos + size + 2:
            return None
        return buf[pos : pos + size], pos + size + 2
    if kind == 42:  # * array
        items = []
        for _ in range(int(line)):
            item = take(buf, pos)
            if item is None:
                return None
            items.append(item[0])
            pos = item[1]
        return items, pos
    return line, pos


class Store(asyncio.Protocol):
    def __init__(self):
        self.waiting, self.out, self.buf = collections.deque(), [], b""

    def connection_made(self, transport):
        self.transport = transport

    def send(self, callback, *parts):
        self.waiting.append(callback)
        if not self.out:
            asyncio.get_running_loop().call_soon(self.flush)
        self.out.append(
            b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)
        )

    def flush(self):
        self.transport.write(b"".join(self.out))
        self.out = []

    def data_received(self, data):
        buf, pos = self.buf + data, 0
        while pos < len(buf):
            value = take(buf, pos)
            if value is None:
                break
            pos = value[1]
            callback = self.waiting.popleft()
            if callback is not None:
                callback(value[0])
        self.buf = buf[pos:]


class Response(asyncio.Protocol):
    """The background side: reads the provider, appends to the store, hands confirmed events to readers."""

    def __init__(self, sid, request):
        self.key, self.request = b"r:" + sid, request
        self.body, self.head, self.text = Dechunker(), b"", b""
        self.seq, self.readers, self.done = 0, set(), False

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data):
        if self.head is not None:
            self.head += data
            _, sep, data = self.head.partition(b"\r\n\r\n")
            if not sep:
                return
            self.head = None
        self.text += self.body.feed(data)
        *events, self.text = self.text.split(b"\n\n")
        for event in events:
            if event != b"data: [DONE]":
                delta = json.loads(event[6:])["choices"][0]["delta"].get("content")
                if delta:
                    self.append(json.dumps({"delta": delta}).encode())
        if self.body.finished:
            self.transport.close()

    def append(self, payload):
        self.seq += 1
        n = b"%d" % self.seq
        event = b"id: %b\ndata: %b\n\n" % (n, payload)
        store.send(lambda _: self.deliver(event), b"XADD", self.key, n + b"-0", b"d", payload)

    def deliver(self, event):
        for reader in self.readers:
            reader.write(event)

    def connection_lost(self, exc):
        store.send(self.finish, b"EXPIRE", self.key, b"600")

    def finish(self, _):
        self.done = True
        for reader in self.readers:
            reader.write(b"event: end\ndata: {}\n\n")
            reader.close()
        self.readers.clear()

    def attach(self, transport, cursor):
        def ready(rows):
            transport.write(
                b"".join([b"id: %b\ndata: %b\n\n" % (row[0][:-2], row[1][1]) for row in rows])
            )
            if self.done:
                transport.write(b"event: end\ndata: {}\n\n")
                transport.close()
            else:
                self.readers.add(transport)

        store.send(ready, b"XRANGE", self.key, b"%d-0" % (cursor + 1), b"+")


class Web(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.inbox, self.response = transport, b"", None

    def data_received(self, data):
        self.inbox += data
        head, sep, body = self.inbox.partition(b"\r\n\r\n")
        if not sep:
            return
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(headers.get(b"content-length", 0))
        if len(body) < length:
            return
        self.inbox = b""
        method, path, _ = head.split(b" ", 2)
        parts = path.split(b"/")
        if method == b"POST" and len(parts) == 3:
            request = (
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (length, body)
            )
            responses[parts[2]] = self.response = Response(parts[2], request)
            self.response.readers.add(self.transport)
            self.transport.write(HEAD)
            loop = asyncio.get_running_loop()
            loop.create_task(  # noqa: RUF006
                loop.create_connection(lambda: self.response, UPSTREAM.hostname, UPSTREAM.port)
            )
        elif method == b"POST" and parts[2] in responses:
            responses[parts[2]].transport.abort()
            self.reply(202)
        elif method == b"GET" and parts[1] == b"health":
            self.reply(200)
        elif method == b"GET" and parts[2] in responses:
            self.response = responses[parts[2]]
            self.transport.write(HEAD)
            self.response.attach(self.transport, int(headers.get(b"last-event-id", 0)))
        else:
            self.reply(404)

    def reply(self, status):
        self.transport.write(
            b"HTTP/1.1 %d X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status
        )
        self.transport.close()

    def connection_lost(self, exc):
        if self.response is not None:
            self.response.readers.discard(self.transport)


async def main():
    global store
    loop = asyncio.get_running_loop()
    for _ in range(100):
        try:
            _, store = await loop.create_connection(
                Store, "127.0.0.1", int(os.environ["BENCH_STORE_PORT"])
            )
            break
        except OSError:
            await asyncio.sleep(0.1)
    server = await loop.create_server(Web, "127.0.0.1", int(os.environ["BENCH_PORT"]), backlog=4096)
    await server.serve_forever()


uvloop.run(main())
