"""The primary that Sentinels name, and its successor.

redis-py asks the Sentinels; what it leaves open is done here. Each new connection asks them again
and believes only a server that calls itself a primary. Once a second somebody asks anyway, and when
the answer is another server all connections to the old one are cut: a primary that was only paused,
or cut off, takes writes for seconds after it was replaced, and they are lost when it is told.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError

from relay.store.lane import Lane
from relay.store.servers import dial
from relay.store.subscription import RedisSubscription

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.asyncio.connection import AbstractConnection

    from relay.store.address import Address, Host

logger = logging.getLogger(__name__)

ASK_S: Final = 0.7
"""Of connecting to a Sentinel and of its answer: three that hang fit in a lane's round trip."""
WATCH_S: Final = 1.0


class SentinelServers:
    """Implements `Servers`. Belongs to the event loop that first uses it."""

    def __init__(self, address: Address) -> None:
        self._address = address
        asking: dict[str, Any] = {
            "socket_timeout": ASK_S,
            "socket_connect_timeout": ASK_S,
            "retry": Retry(NoBackoff(), 0),
            "ssl": address.tls,
        }
        self._sentinel = Sentinel(  # type: ignore[no-untyped-call]
            address.hosts, sentinel_kwargs=asking | dict(address.sentinel_options)
        )
        self._primary: Host | None = None
        self._made: WeakSet[AbstractConnection] = WeakSet()
        """Connections to `_primary`."""
        self._locating = asyncio.Lock()
        self._watcher: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<SentinelServers {self._address.name} {self._primary or self._address.hosts}>"

    def lane(self) -> Lane:
        return Lane(self._connect)

    async def connect(self, key: str) -> AbstractConnection:
        return await self._connect()

    def subscription(self, shards: Sequence[int]) -> RedisSubscription:
        return RedisSubscription(self._connect, shards)

    async def _connect(self) -> AbstractConnection:
        host, port = await self._locate()
        made = await dial(self._address, (host, port))
        await made.send_command("ROLE", check_health=False)
        role = await made.read_response(disable_decoding=True)
        if role[0] != b"master" or (host, port) != self._primary:
            await made.disconnect(nowait=True)
            raise ConnectionError(f"{host}:{port} is not the primary {self._address.name}")
        self._made.add(made)
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(
                self._watch(), name="relay sentinel watch", context=Context()
            )
        return made

    async def _locate(self) -> Host:
        async with self._locating:  # redis-py's list of Sentinels is put in order while it is asked
            found: Host = await self._sentinel.discover_master(self._address.name)
            if found != self._primary:
                if self._primary is not None:
                    logger.warning("the primary %s is %s:%d now", self._address.name, *found)
                self._primary = found
                old, self._made = self._made, WeakSet()
                for connection in old:
                    with suppress(RedisError, OSError):
                        await connection.disconnect(nowait=True)
            return found

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            with suppress(RedisError, OSError):  # nobody knows a primary just now: later
                await self._locate()

    async def aclose(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            with suppress(asyncio.CancelledError):
                await self._watcher
        await self._sentinel.aclose()
