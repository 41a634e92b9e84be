"""A TCP proxy between everybody and Redis that can be slow and can cut at any byte."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from tests.ports import free_port

if TYPE_CHECKING:
    from types import TracebackType

CHUNK_BYTES = 64 * 1024


class Proxy:
    def __init__(self, target_port: int, seed: int) -> None:
        self.port = free_port()
        self.delay_s = 0.0
        self.cuts = 0
        self._cutting = False
        self._target_port = target_port
        self._rng = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._links: set[Link] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for link in list(self._links):
            link.cut()
        while self._links:  # each ends by itself once its sockets are closed
            await asyncio.sleep(0.01)

    @property
    def open_links(self) -> int:
        return len(self._links)

    def cut_soon(self) -> None:
        """From now on each connection, new ones too, ends within its next 2,000 bytes."""
        self._cutting = True
        for link in self._links:
            link.left_bytes = self._rng.randrange(2000)

    def aim(self, target_port: int) -> None:
        """New connections go to another server. From any thread."""
        self._target_port = target_port

    def turn(self, target_port: int) -> None:
        """Every connection breaks, and new ones go to another server."""
        self.aim(target_port)
        for link in list(self._links):
            link.cut()

    def heal(self) -> None:
        self.delay_s, self._cutting = 0.0, False
        for link in self._links:
            link.left_bytes = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        link = Link(self, (writer, up_writer))
        link.left_bytes = self._rng.randrange(2000) if self._cutting else None
        self._links.add(link)
        try:
            await asyncio.gather(link.pump(reader, up_writer), link.pump(up_reader, writer))
        finally:
            link.cut()
            self._links.discard(link)


class Link:
    """One connection, both ways."""

    def __init__(
        self, proxy: Proxy, writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    ) -> None:
        self.left_bytes: int | None = None
        self._proxy = proxy
        self._writers = writers

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if self._proxy.delay_s:
                    await asyncio.sleep(self._proxy.delay_s)
                if self.left_bytes is not None and len(data) > self.left_bytes:
                    writer.write(data[: self.left_bytes])
                    await writer.drain()
                    self._proxy.cuts += 1
                    break
                if self.left_bytes is not None:
                    self.left_bytes -= len(data)
                writer.write(data)
                await writer.drain()
        # What one side has ended, the other need not wait for; this also lets a last write out.
        for each in self._writers:
            each.close()
