"""PROTOCOL 2, 3, 8, 9 end to end inside one process: jobs in, exactly one end out."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from relay import events as ev
from relay.config import ModelConfig
from relay.errors import ErrorKind, UpstreamError
from relay.fold import text_sha256
from relay.follow import follow
from relay.hub import Hub
from relay.request import GenerationRequest
from relay.store import Lease, MemoryStore, Reply, Store, fold_log
from relay.supervisor import fallbacks_of
from tests.relay.actors import MemoryRecords, PuppetUpstream
from tests.relay.reader import Reader
from tests.relay.scribe import Scribe
from tests.relay.stage import STOP, Stage
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay.config import RelayConfig


async def test_an_answer_goes_through_the_log_to_viewer_and_record(stage: Stage) -> None:
    rid, call = await stage.asked()
    reader = Reader()
    reading = asyncio.create_task(reader.read(await follow(stage.hub, rid)))
    call.say("Hello", " ", "world")
    call.send(ev.Usage(input_tokens=3, output_tokens=3))
    call.end()
    await reading
    reader.check_whole("Hello world")
    snapshot = (await stage.outcome(rid)).snapshot
    assert (snapshot.status, snapshot.reason, snapshot.text) == ("completed", None, "Hello world")
    assert snapshot.usage == ev.UsageCount(input_tokens=3, output_tokens=3)
    assert (await stage.outcome(rid)).counted_output_tokens == 3
    assert snapshot.timings.first_token_at
    assert snapshot.timings.ended_at


async def test_the_times_tell_how_long_it_reasoned(stage: Stage) -> None:
    rid, call = await stage.asked()
    call.send(ev.ReasoningDelta(delta="hm"))
    await wait_until(lambda: _reasoned(stage, rid), "the reasoning to be in the log")
    call.say("42")
    call.end()
    times = (await stage.outcome(rid)).snapshot.timings
    assert times.first_token_at
    assert times.first_text_at
    assert times.first_token_at <= times.first_text_at


async def test_an_answer_that_only_reasoned_has_no_first_text(stage: Stage) -> None:
    rid, call = await stage.asked()
    call.send(ev.ReasoningDelta(delta="hm"))
    call.end()
    times = (await stage.outcome(rid)).snapshot.timings
    assert times.first_token_at
    assert times.first_text_at is None


async def _reasoned(stage: Stage, rid: str) -> bool:
    folded = await fold_log(stage.store, rid)
    return folded is not None and folded[0].reasoning == "hm"


async def test_a_worker_that_has_just_begun_asks_what_time_it_is(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 9.4; seed 17 of `make chaos`, r1097: a wrong clock ended it as `wall_clock`."""
    wrong = SimpleNamespace(time=lambda: time.time() + 3600, monotonic=time.monotonic)
    monkeypatch.setattr("relay.store.clock.time", wrong)
    rid, call = await stage.asked()
    call.say("in time")
    call.end()
    snapshot = (await stage.outcome(rid)).snapshot
    assert (snapshot.status, snapshot.text) == ("completed", "in time")
    begun = datetime.fromisoformat(snapshot.timings.started_at or "")
    assert abs(begun.timestamp() - time.time()) < 60


