"""Publisher for the Nchan peer: reads the provider stream, publishes each delta to a channel.

POST /r/ID starts (answers at once), DELETE /r/ID cancels. One keep-alive publish
connection per response keeps messages in order; each delta is its own message.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import sys
from urllib.parse import urlsplit

import uvloop

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from wire import Dechunker

UPSTREAM = urlsplit(os.environ["BENCH_UPSTREAM"])
NCHAN_PORT = int(os.environ["BENCH_NCHAN_PORT"])
jobs = {}


class Publisher(asyncio.Protocol):
    """One message in flight at a time; the rest waits in order."""

    def __init__(self, sid):
        self.head = (
            b"POST /pub/%b HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: "
            % sid
        )
        self.queue = []
        self.busy = False
        self.ended = False

    def connection_made(self, transport):
        self.transport = transport

    def publish(self, message):
        if self.busy:
            self.queue.append(message)
        else:
            self.send(message)

    def send(self, message):
        self.busy = True
        self.transport.write(b"%b%d\r\n\r\n%b" % (self.head, len(message), message))

    def data_received(self, data):
        if not data.startswith(b"HTTP/1.1 20"):
            print(data[:200], file=sys.stderr, flush=True)
        if self.queue:
            self.send(self.queue.pop(0))
        else:
            self.busy = False
            if self.ended:
                self.transport.close()

    def finish(self):
        self.ended = True
        if not self.busy:
            self.transport.close()


class Source(asyncio.Protocol):
    def __init__(self, request, publisher, sid):
        self.request, self.publisher, self.sid = request, publisher, sid
        self.body, self.head, self.text = Dechunker(), b"", b""

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data):
        if self.head is not None:
            self.head += data
            _head, sep, data = self.head.partition(b"\r\n\r\n")
            if not sep:
                return
            self.head = None
        self.text += self.body.feed(data)
        *events, self.text = self.text.split(b"\n\n")
        for event in events:
            if event.startswith(b"data: "):
                self.publisher.publish(event[6:])
        if self.body.finished:
            self.transport.close()

    def connection_lost(self, exc):
        jobs.pop(self.sid, None)
        self.publisher.finish()


async def run(sid, body):
    loop = asyncio.get_running_loop()
    _, publisher = await loop.create_connection(lambda: Publisher(sid), "127.0.0.1", NCHAN_PORT)
    request = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    transport, _ = await loop.create_connection(
        lambda: Source(request, publisher, sid), UPSTREAM.hostname, UPSTREAM.port
    )
    jobs[sid] = transport


class Control(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.inbox = transport, b""

    def data_received(self, data):
        self.inbox += data
        head, sep, body = self.inbox.partition(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line[15:])
        if not sep or len(body) < length:
            return
        self.inbox = b""
        method, path, _ = head.split(b" ", 2)
        sid = path.rsplit(b"/", 1)[-1]
        if method == b"POST":
            asyncio.get_running_loop().create_task(run(sid, body[:length]))
        elif method == b"DELETE" and sid in jobs:
            jobs.pop(sid).close()
        self.transport.write(
            b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        self.transport.close()


async def main():
    server = await asyncio.get_running_loop().create_server(
        Control, "127.0.0.1", int(os.environ["BENCH_PORT"]), backlog=4096
    )
    await server.serve_forever()


uvloop.run(main())
