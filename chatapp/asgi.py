"""The ASGI application: event streams beside Django, and the background work of this process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatapp.settings")
django.setup()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402 - after django.setup()
from django.conf import settings  # noqa: E402
from django.core.handlers.asgi import ASGIHandler  # noqa: E402
from django.urls import re_path  # noqa: E402

from chatapp import checks, finalize, runtime, services  # noqa: E402
from chatapp.auth import LiveCredentials  # noqa: E402
from chatapp.middleware.threads import DatabaseThreads, OnDatabaseThreads  # noqa: E402
from chatapp.streams import Streams  # noqa: E402

if TYPE_CHECKING:
    from chatapp.middleware.asgi_types import App, Receive, Scope, Send

RECORDS = finalize.Records()


class Application:
    """Routes requests, and starts this loop's background work: at lifespan, else at first call."""

    def __init__(self, threads: DatabaseThreads | None = None) -> None:
        checks.require_secret_key()
        threads = threads or DatabaseThreads()
        site = OnDatabaseThreads(
            ASGIHandler(), threads, max_body_bytes=settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        )
        streams = Streams(site, threads, LiveCredentials(threads))
        self._http: Any = ProtocolTypeRouter({"http": URLRouter(_routes(streams, site))})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        start()  # Daphne knows no lifespan
        await self._http(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await runtime.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


def start() -> None:
    """Safe to repeat, and cheap then."""
    runtime.start(records=RECORDS, make_sweep=services.Sweep, supervise=settings.RELAY_EMBEDDED)


def _routes(streams: Streams, site: App) -> list[Any]:
    # Django's re_path is typed for views; Channels takes ASGI applications.
    route: Any = re_path
    return [
        route(r"^api/responses/(?P<response_id>[^/]+)/events$", streams.events),
        route(r"^api/responses$", streams.ask),
        route(r"^api/chats/[^/]+/messages$", streams.ask),
        route(r"", site),
    ]


application = Application()
