"""Both stores, and a writer that makes logs for tests that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis

from relay.config import RelayConfig
from relay.hub import Hub
from relay.store import MemoryStore, RedisStore, Store
from tests.relay.actors import MemoryRecords, PuppetUpstream
from tests.relay.scribe import Scribe
from tests.relay.stage import Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# Short enough that a test may wait for it, long enough for a busy machine.
CONFIG = RelayConfig(check_s=0.2, lease_s=5.0, renew_s=0.5, take_over_s=0.2, upstream_retries=0)


@pytest.fixture
def config() -> RelayConfig:
    return CONFIG


@pytest.fixture(params=["memory", "redis"])
async def store(request: pytest.FixtureRequest, config: RelayConfig) -> AsyncIterator[Store]:
    made: Store
    if request.param == "memory":
        made = MemoryStore(config)
    else:
        url: str = request.getfixturevalue("redis_url")
        with redis.Redis.from_url(url) as client:
            client.flushall()  # a job left by an earlier test would be run by this one's supervisor
        made = RedisStore(url, config)
    yield made
    await made.aclose()


@pytest.fixture
async def hub(store: Store, config: RelayConfig) -> AsyncIterator[Hub]:
    made = Hub(store, config)
    made.start()
    yield made
    await made.aclose()


@pytest.fixture
def scribe(store: Store) -> Scribe:
    return Scribe(store)


@pytest.fixture
async def stage(store: Store, hub: Hub, config: RelayConfig) -> AsyncIterator[Stage]:
    made = Stage(store, hub, config, PuppetUpstream(), MemoryRecords(), None)  # type: ignore[arg-type]
    made.supervisor = made.another("first")
    made.supervisor.start()
    yield made
    await made.supervisor.aclose()
