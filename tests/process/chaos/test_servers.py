"""The fail-over that a run makes: it must lose something, and leave two servers behind."""

from __future__ import annotations

import asyncio

import pytest

from tests.process.chaos.servers import Servers
from tests.waiting import wait_until

# Beyond the sum of the waits within, which say what did not come.
pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "paused"])
async def test_a_fail_over_loses_the_tail_and_the_old_primary_follows(killed: bool) -> None:
    servers = Servers(1, sentinels=True)
    try:
        await servers.start()
        old, old_direct = servers.primary, servers.direct
        await old_direct.set("told", 1)
        await old_direct.wait(1, 0)
        changing = asyncio.create_task(servers.fail_over(1, killed=killed))

        async def alone() -> bool:
            return bool((await old_direct.info("replication"))["connected_slaves"] == 0)

        await wait_until(alone, "the replica to be cut off", timeout=20)
        await old_direct.set("not told", 1)
        await asyncio.wait_for(changing, 60)
        assert servers.primary is not old
        assert servers.fail_overs == 1
        assert await servers.direct.get("told") == "1"
        assert await servers.direct.get("not told") is None
        assert (await old_direct.role())[0] == "slave"
        assert await old_direct.get("not told") is None
    finally:
        await servers.close()


async def test_without_sentinels_there_is_one_server() -> None:
    servers = Servers(1, sentinels=False)
    try:
        await servers.start()
        assert servers.url.startswith("redis://")
        assert await servers.direct.ping()
    finally:
        await servers.close()
