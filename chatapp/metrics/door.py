"""Who may read metrics, and a port of each process's own, since several share the site's.

They tell how much is going on and which models there are: nobody reads them through the public
proxy unless an operator says so.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import logging
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final

from aiohttp import web
from django.conf import settings

from chatapp.metrics.exposition import exposition

if TYPE_CHECKING:
    from chatapp.observing import Observing

logger = logging.getLogger(__name__)

PORTS: Final = 16
"""Processes of one host: a scraper is told as many ports as there are processes."""
CLOSE_S: Final = 1.0


def may_read(*, authorization: str, address: str, forwarded: bool) -> bool:
    """At the site's own address: by the token, or by the address of whoever is connected.

    A request that was `forwarded` came through a proxy, whose address says nothing of who asks.
    """
    observing: Observing = settings.OBSERVING
    if _has_token(authorization):
        return True
    if forwarded:
        return False
    try:
        where = ip_address(address)
    except ValueError:  # a Unix socket has none
        return False
    return any(where in ip_network(allowed, strict=False) for allowed in observing.metrics_from)


def _has_token(authorization: str) -> bool:
    token = settings.OBSERVING.metrics_token
    return bool(token) and hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode())


class Listener:
    """This process's own port. Belongs to one event loop; `start` is safe to repeat."""

    def __init__(self) -> None:
        self.port: int | None = None
        self._runner: web.AppRunner | None = None
        self._starting: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Listener on {self.port}>"

    def start(self) -> None:
        if self._starting is None and settings.OBSERVING.metrics_port:
            self._starting = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        observing: Observing = settings.OBSERVING
        application = web.Application()
        application.router.add_get("/metrics", _answer)
        self._runner = runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        for port in range(observing.metrics_port, observing.metrics_port + PORTS):
            try:
                await web.TCPSite(runner, observing.metrics_host, port).start()
            except OSError as exc:
                if exc.errno != errno.EADDRINUSE:
                    logger.error("metrics cannot be shown on port %s: %s", port, exc)
                    return
            else:
                self.port = port
                logger.info("metrics are shown on port %s", port)
                return
        logger.error("metrics are not shown: %s ports from METRICS_PORT on are taken", PORTS)

    async def aclose(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            with suppress(asyncio.CancelledError):
                await self._starting
        if self._runner is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._runner.cleanup()


async def _answer(request: web.Request) -> web.Response:
    if settings.OBSERVING.metrics_token and not _has_token(
        request.headers.get("Authorization", "")
    ):
        raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"})
    body, content_type = await exposition(request.headers.get("Accept", ""))
    return web.Response(body=body, headers={"Content-Type": content_type})
