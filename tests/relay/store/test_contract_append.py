"""Append and close (PROTOCOL 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay import events as ev
from relay.store.protocol import Appended, Claimed, Reply, Tail
from tests.relay.store.words import (
    CANCELLED,
    ENDED,
    NOTICE,
    USAGE,
    batch,
    leased,
    text,
    texts,
)

if TYPE_CHECKING:
    from relay.store import Store
    from tests.relay.store.conftest import OpenGround
    from tests.relay.store.ground import Ground


async def test_what_is_appended_is_in_the_log_byte_for_byte(ground: Ground) -> None:
    """PROTOCOL 3: the store frames events, it does not understand them."""
    lease = await ground.run()
    odd = [text(delta) for delta in ('"\\\n\r\0', "\u2028\u0085\x0b", "é 漢 🎉", "%d %s", "")]
    reply = await ground.append(lease, 3, *odd)
    assert reply == Reply(Appended.OK, seq=7)
    assert (await ground.lines(lease.response_id))[2:] == list(batch(lease, 3, *odd).events)


async def test_numbers_are_one_two_three_whoever_writes(ground: Ground) -> None:
    """PROTOCOL 3: created, started, content, a second run's started, the end."""
    lease = await ground.run()
    await ground.append(lease, 3, NOTICE)
    await ground.lapse(lease)
    second = leased(await ground.claim(lease.job))
    await ground.append(second, 5, *texts(3))
    await ground.close(second, 8, USAGE)
    assert [event.seq for event in await ground.log(lease.response_id)] == [*range(1, 10)]


async def test_sending_a_batch_again_adds_nothing(ground: Ground) -> None:
    """PROTOCOL 3: after a lost reply its outcome is unknown."""
    lease = await ground.run()
    for _ in range(3):
        assert await ground.append(lease, 3, *texts(4)) == Reply(Appended.OK, seq=6)
    assert await ground.texts(lease.response_id) == [event.delta for event in texts(4)]


@pytest.mark.parametrize(("first", "last"), [(0, 2), (1, 3), (3, 4), (0, 6), (2, 6), (4, 6)])
async def test_of_an_overlapping_batch_only_what_is_missing_is_added(
    ground: Ground, first: int, last: int
) -> None:
    """PROTOCOL 3: present is skipped, next is added; four of these six are there already."""
    lease = await ground.run()
    events = texts(6)
    await ground.append(lease, 3, *events[:4])
    reply = await ground.append(lease, 3 + first, *events[first:last])
    assert reply == Reply(Appended.OK, seq=2 + max(4, last))
    assert await ground.texts(lease.response_id) == [e.delta for e in events[: max(4, last)]]


async def test_a_batch_beyond_a_hole_is_answered_with_the_tail(ground: Ground) -> None:
    """PROTOCOL 3: the writer sends again from there; nothing of it was added."""
    lease = await ground.run()
    events = texts(5)
    await ground.append(lease, 3, events[0])
    assert await ground.append(lease, 6, *events[3:]) == Reply(Appended.GAP, seq=3)
    assert await ground.texts(lease.response_id) == [events[0].delta]
    assert await ground.append(lease, 4, *events[1:]) == Reply(Appended.OK, seq=7)
    assert await ground.texts(lease.response_id) == [event.delta for event in events]


