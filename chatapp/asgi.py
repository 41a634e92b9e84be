"""The ASGI application: event streams beside Django, and the background work of this process."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatapp.settings")
django.setup()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402 - after django.setup()
from django.conf import settings  # noqa: E402
from django.core.exceptions import ImproperlyConfigured  # noqa: E402
from django.urls import re_path  # noqa: E402

from chatapp import checks, runtime, services, telemetry  # noqa: E402
from chatapp.auth import LiveCredentials  # noqa: E402
from chatapp.feed import Feed  # noqa: E402
from chatapp.lines import Lines  # noqa: E402
from chatapp.metrics import Listener  # noqa: E402
from chatapp.middleware.admission import Admission  # noqa: E402
from chatapp.middleware.threads import ApiHandler, DatabaseThreads, SiteHandler  # noqa: E402
from chatapp.probes import Probes  # noqa: E402
from chatapp.streams import Streams  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from chatapp.middleware.asgi_types import App, Receive, Scope, Send

RECORDS = services.records()


class Departure:
    """Calls `move_on` when this process is told to stop, before the server's own handler.

    A server that is told to stop waits for its open requests and only then runs the lifespan's
    shutdown; streams that nobody ends would be cut in the middle after its grace time.
    """

    def __init__(self, move_on: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._move_on = move_on
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                before = signal.getsignal(number)
                if callable(before):  # the server has one: then it is not the system's default
                    self._before[number] = before
                    signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._loop.call_soon_threadsafe(self._move_on)
        self._before[number](number, frame)

    def forget(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


class Application:
    """Routes requests, and starts this loop's background work: at lifespan, else at first call."""

    def __init__(self) -> None:
        self._threads = threads = DatabaseThreads()
        self._checked = False
        self._metrics = Listener()
        max_body_bytes = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        site = SiteHandler(threads, max_body_bytes=max_body_bytes)
        api = ApiHandler(threads, max_body_bytes=max_body_bytes)
        self.live = LiveCredentials(threads)
        streams = Streams(api, threads, self.live)
        lines = Lines(streams, Feed(), threads, self.live, api)
        probes = Probes(threads)
        found = _routes(streams, lines, probes, api, site)
        routes: Any = ProtocolTypeRouter({"http": URLRouter(found)})
        if (traces := telemetry.current()) is not None:
            routes = traces.around(routes)
        door = Admission(routes, settings.DOOR_LIMITS, settings.TRUSTED_PROXIES)
        self._http = door.entrance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        self.start()  # Daphne knows no lifespan
        await self._http(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    self.start()
                except ImproperlyConfigured as exc:
                    await send({"type": "lifespan.startup.failed", "message": str(exc)})
                    return
                departure = Departure(runtime.current().hub.move_on)
                await send({"type": "lifespan.startup.complete"})
            else:
                departure.forget()
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def start(self) -> None:
        """Start this loop's background work. Safe to repeat, and cheap then.

        Raises ImproperlyConfigured.
        """
        if not self._checked:
            checks.require_secret_key()
            self._checked = True
            # What was imported lives as long as the process: looking through it again and again for
            # garbage, as the default thresholds have it, is 5 to 8 % of a question's cost.
            gc.collect()
            gc.freeze()
            gc.set_threshold(50_000, 20, 100)
            self._threads.start()
        runtime.start(
            records=RECORDS,
            make_sweep=services.Sweep,
            make_titles=services.Titles,
            supervise=settings.RELAY_EMBEDDED,
        )
        self._metrics.start()

    async def aclose(self) -> None:
        """Drain what runs here, then let the database go."""
        await self._metrics.aclose()
        await runtime.stop()
        await self._threads.aclose()


def _routes(streams: Streams, lines: Lines, probes: Probes, api: App, site: App) -> list[Any]:
    # Django's re_path is typed for views; Channels takes ASGI applications.
    route: Any = re_path
    return [
        route(r"^api/responses/(?P<response_id>[^/]+)/events$", streams.events),
        route(r"^api/events$", lines.events),
        route(r"^api/responses$", streams.ask),
        route(r"^api/chats/[^/]+/messages$", streams.ask),
        route(r"^api/messages/[^/]+/(?:edit|regenerate|continue)$", streams.ask),
        route(r"^api/", api),
        route(r"^diag/stream$", probes.stream),
        route(r"^diag/report$", probes.report),
        route(r"", site),
    ]


application = Application()
