"""What the doctor asks by: past the proxy it is the same site, under another address."""

from __future__ import annotations

import asyncio

import pytest

from chatapp.doctor.probe import CannotExamine, examine


async def test_the_direct_way_is_asked_by_the_name_that_people_type() -> None:
    """By its address alone, which no ALLOWED_HOSTS has, it would refuse the request."""
    hosts: list[str] = []
    both = asyncio.Barrier(2)  # the first refusal ends the examination

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        hosts.extend(line[6:] for line in head.splitlines() if line.startswith("host: "))
        await both.wait()
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(CannotExamine, match="ALLOWED_HOSTS"):
            await examine(f"http://localhost:{port}", "x", direct=f"http://127.0.0.1:{port}")
    assert hosts == [f"localhost:{port}"] * 2
