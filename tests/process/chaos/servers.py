"""The store of a run: one Valkey behind a proxy, or two with Sentinels that watch them.

Sentinels and replicas know the servers by their proxies, as everybody does, so a network that is
slow or cut is so for all of them. Sentinels themselves wait for a minute before they replace a
silent primary: only the fault that is a fail-over is to be one.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from tests.process.chaos.proxy import Proxy
from tests.valkey import PrivateValkey
from tests.valkey_sentinel import NAME, PrivateSentinels
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

LOOKS: Final = "chaos"
"""Name of our own connections."""
PATIENT_MS: Final = 60_000
REPLACED_S: Final = 20.0
"""For one Sentinel to find another primary; and for a server that came back to have all it says.
"""
STRANGER: Final = "nobody knows this password"


class Servers:
    """`await start()`; `primary` and `direct` are those of the moment; `await close()`."""

    def __init__(self, seed: int, *, sentinels: bool) -> None:
        self.proxies = [Proxy(0, seed + n) for n in range(2 if sentinels else 1)]
        self._trio: PrivateSentinels | None = None
        if sentinels:
            self._trio = PrivateSentinels(make=self._make, down_after_ms=PATIENT_MS)
            self._all = self._trio.servers
        else:
            self._all = self._make()
        self._now = 0
        self._clients: dict[int, Any] = {}
        """By port. Untyped: redis-py says `str or bytes`."""
        self.fail_overs = 0

    def _make(self) -> list[PrivateValkey]:
        made = [PrivateValkey(persist=True, known_port=proxy.port) for proxy in self.proxies]
        for server, proxy in zip(made, self.proxies, strict=True):
            proxy.aim(server.port)
        return made

    @property
    def url(self) -> str:
        return self._trio.url if self._trio else f"redis://127.0.0.1:{self.proxies[0].port}/0"

    @property
    def primary(self) -> PrivateValkey:
        return self._all[self._now]

    @property
    def direct(self) -> Any:
        """To the primary, past its proxy: for looking and for breaking."""
        return self._client(self.primary)

    @property
    def directs(self) -> Sequence[Any]:
        return [self._client(server) for server in self._all]

    def _client(self, server: PrivateValkey) -> Any:
        client = self._clients.get(server.port)
        if client is None:
            client = self._clients[server.port] = redis.Redis(
                port=server.port,
                decode_responses=True,
                client_name=LOOKS,
                socket_timeout=5,
                retry=Retry(NoBackoff(), 0),
            )
        return client

    async def start(self) -> None:
        for proxy in self.proxies:
            await proxy.__aenter__()
        if self._trio is not None:
            # In a thread: the Sentinels look through proxies that this event loop serves.
            await asyncio.to_thread(self._trio.__enter__)
            self._all = self._trio.servers  # others than before, if a port was taken
        else:
            self.primary.start()

    async def close(self) -> None:
        for proxy in self.proxies:
            await proxy.__aexit__(None, None, None)
        for client in self._clients.values():
            await client.aclose()
        if self._trio is not None:
            self._trio.close()
        for server in self._all:
            server.close()

    # -- faults -----------------------------------------------------------------------------------
    def slow(self, delay_s: float) -> None:
        for proxy in self.proxies:
            proxy.delay_s = delay_s

    def cut_soon(self) -> None:
        for proxy in self.proxies:
            proxy.cut_soon()

    def heal(self) -> None:
        for proxy in self.proxies:
            proxy.heal()

    async def fail_over(self, lost_s: float, *, killed: bool) -> None:
        """The primary goes without having told its replica of the last `lost_s` seconds.

        Args:
            killed: else it is paused, and takes writes from its wakening until it is told.
        """
        assert self._trio is not None
        old, new = self.primary, self._all[1 - self._now]
        if not await self._seen(lambda: self._follows(new)):
            return
        await self._part(old, new)
        await asyncio.sleep(lost_s)
        old.kill() if killed else old.pause()
        replaced = await self._seen(lambda: self._replaced(old))
        if replaced:
            self._now, self.fail_overs = 1 - self._now, self.fail_overs + 1
        await asyncio.to_thread(old.start) if killed else old.resume()
        with suppress(RedisError):
            await self._client(new).config_set("masterauth", "")
            follower, leader = (old, new) if replaced else (new, old)
            await asyncio.to_thread(follower.follow, leader)
        await self._seen(lambda: self._follows(self._all[1 - self._now]))

    async def _part(self, old: PrivateValkey, new: PrivateValkey) -> None:
        """The replica is cut off, and not let in again: what was on its way is lost to it."""
        with suppress(RedisError):
            await self._client(new).config_set("masterauth", STRANGER)
            await self._client(old).execute_command("CLIENT", "KILL", "TYPE", "replica")

    async def _follows(self, server: PrivateValkey) -> bool:
        with suppress(RedisError):
            said: Any = await self._client(server).info("replication")
            return bool(said.get("master_link_status") == "up")
        return False

    async def _replaced(self, old: PrivateValkey) -> bool:
        """An operator's fail-over, asked for until it is done: Sentinels of their own accord take
        longer than a lease of these runs."""
        assert self._trio is not None
        first = self._trio.ports[0]
        with suppress(RedisError):  # under way already, or the replica is not known to be well
            await asyncio.to_thread(self._trio.ask, first, "SENTINEL", "FAILOVER", NAME)
        with suppress(RedisError, StopIteration):
            now = await asyncio.to_thread(self._trio.primary)
            return now is not old and (await self._client(now).role())[0] == "master"
        return False

    async def _seen(self, looks: Callable[[], Awaitable[bool]]) -> bool:
        with suppress(AssertionError):
            await wait_until(looks, "the servers to change places", timeout=REPLACED_S)
            return True
        return False
