"""PROTOCOL 4 and 5: whoever comes back gets exactly the rest."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from relay.config import RelayConfig
from relay.errors import LogGone, ViewersFull
from relay.follow import follow, wait_ended
from relay.generate import End
from relay.hub import Hub, Visit
from relay.store import shard_of
from tests.relay.reader import Reader
from tests.relay.scribe import Scribe
from tests.waiting import wait_until

if TYPE_CHECKING:
    from relay.store import Store

WORDS = [f"word {i} " for i in range(40)]


async def recorded(scribe: Scribe) -> None:
    """An ended log of 43 events: created, started, 40 deltas in batches of several sizes, ended."""
    await scribe.begin()
    rest = list(WORDS)
    for size in (1, 3, 1, 7, 2, 11, 1, 14):
        await scribe.say(*rest[:size])
        rest = rest[size:]
    await scribe.end()


async def test_a_recorded_run_cut_at_every_byte_around_every_event_resumes_exactly(
    scribe: Scribe, hub: Hub
) -> None:
    """Each event index, and five places around it: before, inside (3) and after its frame."""
    await recorded(scribe)
    whole = Reader()
    wire = b""
    async with await follow(hub, scribe.rid) as view:
        async for chunk in view:
            wire += chunk
    whole.feed(wire)
    whole.check_whole(scribe.text)
    starts = [0, *(i + 2 for i in range(len(wire)) if wire[i : i + 2] == b"\n\n")]
    assert len(starts) == scribe.seq + 1
    cuts = 0
    for start, end in itertools.pairwise(starts):
        for at in (start, start + 1, (start + end) // 2, end - 1, end):
            reader = Reader()
            reader.feed(wire[:at])
            view = await follow(hub, scribe.rid, after=reader.cursor, epoch=reader.epoch)
            if reader.cursor == scribe.seq:
                assert view.at_end
                await view.aclose()
            else:
                await reader.read(view)
            reader.check_whole(scribe.text)
            assert reader.snapshots == 0
            cuts += 1
    print(f"{cuts} cuts: 0 lost, 0 repeated, 0 out of order")


async def test_a_live_run_read_over_connections_that_break_all_the_time_is_exact(
    scribe: Scribe, hub: Hub
) -> None:
    await scribe.begin()
    reader = Reader()
    dice = random.Random(7)

    async def watch() -> None:
        while reader.ended is None:
            view = await follow(hub, scribe.rid, after=reader.cursor, epoch=reader.epoch)
            await reader.read(view, until_seq=reader.cursor + dice.randint(1, 9))

    watching = asyncio.create_task(watch())
    for word in WORDS * 5:
        await scribe.say(word)
        if dice.random() < 0.2:
            await asyncio.sleep(0)
    await scribe.end()
    async with asyncio.timeout(10):
        await watching
    reader.check_whole(scribe.text)
    assert reader.snapshots == 0


@pytest.mark.parametrize("viewers", [1, 7])
async def test_attaching_at_any_moment_of_the_first_events_misses_nothing(
    store: Store, hub: Hub, viewers: int
) -> None:
    for round_ in range(20):
        scribe = Scribe(store)
        await scribe.create()
        readers = [Reader() for _ in range(viewers)]

        async def watch(reader: Reader, scribe: Scribe, yields: int) -> None:
            for _ in range(yields):
                await asyncio.sleep(0)
            await reader.read(await follow(hub, scribe.rid))

        watching = [
            asyncio.create_task(watch(reader, scribe, i * round_))
            for i, reader in enumerate(readers)
        ]
        await scribe.claim()
        await scribe.say("a", "b")
        await scribe.say("c")
        await scribe.end()
        async with asyncio.timeout(10):
            await asyncio.gather(*watching)
        for reader in readers:
            reader.check_whole("abc")


async def test_a_cursor_ahead_of_the_tail_gets_a_snapshot(scribe: Scribe, hub: Hub) -> None:
    await scribe.begin()
    await scribe.say("hello")
    reader = Reader(seqs=list(range(1, 100)), text="something else")
    reading = asyncio.create_task(reader.read(await follow(hub, scribe.rid, after=99)))
    await wait_until(lambda: reader.snapshots, "the snapshot")
    assert (reader.text, reader.cursor) == ("hello", 3)
    await scribe.end()
    await reading
    reader.check_whole("hello")


async def test_a_cursor_of_another_history_gets_a_snapshot(scribe: Scribe, hub: Hub) -> None:
    await scribe.begin()
    await scribe.say("hello")
    reader = Reader(seqs=[1, 2, 3], text="other words")
    await scribe.end()
    await reader.read(await follow(hub, scribe.rid, after=3, epoch=12345))
    assert reader.snapshots == 1
    reader.check_whole("hello")


async def test_a_snapshot_that_was_asked_for_comes_first_and_the_rest_follows(
    scribe: Scribe, hub: Hub
) -> None:
    await scribe.begin()
    await scribe.say("one ", "two ")
    reader = Reader()
    reading = asyncio.create_task(reader.read(await follow(hub, scribe.rid, snapshot=True)))
    await wait_until(lambda: reader.snapshots, "the snapshot")
    assert reader.text == "one two "
    await scribe.say("three")
    await scribe.end()
    await reading
    reader.check_whole("one two three")


async def test_a_valid_cursor_at_the_end_is_at_the_end(scribe: Scribe, hub: Hub) -> None:
    await recorded(scribe)
    view = await follow(hub, scribe.rid, after=scribe.seq)
    assert view.at_end
    await view.aclose()


async def test_no_log_is_said_at_once_and_may_be_waited_for(
    scribe: Scribe, hub: Hub, store: Store
) -> None:
    with pytest.raises(LogGone):
        await follow(hub, scribe.rid)
    reader = Reader()
    reading = asyncio.create_task(reader.read(await follow(hub, scribe.rid, wait=True)))
    await scribe.begin()
    await scribe.say("late")
    await scribe.end()
    async with asyncio.timeout(10):
        await reading
    reader.check_whole("late")


async def test_a_log_that_does_not_come_sends_who_waits_to_the_record_now_and_then(
    scribe: Scribe, store: Store
) -> None:
    """PROTOCOL 10.6: an answer may end in its record alone, while somebody waits for its log."""
    hub = Hub(store, RelayConfig(lease_s=0.2, check_s=0.05))
    hub.start()
    try:
        async with await follow(hub, scribe.rid, wait=True) as view:
            chunks = aiter(view)
            assert await anext(chunks) == b"retry: 2000\n"
            for _ in range(2):
                with pytest.raises(LogGone):
                    await asyncio.wait_for(anext(chunks), 5)
                assert view.waits
            await scribe.begin()
            assert b"event: created" in await asyncio.wait_for(anext(chunks), 5)
            assert not view.waits
    finally:
        await hub.aclose()


async def test_a_retired_log_sends_its_viewers_to_the_record(scribe: Scribe, hub: Hub) -> None:
    """PROTOCOL 8: `gone`."""
    await scribe.begin()
    view = await follow(hub, scribe.rid)
    reader = Reader()
    reading = asyncio.create_task(reader.read(view))
    await wait_until(lambda: reader.cursor == 2, "the viewer to be live")
    await scribe.store.retire(scribe.rid)
    with pytest.raises(LogGone):
        await asyncio.wait_for(reading, 5)


async def test_a_viewer_that_stops_reading_falls_back_to_the_log(scribe: Scribe, hub: Hub) -> None:
    """Law 9: its buffer is bounded, and it still gets everything once it reads again."""
    await scribe.begin()
    view = await follow(hub, scribe.rid)
    big = "x" * 10_000
    reader = Reader()
    async with view:
        reader.feed(await anext(view))
        for _ in range(60):
            await scribe.say(big)
        await scribe.end()
        await wait_until(lambda: not view._live, "the viewer to be dropped from the live set")
        assert view._pending_bytes <= 256 * 1024
        async for chunk in view:
            reader.feed(chunk)
    reader.check_whole(big * 60)


async def test_one_viewer_too_many_is_refused(scribe: Scribe, store: Store) -> None:
    hub = Hub(store, RelayConfig(max_viewers_per_response=2))
    hub.start()
    await scribe.begin()
    views = [await follow(hub, scribe.rid, viewer=f"me/{i}") for i in range(2)]
    with pytest.raises(ViewersFull):
        await follow(hub, scribe.rid, viewer="me/3")
    for view in views:
        await view.aclose()
    await hub.aclose()


async def test_a_view_shut_from_outside_ends_with_a_comment(scribe: Scribe, hub: Hub) -> None:
    await scribe.begin()
    view = await follow(hub, scribe.rid)
    view.shut("your session has ended")
    chunks = [chunk async for chunk in view]
    await view.aclose()
    assert b"".join(chunks).endswith(b": your session has ended\n")


async def test_a_process_that_goes_away_asks_its_viewers_to_move_on(
    scribe: Scribe, hub: Hub
) -> None:
    await scribe.begin()
    views = [await follow(hub, scribe.rid) for _ in range(3)]
    hub.move_on()
    views.append(await follow(hub, scribe.rid))  # was on its way in
    for view in views:
        chunks = [chunk async for chunk in view]
        assert chunks[-1].endswith(b"going away; resume with Last-Event-ID\n")
        await view.aclose()


async def test_waiting_for_an_end_ends_with_it(scribe: Scribe, hub: Hub) -> None:
    await scribe.begin()
    assert not await wait_ended(hub, scribe.rid, 0.05)
    waiting = asyncio.create_task(wait_ended(hub, scribe.rid, 10))
    await scribe.say("x")
    await scribe.end(End.cancelled("user"))
    assert await waiting
    assert await wait_ended(hub, scribe.rid, 0.05)


async def test_a_cursor_without_epoch_at_a_silent_tail_waits_and_gets_exactly_the_rest(
    scribe: Scribe, hub: Hub, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It spun on empty pages beside another viewer, and alone was given a snapshot (PROTOCOL
    4.1)."""
    await scribe.begin()
    await scribe.say("one ")
    beside, alone = Reader(), Reader(seqs=[1, 2, 3], text="one ")
    for others in (0, 1):
        reader = alone if not others else Reader(seqs=[1, 2, 3], text="one ")
        reads = 0
        read = store.read

        async def counted(*args, read=read, **kwargs):
            nonlocal reads
            reads += 1
            return await read(*args, **kwargs)

        if others:
            watching = asyncio.create_task(beside.read(await follow(hub, scribe.rid)))
            await wait_until(lambda: beside.cursor == 3, "another viewer to be live")
        monkeypatch.setattr(store, "read", counted)
        view = await follow(hub, scribe.rid, after=3)
        reading = asyncio.create_task(reader.read(view))
        await wait_until(partial(getattr, view, "_live"), "the viewer to be live")
        monkeypatch.setattr(store, "read", read)
        assert reads <= 2
        if not others:
            # The tails must be found where they were left.
            await hub._look_at(shard_of(scribe.rid), list(hub._watches.values()))
            await asyncio.sleep(0)
            assert reader.snapshots == 0
            await view.aclose()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    await scribe.say("two")
    await scribe.end()
    await reading
    await watching
    reader.check_whole("one two")
    assert reader.snapshots == beside.snapshots == 0


@pytest.mark.parametrize("after", [7, 10**18 - 1])
@pytest.mark.parametrize("there", ["a log", "no log yet"])
async def test_a_cursor_that_names_nothing_was_handed_to_nobody(
    scribe: Scribe, hub: Hub, store: Store, after: int, there: str
) -> None:
    """PROTOCOL 8.5: who opens a stream far behind the end and goes at once has seen nothing."""
    if there == "a log":
        await scribe.begin()
    visits: list[Visit] = []
    hub.hear_visits(visits.append)
    async with await follow(hub, scribe.rid, after=after, viewer="login/v", wait=True) as view:
        await anext(view)
        assert view.tick(time.monotonic() + 60) == (scribe.rid, "login/v", 0)
    assert [(visit.from_seq, visit.to_seq) for visit in visits] == [(0, 0)]


async def test_a_cursor_that_is_valid_counts_as_handed(scribe: Scribe, hub: Hub) -> None:
    await scribe.begin()
    visits: list[Visit] = []
    hub.hear_visits(visits.append)
    async with await follow(hub, scribe.rid, after=2, viewer="login/v") as view:
        await anext(view)
    assert [(visit.from_seq, visit.to_seq) for visit in visits] == [(2, 2)]
