"""Cursors and pages (PROTOCOL 4), and what a follower hears (PROTOCOL 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay.store.protocol import Gone, Lost, Page, Published, Tail
from tests.relay.store.listener import listening
from tests.relay.store.words import (
    CANCELLED,
    NOTICE,
    QUEUED_OVER,
    RUNNING_OVER,
    USAGE,
    leased,
    text,
    texts,
)

if TYPE_CHECKING:
    from relay.store import Store
    from tests.relay.store.ground import Ground

NOBODY = "resp_0_" + "0" * 32


async def page_of(store: Store, response_id: str, after: int, epoch: int | None = None) -> Page:
    page = await store.read(response_id, after=after, epoch=epoch)
    assert page is not None
    return page


async def test_what_has_no_log_has_no_page_and_no_tail(ground: Ground, store: Store) -> None:
    """PROTOCOL 4: the record answers then."""
    rid = await ground.create()
    assert await store.read(NOBODY, after=0) is None
    assert await store.tails([NOBODY, rid, NOBODY]) == [None, Tail(0, 1, ended=False), None]
    assert await store.tails([]) == []


@pytest.mark.parametrize("after", range(7))
async def test_a_reader_gets_exactly_what_follows_its_cursor(
    ground: Ground, store: Store, after: int
) -> None:
    """PROTOCOL 4"""
    lease = await ground.run()
    await ground.close(lease, 3, *texts(3))
    everything = await ground.lines(lease.response_id)
    page = await page_of(store, lease.response_id, after)
    assert page.valid
    assert (page.first_seq, page.events) == (after + 1, everything[after:])
    assert page.epochs == [0, *[lease.epoch] * 5][after:]
    assert page.tail == Tail(lease.epoch, 6, ended=True)


async def test_a_cursor_past_the_tail_is_not_valid(ground: Ground, store: Store) -> None:
    """PROTOCOL 4: the store lost its tail, or the client counts wrongly: it gets a snapshot."""
    lease = await ground.run()
    page = await page_of(store, lease.response_id, 3)
    assert (page.valid, page.events, page.epochs) == (False, [], [])
    assert page.tail == Tail(lease.epoch, 2, ended=False)


async def test_a_cursor_is_valid_only_under_the_epoch_of_its_entry(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 4: the same number in another history is another place."""
    first = await ground.run()
    await ground.append(first, 3, NOTICE)
    second = await ground.succeed(first)
    await ground.append(second, 5, *texts(2))
    rid = first.response_id
    epochs = [0, first.epoch, first.epoch, second.epoch, second.epoch, second.epoch]
    assert (await page_of(store, rid, 0)).epochs == epochs
    for seq, epoch in enumerate(epochs, start=1):
        page = await page_of(store, rid, seq, epoch)
        assert (page.valid, len(page.events)) == (True, 6 - seq)
        for other in {0, first.epoch, second.epoch, 1} - {epoch}:
            page = await page_of(store, rid, seq, other)
            assert (page.valid, page.events) == (False, [])
    assert not (await page_of(store, rid, 7, second.epoch)).valid


