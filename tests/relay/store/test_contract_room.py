"""PROTOCOL 3.6: what a store without room refuses, and that it says so before any write."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from relay.errors import StoreRefused
from relay.store import MemoryStore, Reservation, Reserved
from relay.store.protocol import Appended
from tests.relay.store.words import text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.relay.store.ground import Ground

DAY = "2026-01-31"


@asynccontextmanager
async def full(ground: Ground) -> AsyncIterator[None]:
    """Its memory is used up."""
    if isinstance(ground.store, MemoryStore):
        ground.store.faults.full = True
        yield
        ground.store.faults.full = False
        return
    assert ground.client is not None
    await ground.client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        await ground.client.config_set("maxmemory", 0)


def a_reservation(until_ms: int) -> Reservation:
    return Reservation(response_id="r1", day=DAY, until_ms=until_ms, max_running=1)


async def test_there_is_room(ground: Ground) -> None:
    await ground.store.room()


async def test_a_full_store_says_so_before_anything_is_written(ground: Ground) -> None:
    fresh = await ground.request("resp_0_" + "0" * 32)
    until_ms = await ground.now_ms() + 60_000
    async with full(ground):
        for store in (ground.store, ground.second):
            with pytest.raises(StoreRefused):
                await store.room()
            with pytest.raises(StoreRefused):
                await store.quotas.reserve("1", a_reservation(until_ms))
            with pytest.raises(StoreRefused):
                await store.create(fresh, upstream_model="small")
    assert await ground.store.read(fresh.response_id, after=0) is None


async def test_a_full_store_lets_what_runs_end(ground: Ground) -> None:
    lease = await ground.run()
    async with full(ground):
        assert (await ground.append(lease, 3, text("more"))).outcome is Appended.FULL
        assert (await ground.close(lease, 3)).outcome is Appended.OK
        assert await ground.store.ack(lease.job)
    assert await ground.types(lease.response_id) == ["created", "started", "ended"]


async def test_room_that_came_back_is_found(ground: Ground) -> None:
    async with full(ground):
        with pytest.raises(StoreRefused):
            await ground.hasty.room()
    # Another process: what this one saw of the memory may be two seconds old.
    await ground.second.room()
    until_ms = await ground.now_ms() + 60_000
    grant = await ground.second.quotas.reserve("1", a_reservation(until_ms))
    assert grant.outcome is Reserved.UNKNOWN  # asked of an empty day: it answers
