"""One store, one hub, at most one supervisor per loop; started once and drained at the end."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from chatapp import runtime
from relay import MemoryStore, RecordUnavailable, RedisStore
from tests.waiting import wait_until

if TYPE_CHECKING:
    import pytest


class Nothing:
    """Records that are never asked."""

    async def load(self, response_id: str) -> Any: ...
    async def finalize(self, outcome: Any) -> None: ...


class Sweeps:
    def __init__(self, *errors: Exception) -> None:
        self.count = 0
        self._errors = list(errors)

    async def __call__(self) -> None:
        self.count += 1
        if self._errors:
            raise self._errors.pop(0)


async def test_everybody_on_a_loop_shares_one(store: MemoryStore) -> None:
    assert runtime.store() is store
    assert runtime.hub() is runtime.hub()
    assert runtime.hub().store is store


async def test_redis_is_what_a_site_uses(settings: Any) -> None:
    assert isinstance(runtime.store(), RedisStore)
    await runtime.stop()
    await runtime.stop()


async def test_starting_twice_starts_once(store: MemoryStore) -> None:
    made = []

    def make_sweep() -> Sweeps:
        made.append(Sweeps())
        return made[-1]

    for _ in range(2):
        runtime.start(records=Nothing(), make_sweep=make_sweep, supervise=False)
    await wait_until(lambda: made[0].count, "the sweep at start")
    assert len(made) == 1
    assert runtime.current().supervisor is None


async def test_a_sweep_that_fails_is_tried_again(
    store: MemoryStore, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.RELAY = dataclasses.replace(settings.RELAY, sweep_s=0.001)
    sweeps = Sweeps(RecordUnavailable("away"), ZeroDivisionError("a bug"))
    runtime.start(records=Nothing(), make_sweep=lambda: sweeps, supervise=False)
    await wait_until(lambda: sweeps.count >= 3, "the third sweep")
    assert "sweep put off: away" in caplog.text
    assert "sweep failed" in caplog.text


async def test_nothing_is_left_running(store: MemoryStore) -> None:
    before = asyncio.all_tasks()
    async with runtime.using():
        runtime.start(records=Nothing(), make_sweep=Sweeps, supervise=True)
        supervisor = runtime.current().supervisor
        assert supervisor is not None
        assert supervisor.running == 0
        assert "Supervisor" in repr(runtime.current())
    left = [task for task in asyncio.all_tasks() - before if not task.done()]
    assert left == []


async def test_a_worker_is_seen_by_readyz(store: MemoryStore) -> None:
    runtime.start(records=Nothing(), make_sweep=Sweeps, supervise=True)

    async def seen() -> int:
        return await store.workers(0, 5)

    await wait_until(seen, "the supervisor to ask for jobs")
