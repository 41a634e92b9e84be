"""A cluster: which node serves which slot, learned from any node that answers.

The map is read when it is first needed, and again whenever a connection is made or a node fails or
redirects: all of these are rare. Connections to a node that lost the slot they were made for are
cut.
redis-py's own cluster client is not used: it has no pipelines that many tasks share (lane.py).
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from redis.crc import key_slot
from redis.exceptions import ConnectionError, RedisError

from relay.store.cluster_lane import KEY_AT, ClusterLane
from relay.store.cluster_subscription import ClusterSubscription
from relay.store.servers import dial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.asyncio.connection import AbstractConnection

    from relay.store.address import Address, Host
    from relay.store.lane import Command

logger = logging.getLogger(__name__)

SLOTS: Final = 16384
ASK_S: Final = 0.7
"""For a node to say the map, connecting included; then another one is asked."""
FRESH_S: Final = 0.1
"""A map that was read a moment ago is not read again: after a failure many ask at once."""


@lru_cache(maxsize=4096)
def slot_of(key: str) -> int:
    return int(key_slot(key.encode()))


class ClusterServers:
    """Implements `Servers`. Belongs to the event loop that first uses it."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._owners: list[Host | None] = [None] * SLOTS
        self._known: list[Host] = list(address.hosts)
        """Whom to ask for the map; who answered last comes first."""
        self._read_s = -FRESH_S
        self._reading = asyncio.Lock()
        self._made: WeakKeyDictionary[AbstractConnection, tuple[int, Host]] = WeakKeyDictionary()

    def __repr__(self) -> str:
        nodes = sorted({f"{node[0]}:{node[1]}" for node in self._owners if node})
        return f"<ClusterServers {' '.join(nodes) or self._address.hosts}>"

    def lane(self) -> ClusterLane:
        return ClusterLane(self)

    def subscription(self, shards: Sequence[int]) -> ClusterSubscription:
        return ClusterSubscription(self.connect, shards)

    def slot(self, command: Command) -> int | None:
        """Of the command's first key; None for one that has none."""
        at = KEY_AT.get(str(command[0]), 1)
        if len(command) <= at or command[0] == "INFO":
            return None
        return slot_of(str(command[at]))

    def primaries(self) -> list[Host]:
        """As far as they are known by now."""
        return sorted({node for node in self._owners if node is not None})

    def owner(self, slot: int) -> Host | None:
        return self._owners[slot]

    def moved(self, slot: int, node: Host) -> None:
        """A node said so. The rest of the map is as old as it was."""
        self._owners[slot] = node
        if node not in self._known:
            self._known.append(node)

    async def connect(self, key: str) -> AbstractConnection:
        slot = slot_of(key)
        await self.read_map()
        node = self._owners[slot]
        if node is None:
            raise ConnectionError("no node of the cluster serves this slot")
        made = await self.connect_to(node)
        self._made[made] = (slot, node)
        return made

    async def connect_to(self, node: Host) -> AbstractConnection:
        return await dial(self._address, node)

    async def read_map(self) -> None:
        """Raises ConnectionError when no node tells it."""
        async with self._reading:
            if time.monotonic() - self._read_s < FRESH_S:
                return
            asked = self._known[:1] + random.sample(self._known[1:], len(self._known) - 1)
            for node in asked:
                try:
                    async with asyncio.timeout(ASK_S):
                        rows = await self._ask(node)
                except (RedisError, OSError) as error:
                    logger.info("%s:%d does not tell the cluster's map: %s", *node, error)
                else:
                    self._take(rows, node)
                    await self._cut()
                    return
            raise ConnectionError("no node of the cluster answers")

    async def _ask(self, node: Host) -> list[Any]:
        connection = await self.connect_to(node)
        try:
            await connection.send_command("CLUSTER", "SLOTS", check_health=False)
            rows: list[Any] = await connection.read_response(disable_decoding=True)
        finally:
            with suppress(RedisError, OSError):
                await connection.disconnect(nowait=True)
        if not rows:
            raise ConnectionError("it knows of no slots")
        return rows

    def _take(self, rows: list[Any], told_by: Host) -> None:
        owners: list[Host | None] = [None] * SLOTS
        known = {told_by: None}
        for first, last, *nodes in rows:
            # A node that does not know its own name leaves it out.
            hosts = [(name.decode() if name else told_by[0], port) for name, port, *_ in nodes]
            owners[first : last + 1] = [hosts[0]] * (last + 1 - first)
            known.update(dict.fromkeys(hosts))
        # Those of REDIS_URL stay: all that are known now may be replaced while nobody asks.
        self._known = list(known | dict.fromkeys(self._address.hosts))
        self._owners = owners
        self._read_s = time.monotonic()

    async def _cut(self) -> None:
        for connection, (slot, node) in list(self._made.items()):
            if self._owners[slot] != node:
                del self._made[connection]
                with suppress(RedisError, OSError):
                    await connection.disconnect(nowait=True)

    async def aclose(self) -> None:
        """Nothing is kept open here."""
