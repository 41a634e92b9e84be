"""A thousand stops at any moment: every connection is closed, and nothing is left behind."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from relay.fold import text_sha256
from tests.relay.upstream.answering import Answering, answering
from tests.scripted import Done, Hang, Head, Pause, Say, ScriptedUpstream, Status, Step
from tests.scripted.speech import PATHS
from tests.waiting import wait_until

if TYPE_CHECKING:
    import pytest

    from relay.upstream import Upstream

STOPS = 1_000
AT_ONCE = 50
LATEST_S = 0.1
"""Of a stop, after the question: the scripts below talk for less."""


def scripts() -> dict[str, list[Step]]:
    words: list[Step] = [step for i in range(5) for step in (Say(f"word{i} "), Pause(1))]
    return {
        "silent": [Hang()],
        "slow": [Head(), Hang()],
        "endless": [*words, Hang()],
        "usual": [*words, Done()],
        "large": [Say("x" * 200_000), Hang()],
        "broken": [Status(500, b"")],  # its stop may come during the pause before the retry
    }


def sockets() -> int:
    return len(psutil.Process().net_connections("tcp"))


def pool(upstream: Upstream) -> tuple[int, int]:
    """Connections that are lent out, and those kept for later."""
    session = upstream._connections._session
    if session is None:
        return 0, 0
    kept = session.connector._conns.values()  # type: ignore[union-attr]
    return len(session.connector._acquired), sum(map(len, kept))  # type: ignore[union-attr]


async def asked_and_stopped(worker: Answering, text: str, model: str, after_s: float) -> str:
    rid = await worker.begin(text, model)
    with suppress(TimeoutError):
        await asyncio.wait_for(worker.outcome(rid), after_s)
    await worker.stop(rid)
    end = (await worker.outcome(rid)).snapshot
    assert end.text_sha256 == text_sha256(end.text)
    return end.status.value


async def test_a_thousand_stops_leave_no_connection_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("relay.upstream.connections.KEEP_ALIVE_S", 0.2)
    moments = random.Random(20_260_301)
    ends: Counter[str] = Counter()
    async with ScriptedUpstream() as provider:
        for name, script in scripts().items():
            provider.script(name, *script)
        # One circuit each, and none that opens: a stop must find somebody who was asked.
        models = {
            dialect: provider.model_config(dialect, dialect=dialect, upstream_model=dialect)
            for dialect in PATHS
        }
        monkeypatch.setattr("relay.upstream.circuit.FAILURES", STOPS)
        async with answering(models) as worker:

            async def nothing_open() -> bool:
                return pool(worker.upstream) == (0, 0) and provider.open_connections == 0

            await worker.outcome(await worker.begin("say:1", "openai-chat"))
            await wait_until(nothing_open, "the start")
            before = sockets()
            for _ in range(STOPS // AT_ONCE):
                stopped = (
                    asked_and_stopped(
                        worker,
                        moments.choice(list(scripts())),
                        moments.choice(list(PATHS)),
                        moments.uniform(0, LATEST_S),
                    )
                    for _ in range(AT_ONCE)
                )
                ends.update(await asyncio.gather(*stopped))
            await wait_until(nothing_open, "every connection to be closed")
            # A test before this one may have left one to be closed meanwhile.
            assert sockets() <= before
    states = Counter(request.state for request in provider.requests)
    assert set(states) == {"done", "closed"}
    assert not any(request.bytes_after_close for request in provider.requests)
    assert sum(ends.values()) == STOPS
    assert ends["cancelled"] > STOPS // 2
    assert states["closed"] > STOPS // 3
