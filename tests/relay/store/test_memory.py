"""What only the memory store has: a clock and faults that a test may set, and bounds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from relay.config import RelayConfig
from relay.errors import ProtocolViolation, StoreUnavailable
from relay.store import Gone, Lost, MemoryStore, Published, Stopped
from relay.store.memory_channel import MAX_WAITING
from relay.store.protocol import Appended
from tests.relay.store.ground import Ground, open_ground
from tests.relay.store.listener import listening
from tests.relay.store.words import CANCELLED, NOTICE, batch, leased, text, texts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def ground() -> AsyncIterator[Ground]:
    async with open_ground("memory", "", RelayConfig()) as ground:
        yield ground


@pytest.fixture
def store(ground: Ground) -> MemoryStore:
    assert isinstance(ground.store, MemoryStore)
    return ground.store


async def test_a_lost_request_has_no_effect_and_may_be_sent_again(
    ground: Ground, store: MemoryStore
) -> None:
    lease = await ground.run()
    store.faults.fail("close")
    with pytest.raises(StoreUnavailable):
        await ground.close(lease, 3)
    assert await ground.types(lease.response_id) == ["created", "started"]
    assert (await ground.close(lease, 3)).outcome is Appended.OK


async def test_a_call_whose_reply_is_lost_has_happened(ground: Ground, store: MemoryStore) -> None:
    lease = await ground.run()
    store.faults.fail("close", happened=True)
    with pytest.raises(StoreUnavailable):
        await ground.close(lease, 3)
    assert (await ground.close(lease, 3)).outcome is Appended.CLOSED


async def test_a_call_fails_as_often_as_ordered(ground: Ground, store: MemoryStore) -> None:
    rid = await ground.create()
    store.faults.fail("read", times=2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await store.read(rid, after=0)
    assert await store.read(rid, after=0) is not None
    await store.ping()


async def test_a_lost_append_answers_each_batch_with_the_error(
    ground: Ground, store: MemoryStore
) -> None:
    lease = await ground.run()
    store.faults.fail("append", happened=True)
    batches = [batch(lease, 3, *texts(2)), batch(lease, 5, text("z"))]
    answers = await store.append(batches)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 2
    assert len(await ground.texts(lease.response_id)) == 3


async def test_a_dropped_message_reaches_nobody_and_the_log_still_has_it(
    ground: Ground, store: MemoryStore
) -> None:
    lease = await ground.run()
    async with listening(store) as one, listening(store) as other:
        for listener in (one, other):
            await listener.add(lease.response_id)
        store.faults.drop(nth=2)
        for seq in (3, 4, 5):
            await ground.append(lease, seq, text(str(seq)))
        lines = await ground.lines(lease.response_id)
        for listener in (one, other):
            await listener.hears_lines(lease.response_id, [lines[2], lines[4]])


async def test_faults_choose_the_kind_of_message_they_drop(
    ground: Ground, store: MemoryStore
) -> None:
    lease = await ground.run()
    async with listening(store) as listener:
        await listener.add(lease.response_id)
        store.faults.drop(Stopped)
        store.faults.drop(Gone)
        await store.cancel(lease.response_id, "user", ended=CANCELLED)
        await ground.append(lease, 3, NOTICE)
        await store.retire(lease.response_id)
        await store.retire(lease.response_id)
        await listener.hears(Gone(lease.response_id))
    assert [type(message) for message in listener.messages] == [Published, Gone]


async def test_a_broken_subscription_loses_what_waited_in_it(
    ground: Ground, store: MemoryStore
) -> None:
    lease = await ground.run()
    subscription = await store.subscribe([0])
    await subscription.add(lease.response_id)
    await ground.append(lease, 3, text("lost"))
    store.lose_subscriptions()
    await ground.append(lease, 4, text("heard"))
    messages = subscription.messages()
    assert await anext(messages) == Lost()
    lines = await ground.lines(lease.response_id)
    assert await anext(messages) == Published(lease.response_id, lease.epoch, 4, lines[3:])
    await subscription.aclose()
    assert [message async for message in messages] == []


async def test_a_subscriber_that_stalls_is_told_so_instead_of_filling_memory(
    ground: Ground, store: MemoryStore
) -> None:
    rid = await ground.create()
    subscription = await store.subscribe([0])
    await subscription.add(rid)
    for _ in range(MAX_WAITING + 1):
        await store.retire(rid)
    messages = subscription.messages()
    assert await anext(messages) == Lost()
    await store.retire(rid)
    assert await anext(messages) == Gone(rid)


async def test_an_epoch_rises_though_the_clock_was_set_back(ground: Ground) -> None:
    """PROTOCOL 2: max(old + 1, now)."""
    lease = await ground.run()
    await ground.store.release(lease)
    assert ground.clock is not None
    ground.clock.now_s -= 3600
    (job,) = await ground.store.take(0, "b", 1, 0)
    assert leased(await ground.claim(job)).epoch == lease.epoch + 2, "a release raises it, too"


async def test_every_call_lets_others_run(ground: Ground, store: MemoryStore) -> None:
    """Like a request and a reply on a wire: twice."""
    rid = await ground.create()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await store.tails([rid])
    counting.cancel()
    assert turns >= 2


async def test_logs_that_nobody_asks_for_again_are_forgotten(ground: Ground) -> None:
    """A process that lives for months must not keep every answer."""
    for _ in range(3):
        lease = await ground.run()
        await ground.close(lease, 3)
        await ground.store.ack(lease.job)
    assert repr(ground.store).startswith("<MemoryStore of 3 logs")
    await ground.pass_s(ground.config.retention_s)
    await ground.create()
    assert repr(ground.store).startswith("<MemoryStore of 1 logs")


async def test_only_an_end_ends(ground: Ground, store: MemoryStore) -> None:
    rid = await ground.create()
    with pytest.raises(ProtocolViolation):
        await store.cancel(rid, "user", ended=b'{"type":"notice","seq":0,"code":"","message":""}')
    assert await ground.types(rid) == ["created"]
