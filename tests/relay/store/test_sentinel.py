"""A store that is told its primary by Sentinels: real ones, with a replica that takes over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from redis.exceptions import ReadOnlyError

from relay.config import RelayConfig
from relay.errors import StoreRefused, StoreUnavailable
from relay.events import TextDelta, decode_event
from relay.store import RedisStore, Reply, keys
from relay.store.protocol import Appended
from relay.store.servers import OneServer
from tests.relay.scribe import Scribe
from tests.relay.store.listener import listening
from tests.relay.store.words import batch, text
from tests.valkey import PrivateValkey
from tests.valkey_sentinel import PrivateSentinels
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = RelayConfig(lease_s=30.0)


@pytest.fixture
def trio() -> Iterator[PrivateSentinels]:
    with PrivateSentinels() as trio:
        yield trio


async def text_of(store: RedisStore, rid: str) -> str:
    page = await store.read(rid, after=0)
    assert page is not None
    events = [decode_event(line) for line in page.events]
    return "".join(event.delta for event in events if isinstance(event, TextDelta))


async def said(scribe: Scribe, delta: str) -> None:
    """Say it as a writer does: again, until somebody confirms."""

    assert scribe.lease is not None
    lease, seq = scribe.lease, scribe.seq + 1

    async def once() -> bool:
        (answer,) = await scribe.store.append([batch(lease, seq, text(delta))])
        if isinstance(answer, StoreUnavailable):
            return False
        assert isinstance(answer, Reply), answer
        assert answer.outcome is Appended.OK
        return True

    await wait_until(once, f"{delta!r} to be in the log", timeout=20)


@pytest.mark.parametrize("how", ["killed", "paused", "demoted"])
async def test_writer_viewer_and_worker_follow_the_primary(
    trio: PrivateSentinels, how: str
) -> None:
    store = RedisStore(trio.url, CONFIG)
    old = trio.primary()
    scribe, other = Scribe(store), Scribe(store)
    await scribe.begin()
    async with listening(store) as listener:
        await listener.add(scribe.rid)
        taking = asyncio.create_task(other.claim())  # asks and asks, as a worker does
        await scribe.say("before ")
        await wait_until(lambda: len(listener.events(scribe.rid)) == 1, "the first event")
        old.ask("WAIT", "1", "5000")
        if how == "demoted":
            trio.ask(trio.ports[0], "SENTINEL", "FAILOVER", "mymaster")
        else:
            old.kill() if how == "killed" else old.pause()
        await asyncio.to_thread(trio.until_replaced, old)
        if how == "demoted":  # until then it takes writes that it will lose (README)
            await wait_until(lambda: old.ask("ROLE")[0] == "slave", "it to be told", timeout=20)
        await said(scribe, "after")
        assert await text_of(store, scribe.rid) == "before after"
        # Pub/sub promises nothing, but a subscription that was made anew says so.
        await wait_until(
            lambda: len(listener.messages) > 1, "the viewers' connection to be another", timeout=20
        )
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await other.create()

        async def taken() -> bool:
            try:
                return bool(await store.take(0, "scribe", 9, 0.05))
            except StoreUnavailable:
                return False

        await wait_until(taken, "the new primary to hand out a job", timeout=20)
    await store.aclose()


async def test_an_idle_process_leaves_a_primary_that_was_replaced_before_it_writes_there(
    trio: PrivateSentinels,
) -> None:
    """It was paused, and takes writes again until a Sentinel tells it, seconds later."""
    store = RedisStore(trio.url, CONFIG)
    await store.ping()
    old = trio.primary()
    old.pause()
    new = await asyncio.to_thread(trio.until_replaced, old)
    await wait_until(lambda: str(new.port) in repr(store), "the process to hear of it", timeout=20)
    old.resume()
    scribe = Scribe(store)
    await scribe.create()
    assert int(new.ask("EXISTS", keys.log(scribe.rid))) == 1
    await store.aclose()


async def test_sentinels_that_are_away_are_passed_over(trio: PrivateSentinels) -> None:
    first = trio.url.index("127")
    store = RedisStore(trio.url[:first] + "127.0.0.1:1," + trio.url[first:], CONFIG)
    await store.ping()
    await store.aclose()


async def test_a_name_that_no_sentinel_knows_is_a_store_that_is_away(
    trio: PrivateSentinels,
) -> None:
    store = RedisStore(trio.url.replace("mymaster", "nobody"), CONFIG)
    with pytest.raises(StoreUnavailable):
        await store.ping()
    await store.aclose()


async def test_one_server_that_becomes_a_replica_is_a_lost_connection() -> None:
    """As behind a name that moves to another server: READONLY is no answer to a person."""
    server, other = PrivateValkey().start(), PrivateValkey().start()
    store, lane = RedisStore(server.url, CONFIG), OneServer(server.url).lane()
    scribe = Scribe(store)
    await scribe.begin()
    client_id = await lane.send(("CLIENT", "ID"))
    await store.take(0, "a", 1, 0.01)
    server.follow(other)
    with pytest.raises(ReadOnlyError):  # asked again on a new connection, it says the same
        await lane.send(("SET", "a", "b"))
    with pytest.raises(StoreUnavailable):
        await store.take(0, "a", 1, 0.01)
    with pytest.raises(StoreRefused):
        await Scribe(store).create()
    server.stop_following()
    assert await lane.send(("CLIENT", "ID")) > client_id, "on a new connection"
    assert await store.take(0, "a", 1, 0.01) == []
    await lane.aclose()
    await store.aclose()
    server.close()
    other.close()
