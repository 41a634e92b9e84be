"""Asking a provider and noting what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from relay.config import ModelConfig, RelayConfig
from relay.errors import UpstreamError
from relay.fold import fold
from relay.request import GenerationRequest

if TYPE_CHECKING:
    from relay import events as ev
    from relay.errors import ErrorKind
    from relay.upstream import Call, Upstream
    from tests.scripted import (
        Request,
        ScriptedUpstream,
    )

QUICK = RelayConfig(connect_s=2.0, first_byte_s=5.0, read_s=5.0)


def asking(text: str) -> GenerationRequest:
    return GenerationRequest(
        response_id="r1",
        model="scripted",
        messages=[{"role": "user", "content": text}],
        created_at="2026-03-01T12:00:00Z",
    )


class Heard:
    """What one call gave."""

    def __init__(self) -> None:
        self.events: list[ev.Event] = []
        self.call: Call | None = None
        self.error: UpstreamError | None = None

    @property
    def text(self) -> str:
        return fold(self.events).text

    @property
    def kind(self) -> ErrorKind:
        assert self.error is not None
        return self.error.kind


async def hear(upstream: Upstream, text: str, model: ModelConfig) -> Heard:
    heard = Heard()
    try:
        async with upstream.open(asking(text), model) as call:
            heard.call = call
            async for events in call:
                assert events
                heard.events += events
    except UpstreamError as error:
        heard.error = error
    return heard


async def closed_by(provider: ScriptedUpstream, leaving: Coroutine[Any, Any, None]) -> Request:
    """Run `leaving` and return the request once the provider saw its connection closed."""
    await leaving
    await asyncio.wait_for(provider.last.closed.wait(), 2)
    assert provider.last.state == "closed"
    return provider.last
