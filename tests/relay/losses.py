"""What a server may lose, on either store: everything, or what a replica had not heard of."""

from __future__ import annotations

from typing import Any

import redis.asyncio

from relay.store import MemoryStore, Store, keys


async def lose_everything(store: Store, url: str) -> None:
    if isinstance(store, MemoryStore):
        store.lose_everything()
        return
    async with redis.asyncio.Redis.from_url(url) as client:
        await client.flushall()


async def replica_of(store: Store, url: str) -> Any:
    """What a replica has that hears nothing more from now on."""
    if isinstance(store, MemoryStore):
        return store.replica()
    async with redis.asyncio.Redis.from_url(url) as client:
        names = await client.keys()
        return {name: (await client.dump(name), await client.pttl(name)) for name in names}


async def promote(store: Store, url: str, replica: Any) -> None:
    """That replica is the server from now on, one of another name."""
    if isinstance(store, MemoryStore):
        store.promote(replica)
        return
    async with redis.asyncio.Redis.from_url(url) as client:
        cluster: Any = await client.info("cluster")  # whose nodes take a transaction of one slot
        pipeline = client.pipeline(transaction=not cluster["cluster_enabled"])
        pipeline.flushall()
        for name, (value, ttl_ms) in replica.items():
            pipeline.restore(name, max(0, ttl_ms), value)
        # A server cannot be given another name; that it had one before is the same to the scripts.
        pipeline.hset(keys.run(0), "id", "another")
        for name in replica:
            if b":used:" in name:
                pipeline.hset(name, "whole", "another")
        await pipeline.execute()
