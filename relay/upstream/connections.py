"""Connections to providers: one pool per event loop, and no politeness when we leave early.

httpx speaks for us, aiohttp's transport carries it (a fourth of the CPU per chunk of httpx's own).
What is set here and not left to defaults: no cap on connections (100 would queue the 101st answer),
no cookies (a jar would be shared by all people), one SSL context (making one costs 38 ms of CPU),
and proxies from the environment read once (aiohttp would ask two threads per request).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from ipaddress import ip_address
from ssl import SSLContext
from types import TracebackType
from typing import Any, Final
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

KEEP_ALIVE_S: Final = 4.0
"""How long an idle connection is kept. Servers drop theirs after 5 s (uvicorn, Node): a request
sent at that very moment would be lost, so we drop them first."""


_kept: Final[ContextVar[bool]] = ContextVar("kept")
"""Whether the request of this task went out on a connection that had been used before."""


async def note_kept(*_: Any) -> None:
    """A hook of aiohttp: the connection has served before."""
    _kept.set(True)


@cache
def ssl_context() -> SSLContext:
    """Shared by everything in this process. Honours SSL_CERT_FILE and SSL_CERT_DIR."""
    return httpx.create_ssl_context()


class AbortingResponse(aiohttp.ClientResponse):
    """An answer whose connection is aborted unless the answer was read to its end.

    A polite close would flush, and shake hands over TLS, while the provider goes on generating.
    """

    def close(self) -> None:
        # None once the answer has been read: then the connection is back in the pool.
        connection = self.connection
        transport = None if connection is None else connection.transport
        super().close()
        if transport is not None:
            transport.abort()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        await super().__aexit__(kind, error, trace)


class Connections:
    """The pool. Belongs to the event loop in which it is first used."""

    def __init__(self) -> None:
        self._ssl = ssl_context()
        self._proxies = getproxies()
        self._session: aiohttp.ClientSession | None = None
        self._transports: dict[str | None, AiohttpTransport] = {}

    async def send(self, make: Callable[[], httpx.Request]) -> httpx.Response:
        """Send what `make` makes; again for every kept connection that was closed meanwhile.

        Some servers promise to keep a connection and close it a moment after the answer (llama.cpp
        after every stream): whoever asks again at that very moment is lost through no fault of
        anybody's. A reset is a failure as everywhere, and so is whatever befalls a new connection.
        """
        while True:
            request = make()
            _kept.set(False)
            try:
                return await self.transport(request.url).handle_async_request(request)
            except httpx.HTTPError as error:
                if not (_kept.get() and _was_closed(error)):
                    raise

    def transport(self, url: httpx.URL) -> httpx.AsyncBaseTransport:
        """The transport that reaches `url`, through a proxy if the environment names one."""
        proxy = self._proxy(url)
        if proxy not in self._transports:
            self._transports[proxy] = AiohttpTransport(
                verify=self._ssl,
                proxy=None if proxy is None else httpx.Proxy(proxy),
                client=self._the_session,
            )
        return self._transports[proxy]

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _the_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            tracing = aiohttp.TraceConfig()
            tracing.on_connection_reuseconn.append(note_kept)
            self._session = aiohttp.ClientSession(
                trace_configs=[tracing],
                connector=aiohttp.TCPConnector(
                    limit=0, ssl=self._ssl, keepalive_timeout=KEEP_ALIVE_S
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                response_class=AbortingResponse,
            )
        return self._session

    def _proxy(self, url: httpx.URL) -> str | None:
        proxy = self._proxies.get(url.scheme) or self._proxies.get("all")
        if proxy is None or _is_local(url.host) or proxy_bypass(url.netloc.decode()):
            return None
        return proxy if "://" in proxy else f"http://{proxy}"


def _was_closed(error: httpx.HTTPError) -> bool:
    cause = error.__cause__
    # httpx's adapter calls both a ConnectTimeout, and for the second aiohttp has no type.
    return isinstance(cause, aiohttp.ServerDisconnectedError) or (
        isinstance(cause, aiohttp.ClientOSError) and "Can not write request" in str(cause)
    )


def _is_local(host: str) -> bool:
    """An engine on this machine is never behind a proxy, whatever NO_PROXY forgot to say."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
