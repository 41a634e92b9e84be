"""A lane to each node of a cluster, and commands put on the one that serves their slot.

Batching is per node, as it is for one server. What a node hands on (MOVED, ASK) is sent again here;
what it cannot do just now (CLUSTERDOWN, or a node that is away) is an outage of the store, for the
keys of that node alone.
"""

from __future__ import annotations

import asyncio
import random
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import hiredis
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from relay.errors import StoreUnavailable
from relay.store.lane import Lane, Waiter

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from relay.store.address import Host
    from relay.store.cluster import ClusterServers
    from relay.store.lane import Command

HOPS: Final = 30
"""Of one command from node to node, and waits for a slot that is half moved: about three seconds.
"""
HALF_MOVED_S: Final = 0.1
ASKING: Final = hiredis.pack_command(("ASKING",))
KEY_AT: Final = {"EVALSHA": 3, "EVAL": 3, "XINFO": 2, "XGROUP": 2}
"""Where the first key is; 1 for all others that the store sends on a lane."""


class ClusterLane:
    """Implements `Carrier`. Belongs to one event loop."""

    def __init__(self, servers: ClusterServers) -> None:
        self._servers = servers
        self._lanes: dict[Host, _NodeLane] = {}
        self._unplaced: list[tuple[int, Waiter]] = []
        """Waiting for a map that says whose they are."""
        self._hops: dict[asyncio.Future[Any], int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def send(self, command: Command) -> asyncio.Future[Any]:
        future = self.queue(command)
        for lane in self._lanes.values():
            lane.go_on()
        return future

    def queue(self, command: Command) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_exception(StoreUnavailable("the store is closed"))
            return future
        packed = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]
        slot = self._servers.slot(command)
        node = self._servers.owner(slot) if slot is not None else self._any_node()
        if node is None:
            self._unplaced.append((slot or 0, (packed, future)))
            if len(self._unplaced) == 1:
                self._spawn(self._place())
        else:
            self._lane(node).put((packed, future))
        return future

    def everywhere(self, command: Command) -> list[asyncio.Future[Any]]:
        packed = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]
        nodes = self._servers.primaries()
        if not nodes:
            return [self.send(command)]
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Any]] = [loop.create_future() for _ in nodes]
        for node, future in zip(nodes, futures, strict=True):
            self._put(node, (packed, future))
        return futures

    async def flush(self) -> None:
        # Each lane in a task of its own: a node that hangs holds nobody back but its own.
        for lane in self._lanes.values():
            lane.go_on()

    def _any_node(self) -> Host | None:
        """For what has no key: one that does not hang, if there is one."""
        nodes = self._servers.primaries()
        well = [node for node in nodes if node not in self._lanes or not self._lanes[node].stuck]
        return random.choice(well or nodes) if nodes else None  # noqa: S311 - any will do

    def _lane(self, node: Host) -> _NodeLane:
        lane = self._lanes.get(node)
        if lane is None:
            lane = self._lanes[node] = _NodeLane(self, self._servers, node)
        return lane

    async def _place(self) -> None:
        why = "no node of the cluster serves this slot"
        try:
            await self._servers.read_map()
        except (RedisError, OSError) as error:
            why = str(error)
        unplaced, self._unplaced = self._unplaced, []
        for slot, waiter in unplaced:
            node = self._servers.owner(slot)
            if node is None:
                _fail(waiter, why)
            else:
                self._put(node, waiter)

    def _put(self, node: Host, *waiters: Waiter) -> None:
        lane = self._lane(node)
        for waiter in waiters:
            lane.put(waiter)
        lane.go_on()

    # -- what the nodes say -----------------------------------------------------------------------
    def refused(self, node: Host, waiter: Waiter, error: ResponseError) -> bool:
        """True if this command is taken care of: another node will answer, or nobody can now."""
        future = waiter[1]
        match error:
            case ClusterDownError() | ReadOnlyError():  # MASTERDOWN is one, too
                self.doubt()
                _fail(waiter, str(error))
            case AskError() | TryAgainError() if future.done():
                pass
            case AskError() | TryAgainError() if not self._may_hop(future):
                _fail(waiter, f"the cluster sends it from node to node: {error}")
            case MovedError():  # an AskError to redis-py
                to = (error.host or node[0], error.port)
                self._servers.moved(error.slot_id, to)
                self.doubt()
                self._put(to, waiter)
            case AskError():
                asking: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                self._put((error.host or node[0], error.port), (ASKING, asking), waiter)
            case TryAgainError():
                loop = asyncio.get_running_loop()
                loop.call_later(HALF_MOVED_S, partial(self._put, node, waiter))
            case _:
                return False
        return True

    def _may_hop(self, future: asyncio.Future[Any]) -> bool:
        if future not in self._hops:
            future.add_done_callback(lambda done: self._hops.pop(done, None))
        self._hops[future] = self._hops.get(future, 0) + 1
        return self._hops[future] <= HOPS

    def doubt(self) -> None:
        """A node failed or redirects: read the map, in a task of its own, one at a time."""
        if not self._tasks and not self._closed:
            self._spawn(self._place())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(
            work, name="relay cluster map", context=Context()
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for _, waiter in self._unplaced:
            _fail(waiter, "the store is closed")
        for lane in self._lanes.values():
            await lane.aclose()


class _NodeLane(Lane):
    def __init__(self, cluster: ClusterLane, servers: ClusterServers, node: Host) -> None:
        super().__init__(partial(servers.connect_to, node))
        self._cluster = cluster
        self._node = node

    def _refused(self, waiter: Waiter, error: ResponseError) -> None:
        if not self._cluster.refused(self._node, waiter, error):
            super()._refused(waiter, error)

    def _fail(self, batch: list[Waiter], why: str) -> None:
        super()._fail(batch, why)
        self._cluster.doubt()


def _fail(waiter: Waiter, why: str) -> None:
    future = waiter[1]
    if not future.done():
        future.set_exception(StoreUnavailable(f"the store did not answer: {why}"))
        future.exception()
