"""Who may read metrics: nobody, unless a token or an address opens; a proxy's does not."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from django.conf import settings as project
from django.test import AsyncClient

from chatapp.metrics import Listener
from tests.ports import free_port
from tests.waiting import wait_until

if TYPE_CHECKING:
    from relay import MemoryStore

ROOT = Path(__file__).resolve().parents[3]


def observing(settings: Any, **changes: Any) -> None:
    settings.OBSERVING = dataclasses.replace(project.OBSERVING, **changes)


async def status(**headers: str) -> int:
    return (await AsyncClient().get("/metrics", headers=headers)).status_code


async def test_nobody_reads_metrics_by_default(store: MemoryStore, transactional_db: None) -> None:
    assert await status() == 404
    assert await status(Authorization="Bearer ") == 404


async def test_the_token_opens_from_anywhere(
    store: MemoryStore, transactional_db: None, settings: Any
) -> None:
    observing(settings, metrics_token="open sesame")
    assert await status(Authorization="Bearer open sesame") == 200
    assert await status(Authorization="Bearer open sesame", X_Forwarded_For="10.0.0.1") == 200
    for wrong in ("Bearer open sesam", "open sesame", "Bearer \xe9", ""):
        assert await status(Authorization=wrong) == 404


async def test_an_address_opens_unless_a_proxy_stands_between(
    store: MemoryStore, transactional_db: None, settings: Any
) -> None:
    observing(settings, metrics_from=["10.0.0.0/8", "127.0.0.1"])
    assert await status() == 200
    assert (await AsyncClient().get("/metrics", REMOTE_ADDR="10.9.8.7")).status_code == 200
    assert (await AsyncClient().get("/metrics", REMOTE_ADDR="192.0.2.1")).status_code in (200, 404)
    assert await status(**{"X-Forwarded-For": "127.0.0.1"}) == 404
    assert await status(Forwarded="for=127.0.0.1") == 404


async def port_of(listener: Listener) -> int:
    async def port() -> int | None:
        return listener.port

    return await wait_until(port, "the port to be open")


async def test_each_process_takes_the_next_free_port(
    store: MemoryStore, transactional_db: None, settings: Any
) -> None:
    observing(settings, metrics_port=free_port())
    first, second = Listener(), Listener()
    async with httpx.AsyncClient() as client:
        for listener in (first, second):
            listener.start()
            listener.start()
            reply = await client.get(f"http://127.0.0.1:{await port_of(listener)}/metrics")
            assert reply.status_code == 200
            assert "unbroken_store_up 1.0" in reply.text
        assert first.port != second.port
        observing(settings, metrics_token="t")
        url = f"http://127.0.0.1:{first.port}/metrics"
        assert (await client.get(url)).status_code == 401
        headers = {"Authorization": "Bearer t"}
        assert (await client.get(url, headers=headers)).status_code == 200
        assert (await client.get(f"http://127.0.0.1:{first.port}/")).status_code == 404
    await first.aclose()
    await second.aclose()


async def test_without_a_port_nothing_listens(store: MemoryStore, transactional_db: None) -> None:
    listener = Listener()
    listener.start()
    assert listener.port is None
    await listener.aclose()


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"METRICS_HOST": "0.0.0.0"}, "METRICS_HOST: set METRICS_TOKEN as well"),  # noqa: S104
        ({"METRICS_FROM": "everybody"}, "METRICS_FROM: "),
        ({"METRICS_HOST": "::1", "METRICS_FROM": "10.0.0.0/8,::1"}, ""),
        ({"METRICS_HOST": "0.0.0.0", "METRICS_TOKEN": "t"}, ""),  # noqa: S104
    ],
)
def test_a_door_that_stands_open_is_refused_at_start(
    environment: dict[str, str], said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import chatapp.settings"],
        cwd=ROOT,
        env={"PATH": os.environ.get("PATH", ""), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode == 0) is not bool(said)
    assert said in done.stderr


@pytest.mark.parametrize("path", ["nginx.conf", "Caddyfile"])
def test_the_public_proxies_do_not_pass_it_on(path: str) -> None:
    lines = [line.strip() for line in (ROOT / "deploy" / path).read_text().splitlines()]
    assert "location = /metrics { return 404; }" in lines or "respond /metrics 404" in lines
