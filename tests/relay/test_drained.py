"""A worker that an operator has drained: it takes nothing new, and ends what it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relay import supervisor
from relay.supervisor import Supervisor
from tests.relay.actors import MODEL
from tests.waiting import wait_until

if TYPE_CHECKING:
    import pytest

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
