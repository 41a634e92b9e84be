"""Slowloris: connections that never become a request, beside people who ask."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from chatapp.middleware.heads import HEAD_TIMEOUT_S
from tests.site import Site, ask, until_status

pytestmark = pytest.mark.process

SLOW = 200
STEP_S = 0.5
SPARE_S = 10.0
"""For a busy machine."""


async def _drip(port: int) -> tuple[float, bytes]:
    """A head by single bytes: how long the server put up with it, and what it said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began_s = time.monotonic()
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nx: ")
    said = asyncio.create_task(reader.read())
    while not said.done():
        writer.write(b"a")
        await asyncio.wait([said], timeout=STEP_S)
    writer.close()
    try:
        return time.monotonic() - began_s, said.result()
    except ConnectionError:  # reset, with the last byte unread
        return time.monotonic() - began_s, b""


async def test_connections_that_never_become_a_request_stop_nobody_and_are_closed(
    tmp_path: Path,
) -> None:
    async with Site(tmp_path) as site, site.client() as client:
        port = int(site.urls[0].rsplit(":", 1)[1])
        slow = [asyncio.create_task(_drip(port)) for _ in range(SLOW)]
        while not all(task.done() for task in slow):
            rid = await ask(client, "say:5")
            await until_status(client, rid, "completed", timeout=10)
        held_s = [held for held, _ in await asyncio.gather(*slow)]
        said = [answer for _, answer in await asyncio.gather(*slow)]
    assert max(held_s) < HEAD_TIMEOUT_S + SPARE_S
    assert sum(answer.startswith(b"HTTP/1.1 408") for answer in said) > SLOW / 2
