"""What holds in any order of calls: no gap, no repeat, and the same answers from both stores."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay import events as ev
from relay.config import RelayConfig
from relay.store.protocol import Appended, Claimed
from tests.relay.store.ground import Ground, open_ground
from tests.relay.store.words import (
    CANCELLED,
    NOTICE,
    QUEUED_OVER,
    RUNNING_OVER,
    leased,
    text,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay.store import Job, Lease

# One ground serves all examples: each makes a response of its own.
over_one_ground = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
COUNT = 8
slices = st.tuples(st.integers(0, COUNT), st.integers(0, COUNT)).map(sorted)


@over_one_ground
@given(sent=st.lists(slices, max_size=12))
async def test_batches_sent_again_in_any_order_make_each_event_exactly_once(
    ground: Ground, sent: list[list[int]]
) -> None:
    """PROTOCOL 3: present is skipped, next is added, a hole is refused."""
    lease = await ground.run()
    events = texts(COUNT)
    known = 0
    for first, last in [*sent, [0, COUNT]]:
        reply = await ground.append(lease, 3 + first, *events[first:last])
        if first > known:
            assert (reply.outcome, reply.seq) == (Appended.GAP, 2 + known)
        else:
            known = max(known, last)
            assert (reply.outcome, reply.seq) == (Appended.OK, 2 + known)
    log = await ground.log(lease.response_id)
    assert [event.seq for event in log] == [*range(1, COUNT + 3)]
    assert [event.delta for event in log if isinstance(event, ev.TextDelta)] == [
        event.delta for event in events
    ]


@over_one_ground
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5), end=st.integers(0, 5))
async def test_a_close_may_follow_any_part_of_its_batches(
    ground: Ground, sizes: list[int], end: int
) -> None:
    """PROTOCOL 3: whatever arrived before, all of it and one end are in the log afterwards."""
    lease = await ground.run()
    events = texts(sum(sizes))
    sent = 0
    for size in sizes[:end]:
        await ground.append(lease, 3 + sent, *events[sent : sent + size])
        sent += size
    for _ in range(2):
        await ground.close(lease, 3, *events)
    types = await ground.types(lease.response_id)
    assert types == ["created", "started", *["text.delta"] * len(events), "ended"]


# -- both stores, the same calls ------------------------------------------------------------------
WORKERS = ("a", "b")
which = st.integers(0, 3)
op = st.one_of(
    st.tuples(st.just("create")),
    st.tuples(st.just("take"), st.sampled_from(WORKERS)),
    st.tuples(st.just("reclaim"), st.sampled_from(WORKERS)),
    st.tuples(st.just("claim"), which, st.sampled_from(WORKERS)),
    st.tuples(st.just("claim"), which, st.sampled_from(WORKERS)),
    st.tuples(st.just("append"), which, st.integers(2, 6), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("append"), which, st.integers(2, 6), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("close"), which, st.integers(2, 6), st.integers(0, 2)),
    st.tuples(st.just("renew"), which),
    st.tuples(st.just("release"), which),
    st.tuples(st.just("lapse"), which),
    st.tuples(st.just("cancel"), st.sampled_from(("user", "admin"))),
    st.tuples(st.just("expire")),
    st.tuples(st.just("ack"), which),
    st.tuples(st.just("retire")),
    st.tuples(st.just("read"), st.integers(0, 8), st.integers(0, 3)),
    st.tuples(st.just("leave"), st.sampled_from(("u/a", "u/b", "u/"))),
    st.tuples(st.just("attend"), st.sampled_from(("u/a", "u/b"))),
    st.tuples(st.just("beat"), st.sampled_from(("u/a", "u/b")), st.integers(0, 9)),
)
START = [("create",), ("take", "a"), ("claim", 0, "a")]


@dataclass
class Player:
    """Makes the calls of one example on one store and says what came of them.

    Epochs and entry ids differ between stores; the order in which they appear does not.
    """

    ground: Ground
    response_id: str
    jobs: list[Job] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    """Those of the page read last."""

    async def play(self, name: str, *args: Any) -> Any:
        return await getattr(self, f"_{name}")(*args)

    def _job(self, which: int) -> Job | None:
        return self.jobs[which % len(self.jobs)] if self.jobs else None

    def _lease(self, which: int) -> Lease | None:
        return self.leases[-1 - which % len(self.leases)] if self.leases else None

    def _seen(self, jobs: list[Job]) -> list[int]:
        self.jobs += [job for job in jobs if job not in self.jobs]
        return sorted(self.jobs.index(job) for job in jobs)

    async def _create(self) -> Any:
        request = await self.ground.request(self.response_id)
        return await self.ground.store.create(request, upstream_model="small")

    async def _take(self, worker: str) -> Any:
        return self._seen(await self.ground.store.take(0, worker, 9, 0))

    async def _reclaim(self, worker: str) -> Any:
        return self._seen(await self.ground.store.reclaim(0, worker, 9, 0))

    async def _claim(self, which: int, worker: str) -> Any:
        job = self._job(which)
        if job is None:
            return None
        claim = await self.ground.claim(job, worker)
        if claim.outcome in (Claimed.RUN, Claimed.TAKE_OVER, Claimed.CLOSED):
            self.leases.append(leased(claim))
        told = (claim.outcome, claim.seq, claim.attempt, claim.has_content, claim.stop_reason)
        return *told, claim.abandoned, claim.expired

    async def _append(self, which: int, first: int, count: int, content: bool) -> Any:
        lease = self._lease(which)
        events = [text(f"{first + n}") if content else NOTICE for n in range(count)]
        return lease and await self.ground.append(lease, first, *events)

    async def _close(self, which: int, first: int, count: int) -> Any:
        lease = self._lease(which)
        return lease and await self.ground.close(lease, first, *texts(count))

    async def _renew(self, which: int) -> Any:
        lease = self._lease(which)
        return lease and await self.ground.store.renew(lease)

    async def _release(self, which: int) -> Any:
        lease = self._lease(which)
        return lease and await self.ground.store.release(lease)

    async def _lapse(self, which: int) -> Any:
        if lease := self._lease(which):
            await self.ground.lapse(lease)

    async def _cancel(self, reason: str) -> Any:
        return await self.ground.store.cancel(self.response_id, reason, ended=CANCELLED)

    async def _expire(self) -> Any:
        return await self.ground.store.expire(
            self.response_id, queued=QUEUED_OVER, running=RUNNING_OVER
        )

    async def _ack(self, which: int) -> Any:
        job = self._job(which)
        return job and await self.ground.store.ack(job)

    async def _retire(self) -> Any:
        await self.ground.store.retire(self.response_id)
        # An epoch is at least the time in ms: two histories within one may not be told apart.
        await self.ground.pass_s(0.002)

    async def _attend(self, viewer: str) -> Any:
        return await self.ground.store.attend(self.response_id, viewer)

    async def _leave(self, viewer: str) -> Any:
        await self.ground.store.leave(self.response_id, viewer)

    async def _beat(self, viewer: str, seq: int) -> Any:
        await self.ground.store.beat([(self.response_id, viewer, seq)])
        return await self.ground.store.delivered(self.response_id)

    async def _read(self, after: int, epoch: int) -> Any:
        known = self.epochs[epoch] if epoch < len(self.epochs) else None
        page = await self.ground.store.read(self.response_id, after=after, epoch=known)
        if page is None:
            return None
        log = [ev.decode_event(data) for data in page.events]
        kinds = [str(event.__struct_config__.tag) for event in log]
        self.epochs = sorted({*page.epochs, page.tail.epoch})
        ranks = [self.epochs.index(epoch) for epoch in [*page.epochs, page.tail.epoch]]
        numbers = [event.seq for event in log]
        tail = (page.tail.seq, page.tail.ended)
        return page.valid, page.first_seq, numbers, kinds, ranks, tail


@asynccontextmanager
async def both(url: str) -> AsyncIterator[tuple[Ground, Ground]]:
    config = RelayConfig(max_attempts=3)
    async with open_ground("memory", "", config) as memory, open_ground("redis", url, config) as r:
        yield memory, r


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(calls=st.lists(op, max_size=25))
async def test_memory_and_redis_answer_any_calls_alike(redis_url: str, calls: list[Any]) -> None:
    """PROTOCOL 1 to 9: so what is tested on memory holds on Redis."""
    response_id = "resp_0_" + "a" * 32
    async with both(redis_url) as grounds:
        memory, redis = [Player(ground, response_id) for ground in grounds]
        for call in [*START, *calls, ("read", 0, 9)]:
            said = [await player.play(*call) for player in (memory, redis)]
            assert said[0] == said[1], call
