"""PROTOCOL 10 end to end in one process: the store forgets, the writer lives, nobody notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from relay import events as ev
from relay.follow import follow
from relay.generate import End, Outcome, ended
from relay.store import Cancelled, Store, fold_log
from relay.supervisor import Supervisor
from tests.relay.actors import MODEL, MemoryRecords, PuppetCall, PuppetUpstream
from tests.relay.losses import lose_everything, promote, replica_of
from tests.relay.reader import Reader
from tests.relay.scribe import Scribe
from tests.waiting import wait_until

if TYPE_CHECKING:
    from relay.config import RelayConfig
    from relay.hub import Hub

STOP = ev.encode_event(ended(End.cancelled("user")), 0)


@dataclass
class Stage:
    store: Store
    url: str
    hub: Hub
    upstream: PuppetUpstream
    records: MemoryRecords
    supervisor: Supervisor
    rid: str = ""

    async def create(self) -> None:
        scribe = Scribe(self.store)
        self.rid = scribe.rid
        self.records.requests[self.rid] = scribe.request()
        await scribe.create()

    async def ask(self) -> PuppetCall:
        await self.create()
        return await self.run()

    async def run(self) -> PuppetCall:
        self.supervisor.start()
        await wait_until(lambda: self.upstream.calls, "the upstream to be asked")
        return self.upstream.calls[-1]

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Reader]:
        """A viewer with one connection, from before what happens until the end."""
        reader = Reader()
        reading = asyncio.create_task(reader.read(await follow(self.hub, self.rid)))
        await wait_until(lambda: reader.cursor >= 2, "the viewer to be live")
        yield reader
        async with asyncio.timeout(10):
            await reading

    async def until_text(self, text: str) -> None:
        async def there() -> bool:
            folded = await fold_log(self.store, self.rid)
            return folded is not None and folded[0].text == text

        await wait_until(there, f"{text!r} in the log", timeout=10)

    async def recorded(self) -> str:
        outcome = await wait_until(
            lambda: self.records.outcomes.get(self.rid), "the record", timeout=15
        )
        return outcome.snapshot.text

    async def lose(self) -> None:
        await lose_everything(self.store, self.url)


@pytest.fixture
async def stage(
    store: Store, hub: Hub, config: RelayConfig, request: pytest.FixtureRequest
) -> AsyncIterator[Stage]:
    in_redis = "redis" in type(store).__name__.lower()
    url: str = request.getfixturevalue("redis_url") if in_redis else ""
    upstream, records = PuppetUpstream(), MemoryRecords()
    models = {"scripted": MODEL}
    supervisor = Supervisor(store, hub, records, lambda: models, config, upstream=upstream)
    yield Stage(store, url, hub, upstream, records, supervisor)
    await supervisor.aclose()


async def test_a_server_emptied_in_mid_text_loses_nothing(stage: Stage) -> None:
    call = await stage.ask()
    async with stage.watched() as reader:
        call.say("before ")
        await stage.until_text("before ")
        await stage.lose()
        call.say("after")
        await stage.until_text("before after")
        call.end()
    reader.check_whole("before after")
    assert await stage.recorded() == "before after"
    assert len(stage.upstream.calls) == 1


async def test_a_server_emptied_in_a_silence_is_told_by_a_renewal(stage: Stage) -> None:
    call = await stage.ask()
    async with stage.watched() as reader:
        call.say("thinking …")
        await stage.until_text("thinking …")
        await stage.lose()
        await stage.until_text("thinking …")
        call.end()
    reader.check_whole("thinking …")
    assert reader.snapshots == 0, "the restored log has the same numbers and epochs"


async def test_a_lost_tail_is_written_again_also_in_a_silence(stage: Stage) -> None:
    call = await stage.ask()
    async with stage.watched() as reader:
        call.say("kept ")
        await stage.until_text("kept ")
        replica = await replica_of(stage.store, stage.url)
        shown = "kept "
        for word in range(50):
            call.say(f"{word} ")
            shown += f"{word} "
            await stage.until_text(shown)
        await wait_until(lambda: reader.text == shown, "the viewer to have it all")
        await promote(stage.store, stage.url, replica)
        await stage.until_text(shown)
        call.say("end")
        call.end()
    reader.check_whole(shown + "end")
    assert await stage.recorded() == shown + "end"


async def test_a_claim_that_was_lost_is_restored_with_its_text(stage: Stage) -> None:
    """The replica knows the answer as queued; the grace keeps others from claiming it."""
    await stage.create()
    replica = await replica_of(stage.store, stage.url)
    call = await stage.run()
    async with stage.watched() as reader:
        call.say("shown ")
        await stage.until_text("shown ")
        await promote(stage.store, stage.url, replica)
        await stage.until_text("shown ")
        call.say("whole")
        call.end()
    reader.check_whole("shown whole")
    assert len(stage.upstream.calls) == 1


async def test_an_end_that_is_lost_before_its_record_is_recorded_by_its_writer(
    stage: Stage,
) -> None:
    """PROTOCOL 8.2: the database is away when the log ends, and then the log is lost."""
    call = await stage.ask()
    async with stage.watched() as reader:
        call.say("all of it")
        await stage.until_text("all of it")
        stage.records.away = 3
        call.end()
    await stage.lose()
    assert await stage.recorded() == "all of it"
    assert stage.records.outcomes[stage.rid].snapshot.status == "completed"
    reader.check_whole("all of it")


async def test_an_end_that_is_lost_after_its_record_is_put_back(stage: Stage) -> None:
    """PROTOCOL 8.3: an open log is not acked."""
    call = await stage.ask()
    call.say("all of it")
    await stage.until_text("all of it")
    replica = await replica_of(stage.store, stage.url)
    finalize, lost = stage.records.finalize, asyncio.Event()

    async def lossy(outcome: Outcome) -> None:
        await finalize(outcome)
        if not lost.is_set():
            await promote(stage.store, stage.url, replica)
            lost.set()

    stage.records.finalize = lossy  # type: ignore[method-assign]
    call.end()
    await lost.wait()  # until then the log is closed for the first time

    async def closed() -> bool:
        folded = await fold_log(stage.store, stage.rid)
        return folded is not None and folded[0].ended

    await wait_until(closed, "the log to be closed again")
    folded = await fold_log(stage.store, stage.rid)
    assert folded is not None
    assert folded[0] == stage.records.outcomes[stage.rid].snapshot


async def test_a_stop_that_was_heard_outlives_the_server(stage: Stage) -> None:
    """PROTOCOL 6.4: it is `cancelled`, by who closed its upstream, with the text so far."""
    call = await stage.ask()
    async with stage.watched() as reader:
        call.say("enough")
        await stage.until_text("enough")
        await stage.lose()
        await stage.until_text("enough")
        assert await stage.store.cancel(stage.rid, "user", ended=STOP) is Cancelled.FLAGGED
    assert reader.ended is not None
    assert (reader.ended["status"], reader.ended["reason"]) == ("cancelled", "user")
    reader.check_whole("enough")
    assert call.aborted
