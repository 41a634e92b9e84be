"""The job streams: who gets which response to work on (PROTOCOL 2, 9).

New jobs come from a blocking read, on a connection of its own per shard and without a socket
time-out: redis-py takes a time-out there for a broken connection and retries for a minute.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import RedisError, ResponseError

from relay.errors import StoreUnavailable
from relay.store import keys
from relay.store.lane import ROUND_TRIP_S
from relay.store.protocol import Job

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from redis.asyncio.connection import AbstractConnection

    from relay.store.lane import Carrier, Command
    from relay.store.servers import Servers


FORGET_S: Final = 86_400.0
"""A worker that owes nothing and has not asked for a day is gone for good."""


class JobQueue:
    """One consumer group per shard; `lane` carries what does not block."""

    def __init__(
        self, servers: Servers, lane: Carrier, notice: Callable[[int], Awaitable[None]]
    ) -> None:
        self._servers = servers
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
            reply = await self._block((shard, worker), command, block_s)
        except ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise StoreUnavailable(f"take: {error}") from error
            await self._make_group(shard)
            return await self.take(shard, worker, count, block_s)
        return _jobs(shard, reply[0][1]) if reply else []

    async def _block(self, taker: tuple[int, str], command: Command, block_s: float) -> Any:
        shard = taker[0]
        connection = self._takers.pop(taker, None)
        try:
            # A server that was stopped, or whose host is gone, says nothing and closes nothing.
            async with asyncio.timeout(block_s + ROUND_TRIP_S):
                if connection is None:
                    # Maybe another server: known before anything is claimed (PROTOCOL 10).
                    await self._notice(shard)
                    connection = await self._servers.connect(keys.jobs(shard))
                    await self._forget_the_dead(shard)
                await connection.send_command(*command, check_health=False)
                reply = await connection.read_response(disable_decoding=True, timeout=math.inf)
        except ResponseError as error:
            if connection is not None and str(error).startswith("NOGROUP"):
                self._takers[taker] = connection
            else:  # such as READONLY, UNBLOCKED, MOVED: another server has the jobs now
                await _let_go(connection)
            raise
        except (RedisError, OSError) as error:
            await _let_go(connection)
            raise StoreUnavailable("the store did not hand out jobs") from error
        except BaseException:
            # The reply may still come: a connection in that state serves nobody else.
            await _let_go(connection)
            raise
        self._takers[taker] = connection
        return reply

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

    async def backlog(self, shard: int) -> tuple[int, int]:
        """Jobs that wait, and jobs in the hands of workers: what is acked is deleted."""
        asked = [
            self._lane.send(("XLEN", keys.jobs(shard))),
            self._lane.send(("XPENDING", keys.jobs(shard), keys.GROUP)),
        ]
        length, pending = await asyncio.gather(*asked, return_exceptions=True)
        if isinstance(length, BaseException):
            raise length
        if isinstance(pending, ResponseError):  # no group yet
            return length, 0
        if isinstance(pending, BaseException):
            raise pending
        return max(0, length - pending[0]), pending[0]

    async def aclose(self) -> None:
        for connection in self._takers.values():
            await _let_go(connection)
        self._takers.clear()


async def _let_go(connection: AbstractConnection | None) -> None:
    if connection is not None:
        with suppress(RedisError, OSError):
            await connection.disconnect(nowait=True)


def _jobs(shard: int, entries: list[Any]) -> list[Job]:
    # An entry deleted since it was pending comes without fields.
    return [Job(shard, entry[0].decode(), entry[1][1].decode()) for entry in entries if entry[1]]
