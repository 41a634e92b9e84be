"""Reserve, settle, release: each response counts once, whatever is repeated (PROTOCOL 11)."""

from __future__ import annotations

import asyncio
import random
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from relay.errors import StoreUnavailable
from relay.store import MemoryStore, Refill, Reservation, Reserved, quota_day

if TYPE_CHECKING:
    from relay.store import Grant, Quotas
    from tests.relay.store.ground import Ground

LIFE_S = 60.0
ANN, BEN = "3", "7"
"""In a cluster of three their counters are on the node of shard 0: that one loses its memory here.
"""


def rid() -> str:
    return f"resp_0_{uuid.uuid4().hex}"


class Person:
    """Ann, with limits, on this ground."""

    def __init__(self, ground: Ground, now_ms: int, running: int, tokens: int) -> None:
        self.quotas: Quotas = ground.store.quotas
        self.second: Quotas = ground.second.quotas
        self.day = quota_day(datetime.fromtimestamp(now_ms / 1000, UTC))
        self.now_ms = now_ms
        self.limits: dict[str, Any] = {"max_running": running, "max_tokens": tokens}

    def wanted(self, response_id: str, *, hold: int = 0, life_s: float = LIFE_S) -> Reservation:
        until_ms = self.now_ms + round(life_s * 1000)
        return Reservation(
            response_id=response_id, day=self.day, until_ms=until_ms, hold=hold, **self.limits
        )

    async def reserve(self, response_id: str, **more: Any) -> Reserved:
        return (await self.grant(response_id, **more)).outcome

    async def grant(self, response_id: str, **more: Any) -> Grant:
        return await self.quotas.reserve(ANN, self.wanted(response_id, **more))

    async def settle(self, response_id: str, tokens: int) -> bool:
        return await self.quotas.settle(ANN, response_id, day=self.day, tokens=tokens)

    async def refill(self, run: str | None = None, **found: Any) -> None:
        """From records that were read in this run of the server, or in the present one."""
        if run is None:
            run = await self.run()
        await self.quotas.refill(ANN, Refill(run=run, day=self.day, **found))

    async def run(self) -> str:
        """What her server calls its run, asked for a day whose counters are missing."""
        long_ago = replace(self.wanted(rid()), day="2001-01-01")
        return (await self.quotas.reserve(ANN, long_ago)).run

    async def used(self) -> int:
        """Asked by a reservation that is given back."""
        grant = await self.grant(probe := rid())
        await self.quotas.release(ANN, [probe])
        return grant.used


async def person(
    ground: Ground, *, running: int = 0, tokens: int = 0, whole: bool = True
) -> Person:
    made = Person(ground, await ground.now_ms(), running, tokens)
    if whole:
        await made.refill()
    return made


async def test_as_many_run_as_the_limit_says_and_a_repeat_is_not_one_more(ground: Ground) -> None:
    ann = await person(ground, running=2)
    one, two = rid(), rid()
    assert await ann.reserve(one) is Reserved.GRANTED
    assert await ann.reserve(one) is Reserved.HELD
    assert await ann.reserve(two) is Reserved.GRANTED
    refused = await ann.grant(rid())
    assert refused.outcome is Reserved.RUNNING
    assert set(refused.running) == {one, two}
    assert await ann.reserve(two) is Reserved.HELD


async def test_settling_counts_once_and_frees_the_place(ground: Ground) -> None:
    ann = await person(ground, running=1, tokens=100)
    one = rid()
    await ann.reserve(one)
    assert await ann.settle(one, 30) is True
    assert await ann.settle(one, 30) is False
    assert await ann.used() == 30
    assert await ann.reserve(one) is Reserved.SETTLED, "a late repeat takes no place"
    assert await ann.reserve(rid()) is Reserved.GRANTED


async def test_releasing_counts_nothing(ground: Ground) -> None:
    ann = await person(ground, running=1, tokens=100)
    one = rid()
    await ann.reserve(one, hold=99)
    await ann.quotas.release(ANN, [one, rid()])
    await ann.quotas.release(ANN, [])
    assert await ann.used() == 0


