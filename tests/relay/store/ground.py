"""The ground on which both stores keep one contract: a clock to wait on, and short calls.

On the memory store waiting means to move its clock. On Redis it means to watch the server's own
clock, because leases and presences are judged by that one and by no other.
"""

from __future__ import annotations

import uuid
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import redis.asyncio

from relay import events as ev
from relay.request import Disconnect, GenerationRequest
from relay.store import Claim, Job, Kept, Lease, MemoryStore, RedisStore, Reply, Store, keys
from relay.store.protocol import Appended, Claimed
from tests.relay.losses import lose_everything, promote, replica_of
from tests.relay.store.words import AT, ENDED, batch, leased
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from relay.config import RelayConfig

HASTY_S = 0.05
"""Lease of `Ground.hasty` on Redis: short enough to wait for, long enough to be noticed."""
STEP_S = 0.01
LONG_S = 3600.0
"""Since when a ground's server is known: a new one is a matter of its own (PROTOCOL 10)."""
KINDS = ("memory", "redis")
CLUSTER = "cluster"
"""A third kind, for the files that CLUSTER_FILES of conftest.py names."""


@dataclass
class Clock:
    """Seconds; stands still unless a test moves it."""

    now_s: float = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(kw_only=True)
class Ground:
    store: Store
    second: Store
    """The same responses through another process's store; on memory there is only one."""
    hasty: Store
    """The same responses, but what it prolongs lapses soon."""
    config: RelayConfig
    clock: Clock | None = None
    """Set on memory."""
    client: redis.asyncio.Redis | None = None
    """Set on Redis; of a cluster, to the node of shard 0."""
    url: str = ""
    """Of that server."""
    jobs: list[Job] = field(default_factory=list)

    # -- time -----------------------------------------------------------------------------------
    async def now_ms(self) -> int:
        if self.clock is not None:
            return int(self.clock() * 1000)
        assert self.client is not None
        seconds, micros = await self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    async def until_ms(self, at_ms: float) -> None:
        """Return once the store's clock is past `at_ms`."""
        if self.clock is not None:
            self.clock.now_s = max(self.clock.now_s, (at_ms + 1) / 1000)

        async def past() -> Any:
            return await self.now_ms() > at_ms

        await wait_until(past, f"the store's clock to pass {at_ms:.0f} ms", timeout=15)

    async def pass_s(self, seconds: float) -> None:
        await self.until_ms(await self.now_ms() + seconds * 1000)

    async def until(self, predicate: Callable[[], Awaitable[Any]], description: str) -> Any:
        """The predicate's first true value. On memory time moves on between two looks."""

        async def look() -> Any:
            value = await predicate()
            if not value and self.clock is not None:
                self.clock.now_s += STEP_S
            return value

        return await wait_until(look, description)

    async def lapse(self, lease: Lease) -> None:
        """Let the lease run out, if it is one that still runs."""
        reply = await self.hasty.renew(lease)
        if reply.outcome is not Appended.FENCED:
            await self.until_ms(lease.lease_until_ms)

    # -- losses (PROTOCOL 10) ---------------------------------------------------------------------
    async def lose_everything(self) -> None:
        await lose_everything(self.store, self.url)

    async def replica(self) -> Any:
        return await replica_of(self.store, self.url)

    async def promote(self, replica: Any) -> None:
        await promote(self.store, self.url, replica)

    async def kept(self, lease: Lease, attempt: int = 1, **changes: Any) -> Kept:
        """What the writer of this log has, which is all that is in it now."""
        page = await self.store.read(lease.response_id, after=0, max_bytes=10_000_000)
        assert page is not None
        content = any(isinstance(ev.decode_event(data), ev.CONTENT) for data in page.events)
        kept = Kept(
            lease=lease,
            request=await self.request(lease.response_id, Disconnect(cancel_after_s=300)),
            upstream_model="small",
            attempt=attempt,
            events=page.events,
            epochs=page.epochs,
            ended=page.tail.ended,
            has_content=content,
            content_bytes=sum(map(len, page.events)) if content else 0,
            output_tokens=7,
            stop_reason=None,
        )
        return replace(kept, **changes)

    # -- words ----------------------------------------------------------------------------------
    async def create(
        self, policy: Disconnect | None = None, *, age_s: float = 0, shard: int = 0
    ) -> str:
        """A queued response; its id."""
        response_id = f"resp_{shard}_{uuid.uuid4().hex}"
        request = await self.request(response_id, policy or Disconnect(), age_s=age_s)
        assert await self.store.create(request, upstream_model="small")
        return response_id

    async def request(
        self, response_id: str, policy: Disconnect | None = None, *, age_s: float = 0
    ) -> GenerationRequest:
        created_s = await self.now_ms() / 1000 - age_s
        return GenerationRequest(
            response_id=response_id,
            model="fast",
            messages=[{"role": "user", "content": "hello"}],
            created_at=datetime.fromtimestamp(created_s, UTC).isoformat(),
            on_disconnect=policy or Disconnect(),
        )

    async def take(self, response_id: str, worker: str = "a") -> Job:
        """The newest job of this response; others that come with it are only put aside."""

        async def look() -> Job | None:
            self.jobs += await self.store.take(0, worker, 100, 0)
            mine = [job for job in self.jobs if job.response_id == response_id]
            return mine[-1] if mine else None

        job: Job = await self.until(look, "the job to be handed out")
        return job

    async def run(
        self, worker: str = "a", policy: Disconnect | None = None, *, age_s: float = 0
    ) -> Lease:
        """A new response that this worker runs: `created` and `started` are in the log."""
        job = await self.take(await self.create(policy, age_s=age_s), worker)
        claim = await self.claim(job, worker)
        assert claim.outcome is Claimed.RUN
        return leased(claim)

    async def claim(self, job: Job, worker: str = "b") -> Claim:
        return await self.store.claim(job, worker, at=AT)

    async def succeed(self, lease: Lease, worker: str = "b") -> Lease:
        """Another worker claims after this lease has run out."""
        await self.lapse(lease)
        return leased(await self.claim(lease.job, worker))

    async def append(self, lease: Lease, first_seq: int, *events: ev.Event) -> Reply:
        (answer,) = await self.store.append([batch(lease, first_seq, *events)])
        assert isinstance(answer, Reply)
        return answer

    async def close(self, lease: Lease, first_seq: int, *events: ev.Event) -> Reply:
        return await self.store.close(batch(lease, first_seq, *events, ENDED))

    async def log(self, response_id: str) -> list[ev.AnyEvent]:
        return [ev.decode_event(data) for data in await self.lines(response_id)]

    async def lines(self, response_id: str) -> list[bytes]:
        page = await self.store.read(response_id, after=0, max_bytes=10_000_000)
        assert page is not None
        return page.events

    async def types(self, response_id: str) -> list[str]:
        return [str(event.__struct_config__.tag) for event in await self.log(response_id)]

    async def texts(self, response_id: str) -> list[str]:
        log = await self.log(response_id)
        return [event.delta for event in log if isinstance(event, ev.TextDelta)]

    async def ttls_ms(self) -> dict[str, int]:
        """Key → time to live, of every key but a shard's own, which stay. Redis only."""
        assert self.client is not None
        names = [str(name) for name in await self.client.keys()]
        shards = (":jobs", ":run")
        return {name: await self.client.pttl(name) for name in names if not name.endswith(shards)}

    async def break_subscriptions(self) -> None:
        if isinstance(self.store, MemoryStore):
            self.store.lose_subscriptions()
        else:
            assert self.client is not None
            await self.client.client_kill_filter(_type="pubsub")


