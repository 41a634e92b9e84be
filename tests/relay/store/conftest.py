"""Every contract test runs on both stores, and some on a cluster, too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from relay.config import RelayConfig
from relay.store import keys
from tests.relay.store.ground import CLUSTER, KINDS, Ground, open_ground
from tests.valkey_cluster import PrivateCluster

if TYPE_CHECKING:
    from relay.store import Store

OpenGround = Callable[..., Awaitable[Ground]]


CLUSTER_FILES = (
    *("append", "claims", "early", "jobs", "metering", "missed", "presence", "quotas", "read"),
    *("record", "restore", "stop"),
)
"""Of the contract. What loses something is the node of shard 0."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        name = metafunc.module.__name__.rpartition("test_contract_")[2]
        metafunc.parametrize("kind", [*KINDS, *([CLUSTER] if name in CLUSTER_FILES else [])])


@pytest.fixture(scope="session")
def cluster() -> Iterator[PrivateCluster]:
    """Three primaries. A test that kills one starts its own instead."""
    with PrivateCluster() as cluster:
        yield cluster


@pytest.fixture
async def new_ground(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[OpenGround]:
    """Opens a ground with these settings: `await new_ground(lease_s=1)`."""
    # Not asked for in the signature: a test on memory needs no server.
    url, node_url = "", ""
    if kind == "redis":
        url = request.getfixturevalue("redis_url")
    elif kind == CLUSTER:
        cluster: PrivateCluster = request.getfixturevalue("cluster")
        cluster.flush()
        url, node_url = cluster.url, cluster.owner(keys.jobs(0)).url
    async with AsyncExitStack() as stack:

        async def opened(**settings: Any) -> Ground:
            config = RelayConfig(**settings)
            ground = open_ground(kind, url, config, node_url=node_url)
            return await stack.enter_async_context(ground)

        yield opened


@pytest.fixture
async def ground(new_ground: OpenGround) -> Ground:
    return await new_ground()


@pytest.fixture
def store(ground: Ground) -> Store:
    return ground.store
