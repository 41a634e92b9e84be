"""A proxy as small as one can be: each connection goes to the next web process that is ready."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import httpx

if TYPE_CHECKING:
    from types import TracebackType

LOOK_S = 0.1
CLOSE_S = 10.0
NOBODY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)


class Front:
    """`async with Front(urls) as front:`; `front.url` is where clients go.

    It asks every process for /readyz ten times a second. One that refuses a connection is passed
    over at once, as proxies do; what was sent on an open connection is never repeated.
    """

    def __init__(self, urls: list[str]) -> None:
        self.urls = urls
        """Of the web processes there are; the caller's list, which may change."""
        self.ready: set[str] = set()
        self.unready: dict[str, int] = {}
        """How often each process answered that it is not ready."""
        self._turn = itertools.count()
        self._server: asyncio.Server | None = None
        self._looking: asyncio.Task[None] | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        assert self._looking is not None
        self._looking.cancel()
        self._server.close()
        await asyncio.gather(self._looking, return_exceptions=True)
        if self._open:  # their clients have gone
            await asyncio.wait(self._open, timeout=CLOSE_S)

    async def _look(self) -> None:
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(limits=limits, timeout=5) as client:
            while True:
                for url in list(self.urls):
                    try:
                        status = (await client.get(f"{url}/readyz")).status_code
                    except httpx.TransportError:
                        status = 0
                    if status == 200:
                        self.ready.add(url)
                    else:
                        self.ready.discard(url)
                        self.unready[url] = self.unready.get(url, 0) + (status != 0)
                await asyncio.sleep(LOOK_S)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind = await self._connect()
            if behind is None:
                writer.write(NOBODY)
                await writer.drain()
                return
            there, back = behind
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        except OSError:
            pass  # either side is gone; closing tells the other one
        finally:
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        ready = sorted(self.ready & set(self.urls))
        for _ in ready:
            port = int(ready[next(self._turn) % len(ready)].rsplit(":", 1)[1])
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        return None


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    finally:
        sink.close()
