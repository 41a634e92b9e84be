"""The way to a provider: directly, or through the proxy that the environment names."""

from __future__ import annotations

import aiohttp
import httpx
import pytest

from relay.config import ModelConfig
from relay.upstream import Upstream, connections
from relay.upstream.connections import Connections, ssl_context
from tests.relay.upstream.hearing import QUICK, hear
from tests.scripted import Done, Say, ScriptedUpstream

ANYWHERE = "http://provider.example/v1"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def test_a_request_goes_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedUpstream() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        proxy.script("hi", Say("a"), Done())
        upstream = Upstream(QUICK)
        model = ModelConfig(name="m", dialect="openai-chat", base_url=ANYWHERE, upstream_model="u")
        heard = await hear(upstream, "hi", model)
        await upstream.aclose()
    assert (heard.error, heard.text) == (None, "a")
    assert proxy.last.headers["host"] == "provider.example"


async def test_an_engine_on_this_machine_is_reached_directly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with ScriptedUpstream() as engine:
        upstream = Upstream(QUICK)
        heard = await hear(upstream, "say:1", engine.model_config())
        await upstream.aclose()
    assert heard.error is None


@pytest.mark.parametrize(
    ("environment", "url", "proxied"),
    [
        ({}, "https://a.example/", False),
        ({"HTTPS_PROXY": "http://p:1"}, "https://a.example/", True),
        ({"https_proxy": "p:1"}, "https://a.example/", True),
        ({"HTTPS_PROXY": "http://p:1"}, "http://a.example/", False),
        ({"ALL_PROXY": "http://p:1"}, "http://a.example/", True),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "a.example"}, "http://a.example/", False),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": ".example"}, "http://a.example/", False),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "b.example"}, "http://a.example/", True),
        ({"ALL_PROXY": "http://p:1"}, "http://localhost:8091/", False),
        ({"ALL_PROXY": "http://p:1"}, "http://[::1]:8091/", False),
    ],
)
async def test_who_is_reached_through_a_proxy(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], url: str, proxied: bool
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    connections = Connections()
    transport = connections.transport(httpx.URL(url))
    direct = connections.transport(httpx.URL("http://127.0.0.1/"))
    assert (transport is not direct) is proxied
    await connections.aclose()


def test_the_ssl_context_is_made_once() -> None:
    """It costs 38 ms of CPU, in the time to somebody's first token."""
    assert ssl_context() is ssl_context()


class Stubborn(httpx.AsyncBaseTransport):
    """Takes no request until it was asked often enough, as connections that were closed do."""

    def __init__(self, *, refuses: int, kept: bool = True, why: Exception) -> None:
        self.asked: list[bytes] = []
        self._refuses = refuses
        self._kept = kept
        self._why = why

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(await request.aread())
        if len(self.asked) <= self._refuses:
            if self._kept:
                await connections.note_kept()
            raise httpx.ConnectTimeout("") from self._why
        return httpx.Response(200)


def answering(transport: Stubborn, monkeypatch: pytest.MonkeyPatch) -> Connections:
    pool = Connections()
    monkeypatch.setattr(pool, "transport", lambda url: transport)
    return pool


def request() -> httpx.Request:
    return httpx.Request("POST", "http://h/x", content=b"question")


UNSENT = aiohttp.ClientOSError(None, "Can not write request body for http://h/x")
CLOSED = aiohttp.ServerDisconnectedError()
RESET = aiohttp.ClientOSError(104, "Connection reset by peer")


@pytest.mark.parametrize("why", [UNSENT, CLOSED], ids=["unsent", "closed"])
async def test_a_request_on_a_kept_connection_that_was_closed_goes_out_on_another(
    monkeypatch: pytest.MonkeyPatch, why: Exception
) -> None:
    transport = Stubborn(refuses=2, why=why)
    assert (await answering(transport, monkeypatch).send(request)).is_success
    assert transport.asked == [b"question"] * 3


@pytest.mark.parametrize(
    ("kept", "why"),
    [(False, UNSENT), (False, CLOSED), (True, RESET)],
    ids=["new, unsent", "new, closed", "reset"],
)
async def test_what_befalls_a_new_connection_and_every_reset_are_failures(
    monkeypatch: pytest.MonkeyPatch, kept: bool, why: Exception
) -> None:
    transport = Stubborn(refuses=1, kept=kept, why=why)
    with pytest.raises(httpx.ConnectTimeout):
        await answering(transport, monkeypatch).send(request)
    assert transport.asked == [b"question"]
