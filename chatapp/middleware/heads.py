"""The head of a request has a time and a size, and so has what frames its body.

uvicorn knows limits for neither: whoever opens connections and sends a byte now and then holds
them, and a header line, or the trailer of a body, is kept in memory however long it is. This is
uvicorn's own protocol with an account of what came and has not become a request yet. Named on its
command line: `--http chatapp.middleware.heads:BoundedHttp`.

What waits to be sent is bounded as well. Left to itself the kernel keeps up to 4 MiB for whoever
does not read: 200 viewers that took 1 KB a second stayed live for a minute, each delta was written
to each of them, and what they cost was in no figure of this process.

It also tells the request that is being answered of a lost connection. uvicorn tells the last one
that came: with another behind it (pipelined), an answer would go on into a closed socket.
"""

from __future__ import annotations

import socket
from asyncio import TimerHandle, Transport
from http import HTTPStatus
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from chatapp.middleware.problems import PROBLEM_TYPE, problem_body

HEAD_TIMEOUT_S: Final = 10.0
"""As in deploy/nginx.conf: a phone with a bad connection needs two or three."""
MAX_HEAD_BYTES: Final = 32 * 1024
"""Four of the largest that nginx takes by default; our own cookies and headers are below 2 KiB."""
FRAMING_PER_BODY_BYTE: Final = 8
"""A chunk of one byte takes five more. Without a bound trailers and extensions would have none."""
UNSENT_BYTES: Final = 32 * 1024
"""In the kernel, of one connection. What is on its way to a distant reader does not count, so this
costs no speed (TCP_NOTSENT_LOWAT, the way HTTP/2 servers keep their queues short)."""
WRITE_BUFFER_BYTES: Final = 4 * 1024
"""Beyond these whoever writes has to wait; uvicorn waits from 64 KiB on."""


class HeadTooLarge(Exception):
    """Out of a callback of the parser; uvicorn calls `send_400_response` for it."""


class BoundedHttp(HttpToolsProtocol):
    """A request whose head comes too late is answered with 408, one too large with 431, a body that
    is nearly all framing with 400; then the connection is closed."""

    # One attribute more in uvicorn's dictionary and it no longer shares its keys with those of the
    # other connections: 1.6 KB each.
    __slots__ = ("_answered", "_heard", "_in_head", "_late", "_room_bytes")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._answered: RequestResponseCycle | None = None
        """Being answered now, or last."""
        self._late: TimerHandle | None = None
        self._in_head = True
        """Also between two requests: what comes next is a head."""
        self._heard = False
        """Anything at all."""
        self._room_bytes = MAX_HEAD_BYTES
        """What may still come before it becomes a request, or a body."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        connection: socket.socket = transport.get_extra_info("socket")
        if connection.family != socket.AF_UNIX:  # whose buffer is a fixed one
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timer()
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._in_head and self._late is None and self._idle:
            self._expect_head()  # uvicorn has just stopped the clock of a kept connection
        self._room_bytes -= len(data)
        super().data_received(data)
        if self._room_bytes < 0:
            self._refuse_size()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # else a trailer, which would appear among the headers of the request
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        size_bytes = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size_bytes > MAX_HEAD_BYTES:  # it came in one piece
            self._room_bytes = -1
            raise HeadTooLarge
        self._forget_timer()
        self._in_head = False
        self._room_bytes = MAX_HEAD_BYTES
        idle = self._idle
        super().on_headers_complete()
        if idle:
            self._answered = self.cycle

    def on_body(self, body: bytes) -> None:
        earned = self._room_bytes + len(body) * (FRAMING_PER_BODY_BYTE + 1)
        self._room_bytes = min(MAX_HEAD_BYTES, earned)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        self._room_bytes = MAX_HEAD_BYTES
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        if self._room_bytes < 0:
            self._refuse_size()
        else:
            self._refuse(400, msg)

    @property
    def _idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn types it as always there
        return cycle is None or cycle.response_complete

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def _forget_timer(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _head_is_late(self) -> None:
        self._late = None
        if self._heard:
            self._refuse(408, f"The head of the request did not come within {HEAD_TIMEOUT_S:g} s.")
        else:
            self.transport.close()  # browsers open connections in advance

    def _refuse_size(self) -> None:
        if self._in_head:
            self._refuse(431, f"The head of a request may have {MAX_HEAD_BYTES} bytes.")
        else:
            self._refuse(400, "The body consists of little but its framing.")

    def _refuse(self, status: int, detail: str) -> None:
        if self.transport.is_closing():
            return
        if self._idle or not (self.pipeline or self.cycle.response_started):
            # Else an answer is under way, and two would be read as one.
            body = problem_body(status, detail)
            phrase = HTTPStatus(status).phrase
            head = (
                f"HTTP/1.1 {status} {phrase}\r\ncontent-type: {PROBLEM_TYPE}\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()
