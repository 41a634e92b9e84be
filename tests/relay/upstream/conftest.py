"""A scripted provider and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from relay.upstream import Upstream
from tests.relay.upstream.hearing import QUICK
from tests.scripted import (
    ScriptedUpstream,
)


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as server:
        yield server


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    client = Upstream(QUICK)
    yield client
    await client.aclose()
