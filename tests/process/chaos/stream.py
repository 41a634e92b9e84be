"""One HTTP connection to `/events` on a bare socket, so that it can be treated badly."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from relay.wire.sse import Frame, SseDecoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SILENCE_S = 8.0
"""Four heartbeats: then a viewer takes the connection for dead."""
NARROW_BYTES = 4096
"""A slow viewer's receive buffer, so that its slowness reaches the server soon."""


class Refused(Exception):
    """The server answered, but not with a stream."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class Stream:
    """Read `frames()`; OSError and TimeoutError mean that the connection is no more."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.status = 0
        self.kept = False
        """Somebody else will abort it."""

    async def frames(self, *, read_bytes: int = 65536) -> AsyncIterator[Frame]:
        """Until the server has closed or ended its reply."""
        decoder, chunked = SseDecoder(), Dechunker()
        while not chunked.ended:
            async with asyncio.timeout(SILENCE_S):
                data = await self._reader.read(read_bytes)
            if not data:
                return
            for frame in decoder.feed(chunked.feed(data)):
                yield frame

    def half_close(self) -> None:
        self._writer.write_eof()

    def abort(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def opened(
    url: str, path: str, headers: dict[str, str], *, slow: bool = False
) -> AsyncIterator[Stream]:
    """Raises Refused, OSError, TimeoutError."""
    address = urlsplit(url)
    sock = socket.socket()
    if slow:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_BYTES)
    sock.setblocking(False)
    try:
        async with asyncio.timeout(SILENCE_S):
            await asyncio.get_running_loop().sock_connect(sock, (address.hostname, address.port))
            limit = NARROW_BYTES if slow else 65536
            reader, writer = await asyncio.open_connection(sock=sock, limit=limit)
    except BaseException:
        sock.close()
        raise
    stream = Stream(reader, writer)
    try:
        lines = [f"GET {path} HTTP/1.1", f"Host: {address.netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        async with asyncio.timeout(SILENCE_S):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError as error:
                raise ConnectionResetError("closed before it answered") from error
        stream.status = int(head.split(b" ", 2)[1])
        if stream.status not in (200, 204):
            raise Refused(stream.status)
        yield stream
    finally:
        if not stream.kept:
            stream.abort()


class Dechunker:
    """RFC 9112 7.1, without trailers: no server here sends one."""

    def __init__(self) -> None:
        self.ended = False
        self._rest = b""
        self._left_bytes = 0

    def feed(self, data: bytes) -> bytes:
        body = []
        self._rest += data
        while self._rest and not self.ended:
            if self._left_bytes > 2:  # the CRLF after a chunk's data is counted with it
                taken = self._rest[: self._left_bytes - 2]
                body.append(taken)
                self._left_bytes -= len(taken)
                self._rest = self._rest[len(taken) :]
            elif self._left_bytes:
                dropped = min(self._left_bytes, len(self._rest))
                self._left_bytes -= dropped
                self._rest = self._rest[dropped:]
            else:
                line, found, rest = self._rest.partition(b"\r\n")
                if not found:
                    break
                size = int(line, 16)
                self.ended = size == 0
                self._left_bytes, self._rest = size + 2, rest
        return b"".join(body)
