"""PROTOCOL 6 and 7.4 inside one process: a stop is heard, and closes the upstream first."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from relay.fold import text_sha256
from relay.generate import conclude
from relay.request import Disconnect
from relay.store import Cancelled, Store, fold_log
from tests.relay.actors import MemoryRecords, PuppetUpstream
from tests.relay.stage import STOP, Stage
from tests.waiting import wait_until

if TYPE_CHECKING:
    from relay.config import RelayConfig
    from relay.hub import Hub


async def test_a_stop_in_mid_text_closes_the_upstream_first_and_keeps_the_text(
    stage: Stage,
) -> None:
    """PROTOCOL 6.3, 6.4; law 7."""
    rid, call = await stage.asked()
    call.say("kept")
    await stage.until_text(rid, "kept")
    assert await stage.store.cancel(rid, "user", ended=STOP) is Cancelled.FLAGGED
    snapshot = (await stage.outcome(rid)).snapshot
    assert (snapshot.status, snapshot.reason, snapshot.text) == ("cancelled", "user", "kept")
    assert snapshot.text_sha256 == text_sha256("kept")
    assert call.aborted
    read = call.read
    call.say("late")
    await asyncio.sleep(0)
    assert call.read == read, "nothing is read from an upstream after `cancelled`"
    assert await stage.text(rid) == "kept"


async def test_a_stop_before_the_first_token_cancels(stage: Stage) -> None:
    rid, call = await stage.asked()
    assert await stage.store.cancel(rid, "admin", ended=STOP) is Cancelled.FLAGGED
    snapshot = (await stage.outcome(rid)).snapshot
    assert (snapshot.status, snapshot.reason, snapshot.text) == ("cancelled", "admin", "")
    assert call.aborted


async def test_a_stop_whose_wake_up_is_lost_is_heard_at_the_next_renewal(
    stage: Stage, store: Store
) -> None:
    """PROTOCOL 6.6: the upstream is silent, the message never came."""
    stage.hub._on_stop.clear()
    rid, call = await stage.asked()
    await store.cancel(rid, "user", ended=STOP)
    assert (await stage.outcome(rid)).snapshot.status == "cancelled"
    assert call.aborted


async def test_a_stop_is_heard_by_the_next_append_when_everything_else_is_lost(
    store: Store, hub: Hub, config: RelayConfig
) -> None:
    stage = Stage(store, hub, config, PuppetUpstream(), MemoryRecords(), None)  # type: ignore[arg-type]
    stage.supervisor = stage.another("deaf", replace(config, renew_s=60.0))
    stage.supervisor.start()
    hub._on_stop.clear()
    rid, call = await stage.asked()
    await store.cancel(rid, "user", ended=STOP)
    call.say("x")
    assert (await stage.outcome(rid)).snapshot.status == "cancelled"
    await stage.supervisor.aclose()


async def test_a_stop_after_the_end_changes_nothing(stage: Stage) -> None:
    rid, call = await stage.asked()
    call.say("done")
    call.end()
    await stage.outcome(rid)
    assert await stage.store.cancel(rid, "user", ended=STOP) is Cancelled.ENDED
    assert (await conclude(stage.store, rid)).snapshot.status == "completed"


async def test_two_hundred_stops_at_any_moment_all_end_as_cancelled_or_completed(
    stage: Stage,
) -> None:
    """Law 3 and 7: one end each, and never a word read after it."""

    async def one(i: int) -> None:
        scribe = await stage.ask()
        for _ in range(i % 23):
            await asyncio.sleep(0)
        await stage.store.cancel(scribe.rid, "user", ended=STOP)

    talking = asyncio.create_task(_talk(stage.upstream))
    await asyncio.gather(*(one(i) for i in range(200)))
    await wait_until(lambda: len(stage.records.requests) == 200, "all asked")

    async def all_ended() -> bool:
        # Not by folding: two hundred folds a look, of logs that grow, leave the writers no time to
        # renew on a busy machine, and what has lost its lease ends as `interrupted`.
        tails = await stage.store.tails(list(stage.records.requests))
        return all(tail is not None and tail.ended for tail in tails)

    await wait_until(all_ended, "all ended", timeout=20)
    for rid in stage.records.requests:
        folded = await fold_log(stage.store, rid)
        assert folded is not None
        assert folded[0].status == "cancelled"
        assert folded[0].text_sha256 == text_sha256(folded[0].text)
    assert stage.upstream.open_calls == 0
    talking.cancel()


async def _talk(upstream: PuppetUpstream) -> None:
    while True:
        for call in upstream.calls:
            if not call.closed.is_set():
                call.say("token ")
        await asyncio.sleep(0.002)


async def test_an_abandoned_answer_is_stopped(stage: Stage) -> None:
    """PROTOCOL 7.4: a leave of the last viewer, then the short timer."""
    rid, call = await stage.asked(Disconnect(cancel_after_s=300, leave_after_s=0))
    call.say("anybody there?")
    await stage.store.attend(rid, "me/1")
    await stage.store.leave(rid, "me/1")
    snapshot = (await stage.outcome(rid)).snapshot
    assert (snapshot.status, snapshot.reason) == ("cancelled", "abandoned")
    assert call.aborted
