"""The proxies of deploy/, run as they are: HTTP/2 with TLS, and nothing of an answer changes."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from relay.wire.sse import SseDecoder
from tests import proxies
from tests.relay.reader import Reader
from tests.site import Site, ask
from tests.waiting import wait_until

pytestmark = pytest.mark.process

ENV: Final = {"ALLOWED_HOSTS": "localhost,127.0.0.1", "TRUSTED_PROXIES": "127.0.0.1"}
OURS: Final[dict[str, Callable[[Path, str], proxies.Proxy]]] = {
    "nginx": proxies.our_nginx,
    "haproxy": proxies.our_haproxy,
    "caddy": proxies.our_caddy,
}
RELOAD: Final = {"nginx": signal.SIGHUP, "haproxy": signal.SIGUSR2}
LONG: Final = "say:250 every:20"
STOPPED_WITHIN_S: Final = 5.0
"""A second when nothing else runs (tests/bench/RESULTS.md)."""


@asynccontextmanager
async def behind(name: str, folder: Path) -> AsyncIterator[tuple[Site, proxies.Proxy, Any]]:
    """A site, one of the proxies before it, and an API client that comes through it."""
    async with Site(folder, env=ENV) as site:
        with OURS[name](folder, site.urls[0]) as proxy:
            headers = {"Authorization": f"Bearer {site.key}"}
            async with client_of(proxy.url, headers) as client:
                await wait_until(lambda: ready(client), f"{proxy!r} to reach the site", timeout=30)
                yield site, proxy, client


def client_of(url: str, headers: dict[str, str]) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=url,
        headers=headers,
        http2=True,
        verify=proxies.any_certificate(),
        trust_env=False,
        timeout=30,
    )


async def status_of_large(url: str) -> int:
    """Of a request that says how large it will be, and has begun."""
    port = int(url.rsplit(":", 1)[1])
    context = proxies.any_certificate()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(
        b"POST /api/responses HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: 8000000\r\n\r\n" + b"x" * 65536
    )
    line = await asyncio.wait_for(reader.readline(), 30)
    writer.close()
    return int(line.split()[1])


async def ready(client: httpx.AsyncClient) -> bool:
    with suppress(httpx.TransportError):
        return (await client.get("/readyz")).status_code == 200
    return False


async def read(client: httpx.AsyncClient, rid: str, reader: Reader, **headers: str) -> None:
    """Until the stream ends or its connection breaks; what has come is in `reader`."""
    path = f"/api/responses/{rid}/events"
    with suppress(httpx.TransportError):
        async with client.stream("GET", path, headers=headers) as reply:
            assert reply.status_code == 200, reply.status_code
            assert reply.headers["cache-control"] == "no-cache, no-transform"
            assert "content-encoding" not in reply.headers
            async for chunk in reply.aiter_raw():
                reader.feed(chunk)


@pytest.mark.parametrize("name", OURS)
def test_its_own_program_finds_nothing_wrong_with_a_file(name: str, tmp_path: Path) -> None:
    proxy = OURS[name](tmp_path, "http://127.0.0.1:8000")
    done = proxy.check()
    assert done.returncode == 0, done.stderr
    if name != "caddy":  # it warns of the certificate, which is the test's
        assert "warn" not in (done.stdout + done.stderr).lower()


async def come_back(url: str, before: httpx.AsyncClient, rid: str, reader: Reader) -> None:
    """On a new connection, with the number of the last event."""
    reader.decoder = SseDecoder()  # half a frame may be left of the connection that broke
    async with client_of(url, dict(before.headers)) as client:
        await wait_until(lambda: ready(client), f"{url} to be back", timeout=30)
        await read(client, rid, reader, **{"Last-Event-ID": str(reader.cursor)})


@pytest.mark.parametrize("name", OURS)
async def test_an_answer_comes_over_http_2_word_by_word_and_is_stopped(
    name: str, tmp_path: Path
) -> None:
    async with behind(name, tmp_path) as (_, proxy, client):
        page = await client.get("/account/login/")
        assert (page.status_code, page.http_version) == (200, "HTTP/2")
        rid, reader = await ask(client, LONG), Reader()
        reading = asyncio.create_task(read(client, rid, reader))
        # Five seconds of words: they are seen while they are written, or not before its end.
        await wait_until(lambda: len(reader.text) > 20, "the first words", timeout=20)
        early = len(reader.text)
        await wait_until(lambda: len(reader.text) > early, "more of them", timeout=20)
        begun_s = time.monotonic()
        stopped = await client.post(f"/api/responses/{rid}/cancel")
        assert stopped.json()["status"] == "cancelled", stopped.text
        await reading
        assert time.monotonic() - begun_s < STOPPED_WITHIN_S
        assert (reader.ended or {}).get("status") == "cancelled"
        assert (await client.get("/metrics")).status_code == 404
        if name != "caddy":  # it counts what comes, whatever was announced
            assert await status_of_large(proxy.url) == 413


@pytest.mark.parametrize("name", OURS)
async def test_who_was_cut_by_a_proxy_that_died_resumes_with_every_word(
    name: str, tmp_path: Path
) -> None:
    async with behind(name, tmp_path) as (site, proxy, client):
        rid, reader = await ask(client, LONG), Reader()
        reading = asyncio.create_task(read(client, rid, reader))
        await wait_until(lambda: len(reader.text) > 20, "the first words", timeout=20)
        proxy.kill()
        await asyncio.wait_for(reading, 30)
        assert not reader.ended
        proxy.start()
        await come_back(proxy.url, client, rid, reader)
        assert reader.text == " ".join(f"word{n}" for n in range(1, 251))
        assert (reader.ended or {}).get("status") == "completed"
        assert site.webs[0].alive


@pytest.mark.parametrize("name", RELOAD)
async def test_a_reload_of_the_proxy_cuts_no_answer(name: str, tmp_path: Path) -> None:
    async with behind(name, tmp_path) as (_, proxy, client):
        rid, reader = await ask(client, LONG), Reader()
        reading = asyncio.create_task(read(client, rid, reader))
        await wait_until(lambda: len(reader.text) > 20, "the first words", timeout=20)
        proxy.send(RELOAD[name])
        await reading
        # Asked to move on it comes back, perhaps once more to a process that is leaving.
        async with asyncio.timeout(60):
            while not reader.ended:
                await come_back(proxy.url, client, rid, reader)
        assert reader.text == " ".join(f"word{n}" for n in range(1, 251))