async def test_many_responses_are_appended_at_once_and_each_gets_its_own_answer(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 3: a fenced one among them harms nobody."""
    lost = await ground.run()
    new = await ground.succeed(lost)
    well = [await ground.run() for _ in range(2)]
    retired = await ground.run()
    await store.retire(retired.response_id)
    answers = await store.append(
        [
            batch(well[0], 3, *texts(2)),
            batch(lost, 4, text("late")),
            batch(well[1], 9, text("hole")),
            batch(retired, 3, text("gone")),
            batch(new, 4, text("kept")),
        ]
    )
    assert answers == [
        Reply(Appended.OK, seq=4),
        Reply(Appended.FENCED),
        Reply(Appended.GAP, seq=2),
        Reply(Appended.FENCED),
        Reply(Appended.OK, seq=4),
    ]
    assert await ground.texts(lost.response_id) == ["kept"]
    assert await store.read(retired.response_id, after=0) is None


async def test_appending_nothing_is_answered_with_nothing(store: Store) -> None:
    """PROTOCOL 3"""
    assert await store.append([]) == []


async def test_the_end_closes_the_log_in_one_step(ground: Ground, store: Store) -> None:
    """PROTOCOL 3: law 3, exactly one `ended`, and nothing after it, ever."""
    lease = await ground.run()
    assert await ground.close(lease, 3, *texts(2), USAGE) == Reply(Appended.OK, seq=6)
    page = await store.read(lease.response_id, after=0)
    assert page is not None
    assert page.tail == Tail(epoch=lease.epoch, seq=6, ended=True)
    assert page.events[2:] == list(batch(lease, 3, *texts(2), USAGE, ENDED).events)
    assert (await ground.append(lease, 7, text("after"))).outcome is Appended.CLOSED
    assert (await ground.close(lease, 7)).outcome is Appended.CLOSED
    assert await ground.lines(lease.response_id) == page.events


async def test_closing_again_is_success(ground: Ground) -> None:
    """PROTOCOL 3: whether it is told so or finds its end there, the worker goes on to fold."""
    lease = await ground.run()
    await ground.close(lease, 3, text("all"))
    again = await ground.close(lease, 3, text("all"))
    assert (again.outcome, again.seq) == (Appended.CLOSED, 4)
    assert (await ground.types(lease.response_id)).count("ended") == 1


async def test_a_late_writer_whose_end_is_in_the_log_is_told_so(ground: Ground) -> None:
    """PROTOCOL 3: there is nothing left to write, and its fold is the same as anybody's."""
    lease = await ground.run()
    await ground.close(lease, 3)
    await ground.lapse(lease)
    assert (await ground.close(lease, 3)).outcome is Appended.CLOSED


async def test_a_close_adds_what_an_unknown_append_had_left_out(ground: Ground) -> None:
    """PROTOCOL 3: it carries the last batch again."""
    lease = await ground.run()
    events = texts(4)
    await ground.append(lease, 3, *events[:2])
    assert await ground.close(lease, 3, *events) == Reply(Appended.OK, seq=7)
    assert await ground.texts(lease.response_id) == [event.delta for event in events]


async def test_a_close_beyond_a_hole_leaves_the_log_open(ground: Ground, store: Store) -> None:
    """PROTOCOL 3: an end over a hole would hide it."""
    lease = await ground.run()
    assert await ground.close(lease, 5, text("far")) == Reply(Appended.GAP, seq=2)
    assert await store.tails([lease.response_id]) == [Tail(lease.epoch, 2, ended=False)]
    assert await ground.close(lease, 3, *texts(3)) == Reply(Appended.OK, seq=6)


async def test_every_reply_carries_the_stop(ground: Ground, store: Store) -> None:
    """PROTOCOL 3, 6: the flag cannot be missed by whoever writes."""
    lease = await ground.run()
    assert (await ground.append(lease, 3, text("a"))).stop_reason is None
    await store.cancel(lease.response_id, "user", ended=CANCELLED)
    assert (await ground.append(lease, 4, text("b"))).stop_reason == "user"
    assert (await ground.append(lease, 4, text("b"))).stop_reason == "user"
    assert (await ground.append(lease, 9, text("hole"))).stop_reason == "user"
    assert (await store.renew(lease)).stop_reason == "user"
    assert (await ground.close(lease, 5)).outcome is Appended.OK


async def test_a_lease_that_a_reply_names_is_a_lease(new_ground: OpenGround) -> None:
    """PROTOCOL 2, 3: also one that comes with GAP or FULL: nobody claims before it is over."""
    ground = await new_ground(lease_s=1.5, max_log_bytes=100)
    for first_seq, event in ((9, text("hole")), (3, text("x" * 200))):
        lease = await ground.run()
        await ground.pass_s(0.5)
        reply = await ground.append(lease, first_seq, event)
        assert reply.outcome in (Appended.GAP, Appended.FULL)
        await ground.until_ms(lease.lease_until_ms - 400)
        assert (await ground.claim(lease.job)).outcome is Claimed.BUSY


async def test_content_beyond_max_log_bytes_is_refused_and_the_end_still_fits(
    new_ground: OpenGround,
) -> None:
    """PROTOCOL 3: incomplete/log_limit; `usage` and `ended` always fit."""
    ground = await new_ground(max_log_bytes=1000)
    lease = await ground.run()
    assert (await ground.append(lease, 3, text("x" * 800))).outcome is Appended.OK
    reply = await ground.append(lease, 4, text("y" * 100), text("z" * 300))
    assert reply == Reply(Appended.FULL, seq=3)
    assert await ground.texts(lease.response_id) == ["x" * 800], "nothing of it was added"
    assert (await ground.append(lease, 4, USAGE)).outcome is Appended.OK
    assert (await ground.close(lease, 5, USAGE)).outcome is Appended.OK
    assert (await ground.types(lease.response_id))[-2:] == ["usage", "ended"]


async def test_the_last_words_fit_into_the_close(new_ground: OpenGround) -> None:
    """PROTOCOL 3: nobody could end a log whose close may be refused for its size."""
    ground = await new_ground(max_log_bytes=1000)
    lease = await ground.run()
    await ground.append(lease, 3, text("x" * 900))
    assert (await ground.close(lease, 4, text("y" * 200))).outcome is Appended.OK


async def test_only_content_counts_against_max_log_bytes(new_ground: OpenGround) -> None:
    """PROTOCOL 3: and every event of it once, however often it is sent."""
    ground = await new_ground(max_log_bytes=1000)
    lease = await ground.run()
    long_notice = ev.Notice(code="retrying", message="n" * 2000)
    assert (await ground.append(lease, 3, long_notice)).outcome is Appended.OK
    for _ in range(5):
        assert (await ground.append(lease, 4, text("x" * 600))).outcome is Appended.OK
    assert (await ground.append(lease, 5, text("y" * 200))).outcome is Appended.OK
    assert (await ground.append(lease, 6, text("z" * 200))).outcome is Appended.FULL