@pytest.mark.parametrize(
    ("finish_reason", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("other", "completed", None),
        (None, "completed", None),
        ("length", "incomplete", "max_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
async def test_how_the_model_stopped_decides_the_end(
    stage: Stage, finish_reason: str | None, status: str, reason: str | None
) -> None:
    rid, call = await stage.asked()
    call.say("x")
    call.end(finish_reason)
    snapshot = (await stage.outcome(rid)).snapshot
    assert (snapshot.status, snapshot.reason, snapshot.finish_reason) == (
        status,
        reason,
        finish_reason,
    )


async def test_an_upstream_that_breaks_off_is_a_failure_with_its_text_kept(stage: Stage) -> None:
    """Law 12."""
    rid, call = await stage.asked()
    call.say("half an ")
    call.fail(UpstreamError(ErrorKind.TRUNCATED, "the provider broke off"))
    snapshot = (await stage.outcome(rid)).snapshot
    assert (snapshot.status, snapshot.reason, snapshot.text) == ("failed", "truncated", "half an ")
    assert snapshot.error == ev.Error(
        code="truncated", message="the provider broke off", retryable=True
    )


async def test_our_own_mistake_is_told_as_internal(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    rid, call = await stage.asked()
    call.fail(ZeroDivisionError("oops"))
    snapshot = (await stage.outcome(rid)).snapshot
    assert (snapshot.status, snapshot.reason) == ("failed", "internal")
    assert "oops" not in (snapshot.error.message if snapshot.error else "")
    assert "crashed" in caplog.text


async def test_an_upstream_faster_than_the_store_is_not_read_ahead_of_it(
    store: Store, hub: Hub, config: RelayConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(store, hub, config, PuppetUpstream(), MemoryRecords(), None)  # type: ignore[arg-type]
    stage.supervisor = stage.another("slow store")
    stage.supervisor.start()
    rid, call = await stage.asked()
    gate = asyncio.Event()
    append = store.append

    async def held(batches):
        await gate.wait()
        return await append(batches)

    monkeypatch.setattr(store, "append", held)
    for i in range(100):
        call.send(*[ev.TextDelta(delta=f"{i}.{n} ") for n in range(100)])
    call.end()
    await wait_until(lambda: call.read > 40, "the upstream to be read")
    for _ in range(100):
        await asyncio.sleep(0)
    assert call.read < 60, "about MAX_UNSENT events, then it waits"
    gate.set()
    snapshot = (await stage.outcome(rid)).snapshot
    assert len(snapshot.text.split()) == 10_000
    await stage.supervisor.aclose()


@asynccontextmanager
async def small_log(store: Store, config: RelayConfig) -> AsyncIterator[Stage]:
    """A stage whose logs hold 2,000 bytes."""
    small = replace(config, max_log_bytes=2_000)
    store = MemoryStore(small) if isinstance(store, MemoryStore) else store
    if not isinstance(store, MemoryStore):
        store._config = small  # type: ignore[attr-defined]
    hub = Hub(store, small)
    stage = Stage(store, hub, small, PuppetUpstream(), MemoryRecords(), None)  # type: ignore[arg-type]
    stage.supervisor = stage.another("small")
    stage.supervisor.start()
    yield stage
    await stage.supervisor.aclose()
    await hub.aclose()


async def test_an_answer_longer_than_the_limit_ends_as_log_limit(
    store: Store, config: RelayConfig
) -> None:
    """PROTOCOL 3.5."""
    async with small_log(store, config) as stage:
        rid, call = await stage.asked()
        for i in range(100):
            call.say(f"{i:0100}")
            await asyncio.sleep(0)
        snapshot = (await stage.outcome(rid)).snapshot
        assert (snapshot.status, snapshot.reason) == ("incomplete", "log_limit")
        assert snapshot.text_sha256 == text_sha256(snapshot.text)
        assert 0 < len(snapshot.text) <= 2_000
        assert call.aborted


async def test_chaos_seed_41_r1341_a_broken_answer_says_that_its_last_words_were_refused(
    store: Store, config: RelayConfig
) -> None:
    """PROTOCOL 3.5. It was told as `failed/truncated` with two of 85 words missing."""
    async with small_log(store, config) as stage:
        rid, call = await stage.asked()
        call.say("x" * 3_000)
        call.fail(UpstreamError(ErrorKind.TRUNCATED, "broke off"))
        snapshot = (await stage.outcome(rid)).snapshot
        assert (snapshot.status, snapshot.reason) == ("incomplete", "log_limit")
        assert snapshot.error is None
        assert snapshot.text_sha256 == text_sha256(snapshot.text)


async def test_an_upstream_that_finished_before_its_end_was_refused_is_not_complete(
    store: Store, config: RelayConfig
) -> None:
    """It was told as `completed` with its last words missing."""
    async with small_log(store, config) as stage:
        rid, call = await stage.asked()
        call.say("x" * 3_000)
        call.end()
        snapshot = (await stage.outcome(rid)).snapshot
        assert (snapshot.status, snapshot.reason) == ("incomplete", "log_limit")
        assert snapshot.text_sha256 == text_sha256(snapshot.text)


async def test_thoughts_past_the_limit_leave_the_hash_of_the_text_alone(
    store: Store, config: RelayConfig
) -> None:
    """A batch without text that was refused took the last text out of `text_sha256`."""
    async with small_log(store, config) as stage:
        rid, call = await stage.asked()
        call.say("kept ")
        await stage.until_text(rid, "kept ")
        call.say("both")
        await stage.until_text(rid, "kept both")
        call.send(ev.ReasoningDelta(delta="x" * 3_000))
        snapshot = (await stage.outcome(rid)).snapshot
        assert (snapshot.reason, snapshot.text) == ("log_limit", "kept both")
        assert snapshot.text_sha256 == text_sha256("kept both")


async def test_the_wall_clock_ends_an_answer(store: Store, hub: Hub, config: RelayConfig) -> None:
    impatient = replace(config, total_s=0.3)
    stage = Stage(store, hub, impatient, PuppetUpstream(), MemoryRecords(), None)  # type: ignore[arg-type]
    stage.supervisor = stage.another("impatient")
    stage.supervisor.start()
    rid, call = await stage.asked()
    call.say("slow")
    snapshot = (await stage.outcome(rid)).snapshot
    assert (snapshot.status, snapshot.reason, snapshot.text) == ("failed", "wall_clock", "slow")
    assert call.aborted
    await stage.supervisor.aclose()


async def test_how_old_an_answer_is_the_stores_clock_says(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 9.4: this machine's own clock is an hour behind it, and tells of a young one."""
    ahead_s = 3600.0
    monkeypatch.setattr(stage.store, "now_s", lambda: time.time() + ahead_s)
    rid = (await stage.ask()).rid
    snapshot = (await stage.outcome(rid)).snapshot
    assert (snapshot.status, snapshot.reason) == ("failed", "wall_clock")
    assert snapshot.timings.ended_at is not None
    ended_s = datetime.fromisoformat(snapshot.timings.ended_at).timestamp()
    assert ended_s == pytest.approx(time.time() + ahead_s, abs=60)


async def test_a_model_that_is_gone_fails_with_a_sentence(stage: Stage) -> None:
    scribe = Scribe(stage.store)
    stage.records.requests[scribe.rid] = msgspec.structs.replace(scribe.request(), model="gone")
    await scribe.create()
    snapshot = (await stage.outcome(scribe.rid)).snapshot
    assert (snapshot.status, snapshot.reason) == ("failed", "not_found")
    assert stage.upstream.calls == []


async def test_a_final_record_retires_the_log_and_nothing_runs(stage: Stage) -> None:
    """PROTOCOL 8.1."""
    scribe = Scribe(stage.store)
    await scribe.create()
    await wait_until_gone(stage.store, scribe.rid)
    assert stage.upstream.calls == []


async def wait_until_gone(store: Store, rid: str) -> None:
    async def gone() -> bool:
        return (await store.tails([rid]))[0] is None

    await wait_until(gone, "the log to be retired")


async def test_a_database_that_is_away_at_the_end_is_waited_for(stage: Stage) -> None:
    rid, call = await stage.asked()
    call.say("x")
    stage.records.away = 3
    call.end()
    assert (await stage.outcome(rid)).snapshot.text == "x"
    assert stage.records.writes == 1


async def test_a_dead_worker_with_content_is_interrupted_by_another(stage: Stage) -> None:
    """PROTOCOL 9.1, 6.4: the text is kept, the tokens are not made twice."""
    rid, call = await stage.asked()
    call.say("so far")
    await stage.until_text(rid, "so far")
    await stage.supervisor.aclose()  # as a kill: no end, no ack
    second = stage.another("second")
    second.start()
    snapshot = (await stage.outcome(rid, timeout=15)).snapshot
    assert (snapshot.status, snapshot.reason) == ("interrupted", "worker_lost")
    assert (snapshot.text, len(stage.upstream.calls)) == ("so far", 1)
    await second.aclose()


async def test_a_dead_worker_without_content_is_run_again(stage: Stage) -> None:
    rid, _ = await stage.asked()
    await stage.supervisor.aclose()
    second = stage.another("second")
    second.start()
    await wait_until(lambda: len(stage.upstream.calls) > 1, "a second run", timeout=15)
    stage.upstream.calls[1].say("again")
    stage.upstream.calls[1].end()
    snapshot = (await stage.outcome(rid)).snapshot
    assert (snapshot.status, snapshot.text, snapshot.attempt) == ("completed", "again", 2)
    await second.aclose()


async def test_a_drain_finishes_releases_and_interrupts(
    store: Store, hub: Hub, config: RelayConfig
) -> None:
    """PROTOCOL 9.3."""
    hasty = replace(config, drain_s=0.05)
    stage = Stage(store, hub, hasty, PuppetUpstream(), MemoryRecords(), None)  # type: ignore[arg-type]
    stage.supervisor = stage.another("leaving")
    stage.supervisor.start()
    talking, talk = await stage.asked()
    silent, mute = await stage.asked()
    talk.say("begun")
    await stage.until_text(talking, "begun")
    await stage.supervisor.drain()
    snapshot = (await stage.outcome(talking)).snapshot
    assert (snapshot.status, snapshot.reason) == ("interrupted", "shutdown")
    assert talk.aborted
    assert mute.aborted
    second = stage.another("staying")
    second.start()
    call = await stage.call(2)
    assert call.request.response_id == silent
    call.say("fresh")
    call.end()
    assert (await stage.outcome(silent)).snapshot.text == "fresh"
    await second.aclose()
    await stage.supervisor.aclose()


async def test_a_loop_that_fails_starts_again(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renewals that died with a bug of ours would cost every answer of this worker its lease."""
    renew = stage.store.renew
    failing = True

    async def renew_or_not(lease: Lease) -> Reply:
        if failing:
            raise ZeroDivisionError
        return await renew(lease)

    monkeypatch.setattr(stage.store, "renew", renew_or_not)
    rid, call = await stage.asked()
    await wait_until(lambda: "starts again" in caplog.text, "the loop to have failed")
    failing = False
    stage.hub._on_stop.clear()
    await stage.store.cancel(rid, "user", ended=STOP)
    assert (await stage.outcome(rid)).snapshot.status == "cancelled", "a renewal heard of the stop"
    assert call.aborted


def test_a_question_about_a_picture_is_not_for_a_fallback_that_sees_none() -> None:
    def model(name: str, **more: Any) -> ModelConfig:
        return ModelConfig(
            name=name, dialect="openai-chat", base_url="http://x", upstream_model=name, **more
        )

    first = model("first", fallback=("blind", "gone", "eyes"))
    declared = {m.name: m for m in (first, model("blind"), model("eyes", supports={"images"}))}
    for kind, names in (("text", ["blind", "eyes"]), ("image_url", ["eyes"])):
        messages = [{"role": "user", "content": [{"type": kind}]}]
        request = GenerationRequest(response_id="", model="first", messages=messages, created_at="")
        assert [one.name for one in fallbacks_of(first, declared, request)] == names
