"""The one connection of a process that receives what is published (PROTOCOL 5).

Pub/sub may lose messages at any time; nothing here makes it reliable. What it does promise: `add`
returns only when the server has confirmed, and a broken connection is made anew with every channel,
followed by `Lost`, so that the hub looks at the logs.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import ConnectionError, RedisError

from relay.errors import StoreUnavailable
from relay.store import keys
from relay.store.protocol import Gone, Lost, Message, Published, Stopped

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from redis.asyncio.connection import AbstractConnection

logger = logging.getLogger(__name__)

CONFIRM_S: Final = 3.0
PING_S: Final = 5.0
"""A half-open connection stays silent for ever: ask it now and then."""
PINGS_UNANSWERED: Final = 2
"""One more in a row and the connection is dead."""
RETRY_MAX_S: Final = 2.0


class RedisSubscription:
    """Implements `Subscription` on one RESP2 connection."""

    def __init__(
        self, connect: Callable[[], Awaitable[AbstractConnection]], shards: Sequence[int]
    ) -> None:
        self._connect = connect
        self._stops = {keys.stops(shard).encode() for shard in shards}
        self._channels: set[bytes] = set()
        self._confirms: dict[bytes, list[asyncio.Future[None]]] = {}
        self._connection: AbstractConnection | None = None
        self._closed = False
        self._heard = False
        self._leaving: Counter[bytes] = Counter()
        """Unsubscriptions that the server has not confirmed yet."""

    async def add(self, response_id: str) -> None:
        channel = keys.channel(response_id).encode()
        self._channels.add(channel)
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._confirms.setdefault(channel, []).append(confirmed)
        try:
            async with asyncio.timeout(CONFIRM_S):
                await self._command("SSUBSCRIBE", channel)
                await confirmed
        except (TimeoutError, RedisError, OSError) as error:
            raise StoreUnavailable("the store did not confirm a subscription") from error
        finally:
            waiting = self._confirms.get(channel, [])
            if confirmed in waiting:
                waiting.remove(confirmed)
            if not waiting:
                self._confirms.pop(channel, None)

    async def remove(self, response_ids: Sequence[str]) -> None:
        channels = [keys.channel(response_id).encode() for response_id in response_ids]
        self._channels.difference_update(channels)
        self._leaving.update(channels)
        with suppress(RedisError, OSError):
            await self._command("SUNSUBSCRIBE", *channels)

    async def _command(self, *args: Any) -> None:
        """Send, if there is a connection: a new one subscribes to everything by itself."""
        if self._connection is not None:
            await self._connection.send_command(*args, check_health=False)

    async def messages(self) -> AsyncIterator[Message]:
        delay_s = 0.05
        first = True
        while not self._closed:
            try:
                async for message in self._one_connection():
                    if isinstance(message, Lost):
                        delay_s = 0.05
                        if first:
                            first = False
                            continue
                    yield message
            except (RedisError, OSError, TimeoutError) as error:
                logger.warning("subscription lost: %s", str(error) or "silent")
            finally:
                await self._disconnect()
            await asyncio.sleep(delay_s * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
            delay_s = min(RETRY_MAX_S, delay_s * 2)

    async def _one_connection(self) -> AsyncIterator[Message]:
        self._leaving.clear()
        connection = self._connection = await self._connect()
        await connection.send_command(
            "SSUBSCRIBE", *self._stops, *self._channels, check_health=False
        )
        pinger = asyncio.create_task(self._ping(connection), name="relay subscription ping")
        # Confirmations come in order: when the last of these has come, all have.
        due = len(self._stops) + len(self._channels)
        read = connection.read_response
        try:
            while True:
                reply = await read(disable_decoding=True, timeout=math.inf)
                self._heard = True
                kind = reply[0]
                if kind == b"smessage":
                    yield self._read(reply[1], reply[2])
                elif kind == b"ssubscribe":
                    for confirmed in self._confirms.get(reply[1], ()):
                        if not confirmed.done():
                            confirmed.set_result(None)
                    due -= 1
                    if due == 0:
                        yield Lost()
                elif kind == b"sunsubscribe":
                    if not self._leaving[reply[1]]:
                        # The node says it unasked: it has lost the slot to another one.
                        raise ConnectionError("the slot of a channel has moved")
                    self._leaving -= Counter({reply[1]: 1})
        finally:
            pinger.cancel()

    async def _ping(self, connection: AbstractConnection) -> None:
        """Ask now and then, and cut a connection that answers nothing: its reader then fails."""
        silent = 0
        with suppress(RedisError, OSError):
            while silent <= PINGS_UNANSWERED:
                self._heard = False
                await connection.send_command("PING", check_health=False)
                await asyncio.sleep(PING_S)
                silent = 0 if self._heard else silent + 1
            await connection.disconnect(nowait=True)

    def _read(self, channel: bytes, payload: bytes) -> Message:
        if channel in self._stops:
            response_id, _, reason = payload.decode().partition(" ")
            return Stopped(response_id, reason)
        response_id = channel[channel.rindex(b":") + 1 :].decode()
        if payload == b"gone":
            return Gone(response_id)
        head, *events = payload.split(b"\n")
        epoch, _, first_seq = head.partition(b" ")
        return Published(response_id, int(epoch), int(first_seq), events)

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(RedisError, OSError):
                await connection.disconnect(nowait=True)

    async def aclose(self) -> None:
        """For after whoever iterated `messages` has been cancelled."""
        self._closed = True
        await self._disconnect()
