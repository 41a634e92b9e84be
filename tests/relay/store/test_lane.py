"""What the lane promises: one connection, order kept, an outage told to everybody who waits."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio.connection import Connection
from redis.exceptions import ResponseError

from relay.errors import StoreUnavailable
from relay.store.address import read_address
from relay.store.lane import MAX_COMMANDS
from relay.store.servers import OneServer, dial
from tests.valkey import PrivateValkey
from tests.waiting import wait_until


async def test_commands_of_many_tasks_come_back_in_order_over_one_connection(
    redis_url: str,
) -> None:
    lane = OneServer(redis_url).lane()
    replies = await asyncio.gather(
        *(lane.send(("ECHO", str(i))) for i in range(3 * MAX_COMMANDS + 1))
    )
    assert replies == [str(i).encode() for i in range(3 * MAX_COMMANDS + 1)]
    clients = await lane.send(("CLIENT", "LIST"))
    mine = [line for line in clients.splitlines() if b"cmd=client|list" in line]
    assert len(mine) == 1
    await lane.aclose()


async def test_a_refused_command_fails_alone(redis_url: str) -> None:
    lane = OneServer(redis_url).lane()
    good, bad, after = (
        lane.send(("ECHO", "a")),
        lane.send(("NONSENSE",)),
        lane.send(("ECHO", "b")),
    )
    assert await good == b"a"
    with pytest.raises(ResponseError):
        await bad
    assert await after == b"b"
    await lane.aclose()


async def test_a_waiter_that_was_cancelled_harms_nobody(redis_url: str) -> None:
    lane = OneServer(redis_url).lane()
    impatient = lane.send(("ECHO", "a"))
    patient = lane.send(("ECHO", "b"))
    impatient.cancel()
    assert await patient == b"b"
    await lane.aclose()


async def test_an_idle_connection_that_died_is_replaced_unnoticed() -> None:
    server = PrivateValkey().start()
    lane = OneServer(server.url).lane()
    assert await lane.send(("PING",)) == b"PONG"
    server.kill()
    server.start()
    assert await lane.send(("PING",)) == b"PONG"
    await lane.aclose()
    server.close()


async def test_a_server_that_is_away_is_said_to_everybody_who_waits() -> None:
    server = PrivateValkey()
    lane = OneServer(server.url).lane()
    waiting = [lane.send(("PING",)) for _ in range(3)]
    for future in waiting:
        with pytest.raises(StoreUnavailable):
            await future
    server.start()
    assert await lane.send(("PING",)) == b"PONG"
    await lane.aclose()
    with pytest.raises(StoreUnavailable):
        await lane.send(("PING",))
    server.close()


@pytest.mark.parametrize("how", ["by its address", "found out"])
async def test_connecting_that_is_cancelled_half_way_leaves_no_socket(
    redis_url: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """redis-py closes what is cancelled in the handshake's reads and writes, not between them."""
    made: list[Connection] = []  # held, so that no destructor closes a socket for us

    async def hesitate(self: Connection, check_health: bool = True) -> None:
        made.append(self)
        await asyncio.Event().wait()

    monkeypatch.setattr(Connection, "on_connect_check_health", hesitate)
    address = read_address(redis_url)
    work = (
        OneServer(redis_url).connect("any")
        if how == "by its address"
        else dial(address, address.hosts[0])
    )
    connecting = asyncio.create_task(work)
    await wait_until(lambda: made, "the handshake to begin")
    assert made[0].is_connected
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert not made[0].is_connected
