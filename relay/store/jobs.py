"""The job streams: who gets which response to work on (PROTOCOL 2, 9).

New jobs come from a blocking read, on a connection of its own per shard and without a socket
time-out: redis-py takes a time-out there for a broken connection and retries for a minute.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import RedisError, ResponseError

from relay.errors import StoreUnavailable
from relay.store import keys
from relay.store.lane import connect
from relay.store.protocol import Job

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from redis.asyncio.connection import AbstractConnection, ConnectionPool

    from relay.store.lane import Command, Lane


FORGET_S: Final = 86_400.0
"""A worker that owes nothing and has not asked for a day is gone for good."""


class JobQueue:
    """One consumer group per shard; `lane` carries what does not block."""

    def __init__(
        self, pool: ConnectionPool, lane: Lane, notice: Callable[[int], Awaitable[None]]
    ) -> None:
        self._pool = pool
        self._lane = lane
        self._notice = notice
        self._takers: dict[tuple[int, str], AbstractConnection] = {}

    async def take(self, shard: int, worker: str, count: int, block_s: float) -> list[Job]:
        if count < 1:  # COUNT 0 would mean all of them
            return []
        who: Command = ("XREADGROUP", "GROUP", keys.GROUP, worker, "COUNT", count)
        block_ms = max(1, round(block_s * 1000))
        command = (*who, "BLOCK", block_ms, "STREAMS", keys.jobs(shard), ">")
        try:
            reply = await self._block((shard, worker), command)
        except ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise StoreUnavailable(f"take: {error}") from error
            await self._make_group(shard)
            return await self.take(shard, worker, count, block_s)
        return _jobs(shard, reply[0][1]) if reply else []

    async def _block(self, taker: tuple[int, str], command: Command) -> Any:
        connection = self._takers.get(taker)
        try:
            if connection is None:
                # It may be another server: known before anything of it is claimed (PROTOCOL 10).
                await self._notice(taker[0])
                connection = self._takers[taker] = await connect(self._pool)
                await self._forget_the_dead(taker[0])
            await connection.send_command(*command, check_health=False)
            return await connection.read_response(disable_decoding=True, timeout=math.inf)
        except ResponseError:
            raise
        except (RedisError, OSError) as error:
            self._takers.pop(taker, None)
            raise StoreUnavailable("the store did not hand out jobs") from error
        except asyncio.CancelledError:
            # The reply may still come: a connection in that state serves nobody else.
            self._takers.pop(taker, None)
            if connection is not None:
                await connection.disconnect(nowait=True)
            raise

    async def _forget_the_dead(self, shard: int) -> None:
        """Every start of a worker is a new name in the group; without this they pile up."""
        for name, pending, idle_ms in await self._consumers(shard):
            if not pending and idle_ms > FORGET_S * 1000:
                await self._lane.send(("XGROUP", "DELCONSUMER", keys.jobs(shard), keys.GROUP, name))

    async def _consumers(self, shard: int) -> list[tuple[bytes, int, int]]:
        """(name, jobs it has not acked, ms since it last asked) of each worker there ever was."""
        try:
            rows = await self._lane.send(("XINFO", "CONSUMERS", keys.jobs(shard), keys.GROUP))
        except ResponseError:  # no stream or no group yet
            return []
        facts = [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]
        return [(fact[b"name"], fact[b"pending"], fact[b"idle"]) for fact in facts]

    async def _make_group(self, shard: int) -> None:
        try:
            command = ("XGROUP", "CREATE", keys.jobs(shard), keys.GROUP, "0", "MKSTREAM")
            await self._lane.send(command)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise StoreUnavailable(f"take: {error}") from error

    async def reclaim(self, shard: int, worker: str, count: int, idle_s: float) -> list[Job]:
        command = ("XAUTOCLAIM", keys.jobs(shard), keys.GROUP, worker, round(idle_s * 1000))
        jobs: list[Job] = []
        cursor: bytes | None = b"0-0"
        # One call looks at 10 * COUNT entries only: behind more live jobs a dead one stays unseen.
        while cursor is not None and len(jobs) < count:
            try:
                reply = await self._lane.send((*command, cursor, "COUNT", count - len(jobs)))
            except ResponseError as error:
                if str(error).startswith("NOGROUP"):
                    return []
                raise StoreUnavailable(f"reclaim: {error}") from error
            cursor = reply[0] if reply[0] != b"0-0" else None
            jobs += _jobs(shard, reply[1])
        return jobs

    async def workers(self, shard: int, within_s: float) -> int:
        consumers = await self._consumers(shard)
        return sum(1 for _, _, idle_ms in consumers if idle_ms <= within_s * 1000)

    async def aclose(self) -> None:
        for connection in self._takers.values():
            await connection.disconnect(nowait=True)
        self._takers.clear()


def _jobs(shard: int, entries: list[Any]) -> list[Job]:
    # An entry deleted since it was pending comes without fields.
    return [Job(shard, entry[0].decode(), entry[1][1].decode()) for entry in entries if entry[1]]
