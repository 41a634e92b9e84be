"""Commands of many tasks share one connection and one round trip at a time.

What arrives while a pipeline is on its way makes up the next one, so an idle process pays one round
trip per command and a busy one packs hundreds into it: awaited one by one a command costs redis-py
60 µs, in a pipeline 9 µs (measured, design §6). It also bounds connections: 400 answers that start
at once are one connection, not 400.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, Protocol

import hiredis
from redis.exceptions import (
    ConnectionError,
    MasterDownError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from relay.errors import StoreUnavailable

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

logger = logging.getLogger(__name__)

STUCK_S: Final = 0.5
"""A pipeline that is on its way for so long is not given what another server can answer as well."""
ROUND_TRIP_S: Final = 3.0
"""A pipeline that takes longer counts as lost: the server hangs or the network ate it."""
MAX_COMMANDS: Final = 512
"""Per pipeline, so that one slow reply does not hold thousands of others back."""

Command = Sequence[bytes | str | int | float]
Waiter = tuple[bytes, asyncio.Future[Any]]
DEMOTED: Final = (ReadOnlyError, MasterDownError)
"""What a server answers that is a replica now: the next connection finds the primary, after a
fail-over by name as well."""


class Carrier(Protocol):
    """A lane, or the lanes to all nodes of a cluster."""

    def send(self, command: Command) -> asyncio.Future[Any]: ...

    def queue(self, command: Command) -> asyncio.Future[Any]: ...

    async def flush(self) -> None: ...

    def everywhere(self, command: Command) -> list[asyncio.Future[Any]]:
        """To each server that takes writes."""

    async def aclose(self) -> None: ...


class Lane:
    """One connection and the queue before it. Belongs to one event loop.

    Args:
        connect: makes a new connection, to whoever is the right server by then.
    """

    def __init__(self, connect: Callable[[], Awaitable[AbstractConnection]]) -> None:
        self._connect = connect
        self._queue: list[Waiter] = []
        self._task: asyncio.Task[None] | None = None
        self._connection: AbstractConnection | None = None
        self._busy = False
        """A pipeline is on its way."""
        self._begun_s = 0.0
        self._closed = False

    def send(self, command: Command) -> asyncio.Future[Any]:
        """Queue a command. The future gives the reply as bytes, int, list or None.

        It raises `ResponseError` when the server refused this command, and `StoreUnavailable`
        when it is unknown whether the command arrived.
        """
        future = self.queue(command)
        self.go_on()
        return future

    def everywhere(self, command: Command) -> list[asyncio.Future[Any]]:
        return [self.send(command)]

    def queue(self, command: Command) -> asyncio.Future[Any]:
        """As `send`, but left for the `flush` that the caller awaits next."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_exception(StoreUnavailable("the store is closed"))
        else:
            packed = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]
            self._queue.append((packed, future))
        return future

    async def flush(self) -> None:
        """Carry one pipeline in the caller's own task, if none is on its way.

        For whoever waits for its reply anyway: handing it to a task and back is two turns of the
        event loop, a tenth of the time that a token takes from provider to viewer.
        """
        if not self._busy:
            try:
                await self._one_pipeline()
            finally:
                self.go_on()

    @property
    def stuck(self) -> bool:
        return self._busy and time.monotonic() - self._begun_s > STUCK_S

    def put(self, waiter: Waiter) -> None:
        """For a cluster, whose lanes hand commands on: as `queue`, with a future that is there."""
        self._queue.append(waiter)

    def go_on(self) -> None:
        """Carry what is queued, in a task of the lane's own."""
        if self._queue and not self._busy and (self._task is None or self._task.done()):
            # A context of its own: the task must not keep a request's context variables alive.
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name="relay lane", context=Context()
            )

    async def _run(self) -> None:
        while self._queue and not self._busy:
            await self._one_pipeline()

    async def _one_pipeline(self) -> None:
        batch, self._queue = self._queue[:MAX_COMMANDS], self._queue[MAX_COMMANDS:]
        self._busy, self._begun_s = True, time.monotonic()
        try:
            await self._round_trip(batch)
        except (RedisError, OSError, TimeoutError) as error:
            await self._drop_connection()
            self._fail(batch, str(error) or "time-out")
        except BaseException:
            # Cancelled in the middle: replies may still come, so this connection serves nobody.
            self._fail(batch, "cancelled")
            await self._drop_connection()
            raise
        finally:
            self._busy = False

    def _fail(self, batch: list[Waiter], why: str) -> None:
        failure = StoreUnavailable(f"the store did not answer: {why}")
        for _, future in batch:
            if not future.done():
                future.set_exception(failure)
                future.exception()  # its waiter may be gone: no complaint about that

    async def _round_trip(self, batch: list[Waiter]) -> None:
        data = b"".join([packed for packed, _ in batch])
        fresh = self._connection is None
        try:
            async with asyncio.timeout(ROUND_TRIP_S):
                await self._exchange(data, batch)
        except (RedisError, OSError):
            # A pooled connection may have died while it was idle (a restarted server). All commands
            # may be repeated, so a second try on a new connection is safe.
            if fresh:
                raise
            await self._drop_connection()
            rest = [waiter for waiter in batch if not waiter[1].done()]
            async with asyncio.timeout(ROUND_TRIP_S):
                await self._exchange(b"".join([packed for packed, _ in rest]), rest)

    async def _exchange(self, data: bytes, batch: list[Waiter]) -> None:
        connection = self._connection
        fresh = connection is None
        if connection is None:
            connection = self._connection = await self._connect()
        await connection.send_packed_command([data], check_health=False)
        read = connection.read_response
        demoted = False
        for packed, future in batch:
            try:
                reply = await read(disable_decoding=True)
            except ResponseError as error:
                if isinstance(error, DEMOTED):
                    if not fresh:
                        raise ConnectionError("it is no primary any more") from error
                    demoted = True
                self._refused((packed, future), error)
            else:
                if not future.done():
                    future.set_result(reply)
        if demoted:
            await self._drop_connection()

    def _refused(self, waiter: Waiter, error: ResponseError) -> None:
        _, future = waiter
        if not future.done():
            future.set_exception(error)
            future.exception()

    async def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(RedisError, OSError):
                await connection.disconnect(nowait=True)

    async def aclose(self) -> None:
        self._closed = True
        if self._task is not None and not self._task.done():
            with suppress(asyncio.CancelledError):
                await self._task
        await self._drop_connection()