async def test_a_reservation_lapses_and_is_still_settled_once(ground: Ground) -> None:
    ann = await person(ground, running=1, tokens=100)
    crashed = rid()
    assert await ann.reserve(crashed, life_s=0.05, hold=100) is Reserved.GRANTED
    await ground.until_ms(ann.now_ms + 60)
    assert await ann.reserve(rid()) is Reserved.GRANTED, "its place is free, and so is its hold"
    assert await ann.settle(crashed, 40) is True
    assert await ann.settle(crashed, 40) is False
    refused = await ann.grant(rid())
    assert (refused.outcome, refused.used) == (Reserved.RUNNING, 40)


async def test_tokens_that_are_used_or_set_aside_leave_none_for_others(ground: Ground) -> None:
    ann = await person(ground, tokens=100)
    one, two, three = rid(), rid(), rid()
    assert await ann.reserve(one, hold=60) is Reserved.GRANTED
    assert await ann.reserve(two, hold=60) is Reserved.GRANTED, "a token was left"
    refused = await ann.grant(rid())
    assert (refused.outcome, refused.used) == (Reserved.TOKENS, 0)
    await ann.settle(one, 10)
    await ann.settle(two, 20)
    assert await ann.reserve(three) is Reserved.GRANTED, "less was used than set aside"
    await ann.settle(three, 70)
    refused = await ann.grant(rid())
    assert (refused.outcome, refused.used, refused.running) == (Reserved.TOKENS, 100, ())


async def test_a_new_day_has_all_its_tokens(ground: Ground) -> None:
    ann = await person(ground, tokens=10)
    await ann.settle(rid(), 10)
    assert await ann.reserve(rid()) is Reserved.TOKENS
    ann.day = quota_day(datetime.fromtimestamp(ann.now_ms / 1000 + 86_400, UTC))
    await ann.refill()
    assert await ann.reserve(rid()) is Reserved.GRANTED


async def test_people_do_not_share_counters(ground: Ground) -> None:
    ann = await person(ground, running=1)
    await ann.reserve(rid())
    await ann.quotas.refill(BEN, Refill(run=await ann.run(), day=ann.day))
    grant = await ann.quotas.reserve(BEN, ann.wanted(rid()))
    assert grant.outcome is Reserved.GRANTED


async def test_missing_counters_are_told_and_refilled_from_records(ground: Ground) -> None:
    ann = await person(ground, running=2, tokens=100, whole=False)
    mine = rid()
    assert await ann.reserve(mine) is Reserved.UNKNOWN
    until_ms = ann.now_ms + 60_000
    ended = [(rid(), 1) for _ in range(45)]
    for _ in range(2):
        await ann.refill(ended=ended, running=[(one := rid(), until_ms, 5)])
        await ann.quotas.release(ANN, [one])
    await ann.refill(running=[(running := rid(), until_ms, 5)])
    assert (await ann.grant(mine)).used == 45
    refused = await ann.grant(rid())
    assert (refused.outcome, set(refused.running)) == (Reserved.RUNNING, {mine, running})


async def test_a_large_refill_comes_in_parts(ground: Ground) -> None:
    ann = await person(ground, tokens=10_000, whole=False)
    await ann.refill(ended=[(rid(), 2) for _ in range(2500)])
    assert await ann.used() == 5000


@pytest.mark.parametrize("order", list(permutations(("settle", "refill", "again"))), ids="-".join)
async def test_settling_and_refilling_may_come_in_any_order(
    ground: Ground, order: tuple[str, ...]
) -> None:
    """The records were read before that end, or after it; the counter was there, or not."""
    for record_is_final in (True, False):
        ann = await person(ground, tokens=100, whole=False)
        one = rid()
        until_ms = ann.now_ms + 60_000
        found: dict[str, Any] = (
            {"ended": [(one, 7)]} if record_is_final else {"running": [(one, until_ms, 50)]}
        )
        for step in order:
            if step == "refill":
                await ann.refill(**found)
            else:
                await ann.settle(one, 7)
        assert await ann.used() == 7
        assert await ann.reserve(one) is Reserved.SETTLED
        ann.limits["max_running"] = 1
        assert await ann.reserve(rid()) is Reserved.GRANTED, "no place is left taken"
        await ground.lose_everything()


