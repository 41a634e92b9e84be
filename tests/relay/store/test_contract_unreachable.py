"""A store that does not answer says so, by one name, whatever it was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from relay.config import RelayConfig
from relay.errors import StoreUnavailable
from relay.request import GenerationRequest
from relay.store import Job, Lease, MemoryStore, RedisStore
from tests.relay.store.words import AT, CANCELLED, QUEUED_OVER, RUNNING_OVER, batch, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from relay.store import Store

RID = "resp_0_" + "0" * 32
LEASE = Lease(Job(0, "1-0", RID), "a", epoch=1, lease_until_ms=1)
REQUEST = GenerationRequest(response_id=RID, model="fast", messages=[], created_at=AT)

CALLS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "ping": lambda s: s.ping(),
    "room": lambda s: s.room(),
    "create": lambda s: s.create(REQUEST, upstream_model="small"),
    "take": lambda s: s.take(0, "a", 1, 0),
    "reclaim": lambda s: s.reclaim(0, "a", 1, 0),
    "claim": lambda s: s.claim(LEASE.job, "a", at=AT),
    "renew": lambda s: s.renew(LEASE),
    "release": lambda s: s.release(LEASE),
    "ack": lambda s: s.ack(LEASE.job),
    "close": lambda s: s.close(batch(LEASE, 3, text("x"))),
    "cancel": lambda s: s.cancel(RID, "user", ended=CANCELLED),
    "expire": lambda s: s.expire(RID, queued=QUEUED_OVER, running=RUNNING_OVER),
    "retire": lambda s: s.retire(RID),
    "read": lambda s: s.read(RID, after=0),
    "tails": lambda s: s.tails([RID, RID]),
    "attend": lambda s: s.attend(RID, "u1/a"),
    "beat": lambda s: s.beat([(RID, "u1/a", 1), (RID, "u1/b", 1)]),
    "leave": lambda s: s.leave(RID, "u1/a"),
    "abandoned": lambda s: s.abandoned([RID, RID]),
    "delivered": lambda s: s.delivered(RID),
    "counted": lambda s: s.counted(RID),
    "pulses": lambda s: s.pulses([RID, RID]),
    "workers": lambda s: s.workers(0, 60),
    "report_upstreams": lambda s: s.report_upstreams("a", b"{}", 1),
    "upstreams": lambda s: s.upstreams(),
}


@pytest.fixture
async def dead_store(kind: str) -> AsyncIterator[Store]:
    if kind == "memory":
        memory = MemoryStore(RelayConfig())
        memory.faults.unreachable = True
        yield memory
        return
    store = RedisStore("redis://127.0.0.1:1/0", RelayConfig())  # nobody listens on port 1
    yield store
    await store.aclose()


@pytest.mark.parametrize("name", CALLS)
async def test_every_call_of_an_unreachable_store_raises_one_error(
    dead_store: Store, name: str
) -> None:
    with pytest.raises(StoreUnavailable):
        await CALLS[name](dead_store)


async def test_each_batch_for_an_unreachable_store_is_answered_with_the_error(
    dead_store: Store,
) -> None:
    """PROTOCOL 3: its outcome is unknown; the writer sends it again."""
    batches = [batch(LEASE, 3, text("x")), batch(LEASE, 3, text("y"))]
    answers = await dead_store.append(batches)
    assert [type(answer) for answer in answers] == [StoreUnavailable, StoreUnavailable]
