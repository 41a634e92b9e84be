"""PROTOCOL 5.3: pub/sub may lose anything; numbers and a look at the tails make it whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import redis.asyncio

from relay.follow import follow
from relay.hub import Hub
from relay.store import Message, Page, Published, RedisStore, Store
from tests.relay.lossy import LossyStore
from tests.relay.reader import Reader
from tests.relay.scribe import Scribe
from tests.waiting import wait_until

if TYPE_CHECKING:
    from relay.config import RelayConfig

WORDS = [f"{i} " for i in range(8)]
MESSAGES = len(WORDS) + 1
"""One per word and one for the end; the viewer is live before the first word."""


@asynccontextmanager
async def running(hub: Hub) -> AsyncIterator[Hub]:
    hub.start()
    try:
        yield hub
    finally:
        await hub.aclose()


async def watched(scribe: Scribe, hub: Hub, viewers: int = 2) -> list[Reader]:
    """Viewers that are live before the first word; the run; everybody's end within check_s + 1
    s."""
    await scribe.begin()
    readers = [Reader() for _ in range(viewers)]
    reading = [
        asyncio.create_task(reader.read(await follow(hub, scribe.rid))) for reader in readers
    ]
    await wait_until(lambda: all(r.cursor == 2 for r in readers), "all viewers to be live")
    for word in WORDS:
        await scribe.say(word)
    await scribe.end()
    async with asyncio.timeout(hub.config.check_s + 1):
        await asyncio.gather(*reading)
    return readers


@pytest.mark.parametrize("lost", range(MESSAGES))
async def test_any_single_message_may_be_lost(
    store: Store, scribe: Scribe, config: RelayConfig, lost: int
) -> None:
    seen = -1

    def drops(message: Message) -> bool:
        nonlocal seen
        if not isinstance(message, Published) or message.first_seq <= 2:
            return False
        seen += 1
        return seen == lost

    async with running(Hub(LossyStore(store, drops), config)) as hub:
        for reader in await watched(scribe, hub):
            reader.check_whole("".join(WORDS))
            assert reader.snapshots == 0
    assert seen == MESSAGES - 1


async def test_all_messages_may_be_lost(store: Store, scribe: Scribe, config: RelayConfig) -> None:
    async with running(
        Hub(LossyStore(store, lambda message: isinstance(message, Published)), config)
    ) as hub:
        for reader in await watched(scribe, hub):
            reader.check_whole("".join(WORDS))


async def test_a_killed_subscription_is_made_anew_and_nothing_is_missing(
    redis_url: str, config: RelayConfig
) -> None:
    """`CLIENT KILL TYPE pubsub` in mid-answer, twice."""
    store = RedisStore(redis_url, config)
    scribe = Scribe(store)
    async with (
        running(Hub(store, config)) as hub,
        redis.asyncio.Redis.from_url(redis_url) as client,
    ):
        await scribe.begin()
        reader = Reader()
        reading = asyncio.create_task(reader.read(await follow(hub, scribe.rid)))
        await wait_until(lambda: reader.cursor == 2, "the viewer to be live")
        for i, word in enumerate(WORDS):
            if i in (3, 6):
                assert await client.client_kill_filter(_type="pubsub") == 1
                if i == 3:
                    await scribe.say(word)
                    await wait_until(lambda: reader.cursor == scribe.seq, "the word after the kill")
                    continue
            await scribe.say(word)
        await scribe.end()
        async with asyncio.timeout(config.check_s + 1):
            await reading
        reader.check_whole("".join(WORDS))
    await store.aclose()


class SlowReads(LossyStore):
    """Pages are as old as they get: read at once, handed over when that is allowed."""

    reads = 0
    allowed: asyncio.Event

    async def read(self, response_id: str, **how: Any) -> Page | None:
        page = await self._inner.read(response_id, **how)
        self.reads += 1
        await self.allowed.wait()
        return page


async def test_what_comes_while_the_log_is_read_is_read_too(
    store: Store, scribe: Scribe, config: RelayConfig
) -> None:
    """A page that was made before a message, and handed over after it, is not the last word."""
    patient = replace(config, check_s=600.0)
    heard: list[int] = []

    def drops(message: Message) -> bool:
        if not isinstance(message, Published):
            return False
        heard.append(message.first_seq)
        return message.first_seq == 3

    slow = SlowReads(store, drops)
    slow.allowed = asyncio.Event()
    slow.allowed.set()
    async with running(Hub(slow, patient)) as hub:
        await scribe.begin()
        reader = Reader()
        reading = asyncio.create_task(reader.read(await follow(hub, scribe.rid)))
        await wait_until(lambda: reader.cursor == 2, "the viewer to be live")
        await scribe.say("lost ")
        await wait_until(lambda: 3 in heard, "the loss")
        slow.allowed.clear()
        before = slow.reads
        await scribe.say("noticed ")
        await wait_until(lambda: slow.reads > before, "the hub to read what it missed")
        await scribe.say("and more ")
        await scribe.end()
        await wait_until(lambda: 6 in heard, "the hub to hear the end")
        await asyncio.sleep(0)  # and what it makes of that
        slow.allowed.set()
        async with asyncio.timeout(20):
            await reading
        reader.check_whole("lost noticed and more ")
