"""PROTOCOL 10 with real processes: a server that restarts empty, and a replica that was behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.process.chaos.proxy import Proxy
from tests.process.test_deaths import viewing
from tests.site import Site, ask, until_status
from tests.valkey import PrivateValkey
from tests.waiting import wait_until

pytestmark = pytest.mark.process

WORDS = 400
LOST_EVENTS = 50
# Above what a fail-over takes on a busy machine, as README asks for.
ENV = {"RELAY_LEASE_S": "6"}


async def test_a_server_restarted_empty_in_mid_answer_is_told_everything_again(
    tmp_path: Path,
) -> None:
    async with Site(tmp_path, workers=1, env=ENV) as site, site.client() as client:
        rid = await ask(client, f"say:{WORDS} every:20")
        async with viewing(client, rid) as (reader, connection):
            await wait_until(lambda: reader.cursor > LOST_EVENTS, "some text")
            shown = reader.cursor
            site.valkey.kill()
            site.valkey.start()
            await asyncio.wait_for(connection, 40)
        body = await until_status(client, rid, "completed", timeout=20)
        reader.check_whole(body["text"])
        assert len(body["text"].split()) == WORDS
        assert len(await site.stats()) == 1, "nothing was generated twice"
        print(f"{shown} events lost and restored, {reader.snapshots} snapshots")
        # The new server is a server like any other: nobody waits for a lease.
        again = await ask(client, "say:3")
        await until_status(client, again, "completed", timeout=5)


@asynccontextmanager
async def replicated(tmp_path: Path) -> AsyncIterator[tuple[Site, Proxy, PrivateValkey]]:
    """A site behind a proxy, with a replica that has all that its server has."""
    site = Site(tmp_path, workers=1, env=ENV)
    replica = PrivateValkey()
    try:
        async with Proxy(site.valkey.port, seed=0) as proxy:
            site.env["REDIS_URL"] = f"redis://127.0.0.1:{proxy.port}/0"
            async with site:
                site.valkey.ask("CONFIG", "SET", "repl-diskless-sync-delay", "0")
                replica.start().follow(site.valkey)
                await wait_until(
                    lambda: replica.ask("INFO", "replication")["master_link_status"] == "up",
                    "the replica to have everything",
                    timeout=20,
                )
                yield site, proxy, replica
    finally:
        replica.close()


def fail_over(site: Site, proxy: Proxy, replica: PrivateValkey) -> None:
    proxy.turn(replica.port)
    site.valkey.kill()


async def test_a_replica_without_the_last_events_is_told_them_again(tmp_path: Path) -> None:
    async with replicated(tmp_path) as (site, proxy, replica), site.client() as client:
        rid = await ask(client, f"say:{WORDS} every:20")
        async with viewing(client, rid) as (reader, connection):
            await wait_until(lambda: reader.cursor > LOST_EVENTS, "some text")
            replica.stop_following()
            behind = int(replica.ask("XLEN", f"relay:{{0}}:{rid}:log"))
            await wait_until(
                lambda: reader.cursor >= behind + LOST_EVENTS, "text that the replica has not"
            )
            lost = reader.cursor - behind
            fail_over(site, proxy, replica)
            await asyncio.wait_for(connection, 40)
        body = await until_status(client, rid, "completed", timeout=20)
        reader.check_whole(body["text"])
        assert len(body["text"].split()) == WORDS
        assert len(await site.stats()) == 1, "nothing was generated twice"
        print(f"{lost} events lost and sent again, {reader.snapshots} snapshots")


async def test_a_tail_and_its_writer_lost_together_end_as_interrupted(tmp_path: Path) -> None:
    """What cannot be had: the text so far is what the server has; nothing is mixed."""
    async with replicated(tmp_path) as (site, proxy, replica), site.client() as client:
        rid = await ask(client, f"say:{WORDS} every:20")
        async with viewing(client, rid) as (reader, connection):
            await wait_until(lambda: reader.cursor > LOST_EVENTS, "some text")
            replica.stop_following()
            behind = int(replica.ask("XLEN", f"relay:{{0}}:{rid}:log"))
            await wait_until(
                lambda: reader.cursor >= behind + LOST_EVENTS, "text that the replica has not"
            )
            shown = reader.text
            site.workers[0].kill()
            fail_over(site, proxy, replica)
            site.start_worker()
            await asyncio.wait_for(connection, 60)
        assert reader.ended is not None
        assert (reader.ended["status"], reader.ended["reason"]) == ("interrupted", "worker_lost")
        assert reader.snapshots > 0, "what was shown and is lost is replaced, not added to"
        body = await until_status(client, rid, "interrupted")
        reader.check_whole(body["text"])
        assert shown.startswith(body["text"])
        assert len(body["text"]) < len(shown)
        assert len(await site.stats()) == 1, "words that were shown are never generated twice"
