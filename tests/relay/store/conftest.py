"""Every contract test runs on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from relay.config import RelayConfig
from tests.relay.store.ground import KINDS, Ground, open_ground

if TYPE_CHECKING:
    from relay.store import Store

OpenGround = Callable[..., Awaitable[Ground]]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def new_ground(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[OpenGround]:
    """Opens a ground with these settings: `await new_ground(lease_s=1)`."""
    # Not asked for in the signature: a test on memory needs no server.
    url: str = request.getfixturevalue("redis_url") if kind == "redis" else ""
    async with AsyncExitStack() as stack:

        async def opened(**settings: Any) -> Ground:
            return await stack.enter_async_context(open_ground(kind, url, RelayConfig(**settings)))

        yield opened


@pytest.fixture
async def ground(new_ground: OpenGround) -> Ground:
    return await new_ground()


@pytest.fixture
def store(ground: Ground) -> Store:
    return ground.store