async def test_what_was_asked_for_yesterday_and_has_ended_is_not_running(ground: Ground) -> None:
    ann = await person(ground, running=1, whole=False)
    one, until_ms = rid(), ann.now_ms + 60_000
    yesterday = quota_day(datetime.fromtimestamp(ann.now_ms / 1000 - 86_400, UTC))
    await ann.quotas.settle(ANN, one, day=yesterday, tokens=3)
    await ann.refill(running=[(one, until_ms, 0)])
    assert await ann.reserve(rid()) is Reserved.GRANTED


async def test_a_storm_from_two_processes_never_grants_more_than_the_limit(ground: Ground) -> None:
    """Ids are repeated, released, settled twice; the sum is that of each one's first settling."""
    ann = await person(ground, running=5, tokens=1_000_000)
    rng = random.Random(7)
    ids = [rid() for _ in range(60)]
    running: set[str] = set()
    settled: dict[str, int] = {}

    async def one(response_id: str) -> None:
        for _ in range(4):
            quotas = rng.choice((ann.quotas, ann.second))
            grant = await quotas.reserve(ANN, ann.wanted(response_id))
            if grant.outcome is Reserved.GRANTED:
                running.add(response_id)
                assert len(running) <= 5
            if grant.outcome in (Reserved.GRANTED, Reserved.HELD):
                await asyncio.sleep(0)
                running.discard(response_id)
                if rng.random() < 0.3:
                    await quotas.release(ANN, [response_id])
                    continue
                tokens = rng.randrange(1, 100)
                first = await asyncio.gather(
                    ann.quotas.settle(ANN, response_id, day=ann.day, tokens=tokens),
                    ann.second.settle(ANN, response_id, day=ann.day, tokens=tokens),
                )
                assert sum(first) <= 1
                if any(first):
                    settled[response_id] = tokens

    await asyncio.gather(*(one(response_id) for response_id in ids))
    assert settled
    assert await ann.used() == sum(settled.values())


async def test_a_store_that_is_away_grants_nothing(ground: Ground) -> None:
    ann = await person(ground, running=1)
    await ground.store.aclose()
    if isinstance(ground.store, MemoryStore):
        ground.store.faults.fail("reserve")
    with pytest.raises(StoreUnavailable):
        await ann.reserve(rid())


async def test_counters_of_another_run_of_the_server_count_as_missing(ground: Ground) -> None:
    """PROTOCOL 11.6: a settle that was confirmed, and lost with the server's tail."""
    ann = await person(ground, tokens=100)
    one, two = rid(), rid()
    await ann.settle(one, 10)
    before = await ground.replica()
    await ann.settle(two, 20)
    await ground.promote(before)
    assert await ann.reserve(one) is Reserved.SETTLED
    assert await ann.reserve(rid()) is Reserved.UNKNOWN
    await ann.refill(ended=[(one, 10), (two, 20)])
    assert await ann.used() == 30


async def test_a_refill_is_of_the_run_in_which_its_records_were_read(ground: Ground) -> None:
    """PROTOCOL 11.6: since then the server may have lost what they did not say yet."""
    ann = await person(ground, tokens=100, whole=False)
    await ann.refill(run="an earlier one")
    assert await ann.reserve(rid()) is Reserved.UNKNOWN
    unknown = await ann.grant(rid())
    assert unknown.run not in ("", "an earlier one")
    await ann.refill(run=unknown.run)
    assert await ann.reserve(rid()) is Reserved.GRANTED
