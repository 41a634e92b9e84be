"""A worker that an operator has drained: it takes nothing new, and ends what it has."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from relay import supervisor
from relay.supervisor import Supervisor
from tests.relay.actors import MODEL
from tests.waiting import wait_until

if TYPE_CHECKING:
    import pytest

    from relay.config import RelayConfig
    from tests.relay.stage import Stage


async def test_a_drained_worker_takes_no_job_until_it_may_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "TAKE_S", 0.01)
    rid, call = await stage.asked()  # the stage's own worker has it
    call.say("a")
    drained = {"second", stage.supervisor.worker}
    asked: list[str] = []

    def takes(worker: str) -> bool:
        asked.append(worker)
        return worker not in drained

    second = Supervisor(
        stage.store,
        stage.hub,
        stage.records,
        lambda: {"scripted": MODEL},
        stage.config,
        upstream=stage.upstream,
        takes=takes,
        worker="second",
    )
    monkeypatch.setattr(stage.supervisor, "_takes", takes)
    second.start()
    call.end()
    assert (await stage.outcome(rid)).snapshot.status == "completed"
    before = len(asked)
    await wait_until(lambda: asked[before:].count(stage.supervisor.worker) >= 2, "a drained look")
    waiting = await stage.ask()
    before = len(asked)
    await wait_until(lambda: asked[before:].count("second") >= 5, "more drained looks")
    assert len(stage.upstream.calls) == 1
    drained.discard("second")
    call = await stage.call(1)
    call.end()
    assert (await stage.outcome(waiting.rid)).worker == "second"
    await second.aclose()


async def test_a_worker_whose_places_are_all_taken_drains_in_time(
    stage: Stage, config: RelayConfig
) -> None:
    """PROTOCOL 9.3: nobody waits for a place to become free before the rest is interrupted."""
    await stage.supervisor.aclose()
    full = replace(config, max_generations_per_worker=1, drain_s=0.1)
    stage.supervisor = stage.another("full", full)
    stage.supervisor.start()
    rid, call = await stage.asked()
    call.say("Hello")
    await stage.until_text(rid, "Hello")
    async with asyncio.timeout(20):
        await stage.supervisor.drain()
    end = (await stage.outcome(rid)).snapshot
    assert (end.status, end.reason, end.text) == ("interrupted", "shutdown", "Hello")


async def test_a_supervisor_that_is_closed_lets_go_of_its_upstreams(stage: Stage) -> None:
    """Law 7: what nobody writes down any more is not generated any more."""
    rid, call = await stage.asked()
    call.say("Hello")
    await stage.until_text(rid, "Hello")
    await stage.supervisor.aclose()
    await wait_until(lambda: stage.upstream.open_calls == 0, "the upstream to be closed")
