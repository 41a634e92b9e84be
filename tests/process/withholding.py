"""A proxy that has an answer whole before it passes on a byte, as some that look for viruses do."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

END_OF_CHUNKS = b"\r\n0\r\n\r\n"


@asynccontextmanager
async def withholding(port: int) -> AsyncIterator[str]:
    """In front of a server on this port; its address. One request a connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, _, rest = head.partition(b"\r\n")
        there, back = await asyncio.open_connection("127.0.0.1", port)
        back.write(first + b"\r\nX-Forwarded-For: 127.0.0.1\r\nConnection: close\r\n" + rest)
        whole = asyncio.create_task(_whole(there))
        gone = asyncio.create_task(reader.read(1))
        with suppress(OSError):
            await asyncio.wait({whole, gone}, return_when=asyncio.FIRST_COMPLETED)
            if whole.done():
                writer.write(whole.result())
                await writer.drain()
        whole.cancel()
        gone.cancel()
        back.close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def _whole(reader: asyncio.StreamReader) -> bytes:
    data = b""
    while more := await reader.read(65536):
        data += more
        if data.endswith(END_OF_CHUNKS):
            break
    return data
