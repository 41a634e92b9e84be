"""How a store reaches its server: what differs between one server, Sentinels and a cluster.

A store asks for lanes, for connections of its own (those that block), and for a subscription; who
serves a key is found out here, and again after every lost connection.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from redis.asyncio.connection import Connection, ConnectionPool, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError

from relay.store.lane import Lane
from relay.store.subscription import RedisSubscription

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.asyncio.connection import AbstractConnection

    from relay.store.address import Address, Host
    from relay.store.lane import Carrier
    from relay.store.protocol import Subscription

CONNECT_S: Final = 2.0


def connection_options() -> dict[str, Any]:
    """Of every connection: no time-out of reading (lanes have theirs), no retries of redis-py's."""
    return {
        "protocol": 2,
        "socket_timeout": None,
        "socket_connect_timeout": CONNECT_S,
        "retry": Retry(NoBackoff(), 0),
    }


class _Once(Connection):
    """redis-py connects again by itself, to the same host, when something is sent after a
    disconnect: a connection that was cut because its server is the wrong one must stay cut."""

    _used = False

    async def connect_check_health(
        self, check_health: bool = True, retry_socket_connect: bool = True
    ) -> None:
        if self._used and not self.is_connected:
            raise ConnectionError("this connection was cut")
        self._used = True
        await super().connect_check_health(check_health, retry_socket_connect)


class _OnceSSL(_Once, SSLConnection):
    pass


async def dial(address: Address, host: Host) -> AbstractConnection:
    """A connection to one of the servers that an address leads to. Raises RedisError, OSError."""
    kind = _OnceSSL if address.tls else _Once
    options = connection_options() | dict(address.options)
    return await _opened(kind(host=host[0], port=host[1], **options))


async def _opened(made: AbstractConnection) -> AbstractConnection:
    try:
        await made.connect()  # type: ignore[no-untyped-call]
    except BaseException:
        # redis-py closes what is cancelled in the handshake's reads and writes. Between them it
        # leaves the socket open, and whoever asked has nothing to close.
        with suppress(RedisError, OSError):
            await made.disconnect(nowait=True)
        raise
    return made


class Servers(Protocol):
    def lane(self) -> Carrier:
        """A new one; whoever asked closes it."""

    async def connect(self, key: str) -> AbstractConnection:
        """A new connection to who serves this key. Raises RedisError and OSError."""

    def subscription(self, shards: Sequence[int]) -> Subscription: ...

    async def aclose(self) -> None: ...


class OneServer:
    """Implements `Servers`: the address is that of the server."""

    def __init__(self, url: str) -> None:
        # Only makes connections: it counts none of them, so its limit is never met.
        self._pool: ConnectionPool = ConnectionPool.from_url(url, **connection_options())

    def __repr__(self) -> str:
        return repr(self._pool)

    def lane(self) -> Lane:
        return Lane(self._connect)

    async def connect(self, key: str) -> AbstractConnection:
        return await self._connect()

    def subscription(self, shards: Sequence[int]) -> RedisSubscription:
        return RedisSubscription(self._connect, shards)

    async def _connect(self) -> AbstractConnection:
        made: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        return await _opened(made)

    async def aclose(self) -> None:
        await self._pool.aclose()