async def test_a_page_is_bounded_and_pages_join_to_the_whole_log(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 4: a reader of a long log holds one page of it."""
    lease = await ground.run()
    await ground.append(lease, 3, *texts(200))
    await ground.close(lease, 203)
    whole = await ground.lines(lease.response_id)
    largest = max(len(line) for line in whole)
    joined: list[bytes] = []
    epochs: list[int] = []
    while True:
        page = await store.read(lease.response_id, after=len(joined), max_bytes=1000)
        assert page is not None
        assert page.tail == Tail(lease.epoch, 203, ended=True)
        if not page.events:
            break
        assert sum(len(line) for line in page.events) <= 1000 + largest
        assert len(page.events) == len(page.epochs)
        joined += page.events
        epochs += page.epochs
    assert joined == whole
    assert epochs == [0] + [lease.epoch] * 202


async def test_an_event_larger_than_a_page_comes_alone(ground: Ground, store: Store) -> None:
    """PROTOCOL 4: at least one if there is one, or a reader would never get past it."""
    lease = await ground.run()
    await ground.append(lease, 3, text("a"), text("x" * 5000), text("b"))
    lines = await ground.lines(lease.response_id)
    page = await store.read(lease.response_id, after=3, max_bytes=100)
    assert page is not None
    assert page.events == lines[3:4]


async def test_a_page_of_many_epochs_names_the_epoch_of_each_event(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 4"""
    lease = await ground.run()
    expected = [0, lease.epoch]
    for _ in range(2):
        await ground.append(lease, len(expected) + 1, NOTICE, NOTICE)
        expected += [lease.epoch] * 2
        lease = await ground.succeed(lease)
        expected += [lease.epoch]
    assert (await page_of(store, lease.response_id, 0)).epochs == expected


async def test_a_follower_hears_every_event_from_the_moment_it_was_added(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 5: whoever writes it, the claim, the writer, or nobody."""
    job = await ground.take(await ground.create())
    rid = job.response_id
    async with listening(store) as listener:
        await listener.add(rid)
        lease = leased(await ground.claim(job))
        await ground.append(lease, 3, *texts(3))
        await ground.append(lease, 6, *texts(2))
        await ground.close(lease, 8, USAGE)
        await listener.hears_lines(rid, (await ground.lines(rid))[1:])
    assert {m.epoch for m in listener.messages if isinstance(m, Published)} == {lease.epoch}
    heard = [(m.first_seq, len(m.events)) for m in listener.messages if isinstance(m, Published)]
    assert heard == [(2, 1), (3, 3), (6, 2), (8, 2)]


async def test_a_follower_hears_an_end_that_no_writer_wrote(ground: Ground, store: Store) -> None:
    """PROTOCOL 5, 6, 9"""
    cancelled, expired = await ground.create(), await ground.create()
    async with listening(store) as listener:
        for rid in (cancelled, expired):
            await listener.add(rid)
        await store.cancel(cancelled, "user", ended=CANCELLED)
        await store.expire(expired, queued=QUEUED_OVER, running=RUNNING_OVER)
        for rid in (cancelled, expired):
            (tail,) = await store.tails([rid])
            assert tail is not None
            await listener.hears(Published(rid, tail.epoch, 2, (await ground.lines(rid))[1:]))


async def test_what_is_sent_again_is_not_published_again(ground: Ground, store: Store) -> None:
    """PROTOCOL 3, 5"""
    lease = await ground.run()
    async with listening(store) as listener:
        await listener.add(lease.response_id)
        for _ in range(2):
            await ground.append(lease, 3, *texts(2))
        await ground.append(lease, 4, *texts(3)[1:], text("new"))
        await ground.append(lease, 9, text("hole"))
        await ground.close(lease, 7)
        await listener.hears_lines(lease.response_id, (await ground.lines(lease.response_id))[2:])


async def test_two_followers_hear_the_same(ground: Ground, store: Store) -> None:
    """PROTOCOL 5: one subscription per process, any number of processes."""
    lease = await ground.run()
    async with listening(store) as one, listening(ground.second) as other:
        for listener in (one, other):
            await listener.add(lease.response_id)
        await ground.close(lease, 3, *texts(3))
        lines = (await ground.lines(lease.response_id))[2:]
        await one.hears_lines(lease.response_id, lines)
        await other.hears_lines(lease.response_id, lines)


async def test_a_follower_hears_nothing_of_other_responses(ground: Ground, store: Store) -> None:
    """PROTOCOL 5"""
    mine, removed, never = [await ground.run() for _ in range(3)]
    async with listening(store) as listener:
        await listener.add(removed.response_id)
        await listener.add(mine.response_id)
        await listener.subscription.remove([removed.response_id])
        await listener.subscription.add(mine.response_id)  # adding again is no harm
        for lease in (never, removed, mine):
            await ground.close(lease, 3, text("words"))
        await listener.hears_lines(mine.response_id, (await ground.lines(mine.response_id))[2:])
    assert listener.events(removed.response_id) == []
    assert listener.events(never.response_id) == []


async def test_what_was_removed_can_be_added_again(ground: Ground, store: Store) -> None:
    """PROTOCOL 5: an unsubscribe in flight counts as not subscribed."""
    lease = await ground.run()
    async with listening(store) as listener:
        for _ in range(3):
            await listener.add(lease.response_id)
            await listener.subscription.remove([lease.response_id])
        await listener.add(lease.response_id)
        await ground.append(lease, 3, text("heard"))
        await listener.hears_lines(lease.response_id, (await ground.lines(lease.response_id))[2:])


async def test_a_follower_is_told_when_the_log_is_retired(ground: Ground, store: Store) -> None:
    """PROTOCOL 8: the record is final and answers from now on."""
    rid = await ground.create()
    async with listening(store) as listener:
        await listener.add(rid)
        await store.retire(rid)
        await listener.hears(Gone(rid))


async def test_a_broken_subscription_is_made_anew_and_says_so(ground: Ground, store: Store) -> None:
    """PROTOCOL 5: pub/sub may lose messages; `Lost` makes the hub look at the logs."""
    lease = await ground.run()
    async with listening(store) as listener:
        await listener.add(lease.response_id)
        await ground.append(lease, 3, text("before"))
        await listener.hears_lines(lease.response_id, (await ground.lines(lease.response_id))[2:])
        assert Lost() not in listener.messages, "the first connection loses nothing"
        await ground.break_subscriptions()
        await listener.hears(Lost())
        await ground.append(lease, 4, text("after"))
        await listener.hears_lines(lease.response_id, (await ground.lines(lease.response_id))[2:])


async def test_a_closed_subscription_ends_its_messages(ground: Ground, store: Store) -> None:
    """PROTOCOL 5"""
    rid = await ground.create()
    async with listening(store) as listener:
        await listener.add(rid)
        await listener.subscription.aclose()
        await ground.until(lambda: _done(listener.task), "the messages to end")
    assert listener.task.exception() is None


async def _done(task: object) -> bool:
    return bool(task.done())  # type: ignore[attr-defined]
