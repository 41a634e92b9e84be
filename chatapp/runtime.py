"""The composition root: one store, one hub and at most one supervisor per process and event loop.

They are made when first asked for, so that a view, a test and a worker need no ceremony. What runs
in the background is started (`start`) by whoever owns the loop: the ASGI application or
`relay_worker`. What sits above this module (finalize, the sweep) is handed in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from datetime import UTC, datetime
from typing import Final
from weakref import WeakKeyDictionary

from django.conf import settings

from chatapp import switches
from relay import (
    Hub,
    MemoryStore,
    Records,
    RecordUnavailable,
    RedisStore,
    RelayConfig,
    Store,
    StoreUnavailable,
    Supervisor,
    Upstream,
)

logger = logging.getLogger(__name__)

Sweep = Callable[[], Awaitable[object]]

_runtimes: Final[MutableMapping[asyncio.AbstractEventLoop, Runtime]] = WeakKeyDictionary()


class Runtime:
    """What one event loop of this process shares. Use the functions below."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.hub = Hub(store, config(), shards=range(config().shards))
        self.supervisor: Supervisor | None = None
        self._upstream: Upstream | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._naming: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Runtime {self.store!r}, supervisor={self.supervisor!r}>"

    def start(
        self,
        *,
        records: Records,
        make_sweep: Callable[[], Sweep],
        make_titles: Callable[[Upstream], Sweep] | None,
        supervise: bool,
    ) -> None:
        """Start the background work. Safe to repeat, and cheap then."""
        if self._sweeping is not None:
            return
        self.hub.start()
        # A context of its own: a task made by the first request must not keep that request's.
        self._sweeping = asyncio.create_task(
            _sweep_forever(make_sweep(), "sweep"), context=Context()
        )
        if supervise:
            self._upstream = Upstream(config())
            self.supervisor = Supervisor(
                self.store,
                self.hub,
                records,
                switches.models,
                config(),
                upstream=self._upstream,
                takes=switches.takes_jobs,
                shards=range(config().shards),
            )
            self.supervisor.start()
            if make_titles is not None:
                # Beside the sweep, which must not wait for a model.
                titles = make_titles(self._upstream)
                self._naming = asyncio.create_task(
                    _sweep_forever(titles, "naming of chats"), context=Context()
                )

    async def aclose(self) -> None:
        """Drain the supervisor, then let go of everything, in reverse."""
        for task in (self._naming, self._sweeping):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        if self.supervisor is not None:
            await self.supervisor.drain()
            await self.supervisor.aclose()
        if self._upstream is not None:
            await self._upstream.aclose()
        await self.hub.aclose()
        await self.store.aclose()


def config() -> RelayConfig:
    relay: RelayConfig = settings.RELAY
    return relay


def current() -> Runtime:
    """This loop's runtime, made when it is first asked for."""
    loop = asyncio.get_running_loop()
    runtime = _runtimes.get(loop)
    if runtime is None:
        runtime = _runtimes[loop] = Runtime(RedisStore(settings.REDIS_URL, config()))
    return runtime


def store() -> Store:
    return current().store


def now() -> datetime:
    """By the store's clock, which is one for all processes (PROTOCOL 9.4)."""
    return datetime.fromtimestamp(store().now_s(), UTC)


def hub() -> Hub:
    """The hub, with its task running."""
    hub = current().hub
    hub.start()
    return hub


def start(
    *,
    records: Records,
    make_sweep: Callable[[], Sweep],
    make_titles: Callable[[Upstream], Sweep] | None = None,
    supervise: bool,
) -> None:
    """Titles are asked for only where generations run."""
    current().start(
        records=records, make_sweep=make_sweep, make_titles=make_titles, supervise=supervise
    )


async def stop() -> None:
    """Drain and close this loop's runtime, if there is one."""
    runtime = _runtimes.pop(asyncio.get_running_loop(), None)
    if runtime is not None:
        await runtime.aclose()


@asynccontextmanager
async def using(store: Store | None = None) -> AsyncIterator[Runtime]:
    """For tests: this loop's runtime with another store (memory, when none is given)."""
    await stop()
    runtime = Runtime(store or MemoryStore(config()))
    _runtimes[asyncio.get_running_loop()] = runtime
    try:
        yield runtime
    finally:
        await stop()


async def _sweep_forever(sweep: Sweep, what: str) -> None:
    """Repairs happen at start and every `sweep_s`; one that fails is tried again next time."""
    while True:
        try:
            await sweep()
        except (StoreUnavailable, RecordUnavailable) as exc:
            logger.warning("%s put off: %s", what, exc)
        except Exception:
            logger.exception("%s failed", what)
        await asyncio.sleep(config().sweep_s)