@asynccontextmanager
async def open_ground(
    kind: str, url: str, config: RelayConfig, *, node_url: str = ""
) -> AsyncIterator[Ground]:
    """`node_url` is the node of shard 0, where `url` is a cluster's."""
    async with AsyncExitStack() as stack:
        if kind == "memory":
            clock = Clock()
            memory = MemoryStore(config, clock=clock)
            stack.push_async_callback(memory.aclose)
            await memory.notice(0)
            clock.now_s += LONG_S
            yield Ground(store=memory, second=memory, hasty=memory, config=config, clock=clock)
            return
        stores = [RedisStore(url, config), RedisStore(url, config)]
        stores.append(RedisStore(url, replace(config, lease_s=HASTY_S)))
        for store in stores:
            stack.push_async_callback(store.aclose)
        node_url = node_url or url
        client = redis.asyncio.Redis.from_url(node_url, decode_responses=True)
        stack.push_async_callback(client.aclose)
        await client.flushall()
        await stores[0].notice(0)
        await client.hset(keys.run(0), "noticed", "0")
        ground = Ground(
            store=stores[0],
            second=stores[1],
            hasty=stores[2],
            config=config,
            client=client,
            url=node_url,
        )
        yield ground
        immortal = [name for name, ttl_ms in (await ground.ttls_ms()).items() if ttl_ms < 0]
        assert immortal == [], "keys that would stay for ever"
