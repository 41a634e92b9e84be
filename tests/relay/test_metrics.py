"""What a process counts of itself: right, bounded, and of the moment at which it happened."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from relay.config import RelayConfig
from relay.errors import ErrorKind, UpstreamError
from relay.follow import follow
from relay.metrics import COUNTERS, ENDS, MAX_MODELS, OTHER, Counters, Histogram, Tally
from tests.waiting import wait_until

if TYPE_CHECKING:
    from relay.hub import Hub
    from relay.metrics import ModelFigures
    from tests.relay.scribe import Scribe
    from tests.relay.stage import Stage


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counters:
    """The process's counters, from zero."""
    for name in Counters.__slots__:
        monkeypatch.setattr(COUNTERS, name, getattr(Counters(), name))
    return COUNTERS


def test_a_histogram_counts_what_is_at_most_each_bound() -> None:
    histogram = Histogram((0.1, 1.0))
    for value, times in ((0.05, 1), (0.1, 2), (0.5, 3), (1.5, 4), (-1.0, 1)):
        histogram.observe(value, times)
    assert histogram.counts == [4, 3, 4]
    assert histogram.count == 11
    assert histogram.total == pytest.approx(0.05 + 0.2 + 1.5 + 6.0)  # a negative time is none


def test_ten_thousand_odd_names_make_no_more_series_than_the_code_has() -> None:
    counters, tally = Counters(), Tally(("known",))
    for n in range(10_000):
        odd = f"odd-{n}\n\N{SNOWMAN}"
        tally.add(odd)
        counters.refusals.add(odd)
        figures = counters.model(odd)
        figures.end(odd, odd)
        figures.errors.add(odd)
    assert tally.counts == {"known": 0, OTHER: 10_000}
    assert counters.refusals.counts[OTHER] == 10_000
    assert len(counters.models) == MAX_MODELS + 1
    assert OTHER in counters.models
    for figures in counters.models.values():
        assert set(figures.ended) == {*ENDS, (OTHER, OTHER)}
        assert figures.ended[OTHER, OTHER] == sum(figures.ended.values())
        assert len(figures.errors.counts) == len(ErrorKind) + 2


def figures_of(counted: Counters) -> ModelFigures:
    return counted.model("scripted")


async def test_the_first_token_counts_when_it_is_in_the_log_and_the_others_by_their_gaps(
    stage: Stage, counted: Counters
) -> None:
    rid, call = await stage.asked()
    assert figures_of(counted).first_token.count == 0
    call.say("a")
    await wait_until(lambda: figures_of(counted).first_token.count == 1, "the first token")
    call.say("b", "c", "d")
    await wait_until(lambda: figures_of(counted).inter_token.count == 3, "the three that follow")
    call.end()
    await stage.outcome(rid)
    assert figures_of(counted).first_token.count == 1
    assert counted.append.count == counted.flushes >= 2
    assert counted.stream_s > 0
    assert counted.append_wait_s > 0


async def test_what_an_upstream_fails_with_is_counted_by_its_kind(
    stage: Stage, counted: Counters
) -> None:
    rid, call = await stage.asked()
    call.fail(UpstreamError(ErrorKind.STALLED, "silence"))
    await stage.outcome(rid)
    errors = {kind: n for kind, n in figures_of(counted).errors.counts.items() if n}
    assert errors == {"stalled": 1}
    assert figures_of(counted).asked == 1


async def test_a_worker_that_fell_silent_is_a_lapsed_lease_and_a_release_is_none(
    stage: Stage, counted: Counters, caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL 2, 9"""
    await stage.supervisor.aclose()
    hasty = RelayConfig(lease_s=0.5, renew_s=0.1, take_over_s=0.1, drain_s=0.01)
    drained = stage.another("drained", hasty)
    drained.start()
    rid, call = await stage.asked()
    await drained.drain()  # without content: handed back
    await drained.aclose()
    killed = stage.another("killed", hasty)
    killed.start()
    await stage.call(1)
    await killed.aclose()
    assert (counted.leases_lapsed, call.aborted) == (0, True)
    taker = stage.another("taker", hasty)
    taker.start()
    await wait_until(lambda: counted.leases_lapsed == 1, "the lapse to be seen", timeout=30)
    assert f"the worker of {rid} fell silent" in caplog.text  # restarted at once, it left no trace
    (await stage.call(2)).end()
    assert (await stage.outcome(rid)).snapshot.status == "completed"
    await taker.aclose()


async def test_a_resume_is_counted_with_the_time_it_took_to_catch_up(
    scribe: Scribe, hub: Hub, counted: Counters
) -> None:
    await scribe.begin()
    await scribe.say("one", "two")
    async with await follow(hub, scribe.rid) as first:
        await anext(first)
    assert (counted.resumes, counted.replay.count) == (0, 0)
    async with await follow(hub, scribe.rid, after=2) as again:
        await anext(again)
    assert (counted.resumes, counted.replay.count) == (1, 1)
    await scribe.end()
    async with await follow(hub, scribe.rid, after=2) as late:
        await anext(late)
    assert (counted.resumes, counted.replay.count) == (2, 2)


async def test_a_viewer_that_takes_nothing_lags_and_one_that_waits_does_not(
    scribe: Scribe, hub: Hub, counted: Counters, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    module = sys.modules["relay.follow"]  # the package has a function of that name
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now_s))
    await scribe.begin()
    async with await follow(hub, scribe.rid, viewer="ann/1") as view:

        def lag_s(at_s: float) -> float:
            nonlocal now_s
            now_s = at_s
            view.tick(at_s)
            return view.lag_s

        await anext(view)
        assert [lag_s(101), lag_s(102)] == [0, 0]  # nothing is there for it
        await scribe.say("one")
        await wait_until(lambda: view.seq == 3, "the word to be handed on")
        assert [lag_s(103), lag_s(104), lag_s(105)] == [0, 1, 2]
        await anext(view)
        assert [lag_s(106), lag_s(107)] == [0, 0]
        assert (hub.viewers, hub.present, hub.followed) == (1, 1, 1)


async def test_what_a_lost_message_left_is_counted_as_filled(
    scribe: Scribe, hub: Hub, counted: Counters, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scribe.begin()
    async with await follow(hub, scribe.rid) as view:
        await anext(view)
        await scribe.say("heard")
        await wait_until(lambda: view.seq == 3, "the first word")
        filled = counted.gap_events
        watch = view._watch

        def deaf(message: Any) -> bool:
            return True

        monkeypatch.setattr(watch, "offer", deaf)
        await scribe.say("not", "heard")
        await wait_until(lambda: view.seq == 5, "the look at the tail")
        assert counted.gap_events == filled + 2
        assert counted.gap_fills >= 1


async def test_the_loop_is_felt_once_a_second(hub: Hub, counted: Counters) -> None:
    await wait_until(lambda: counted.loop_lag.count > 0, "a tick", timeout=30)


def test_a_model_that_left_the_file_is_told_apart_from_the_first_hundred_only() -> None:
    counters = Counters()
    first = counters.model("a")
    assert counters.model("a") is first
    for n in range(MAX_MODELS):
        counters.model(f"m{n}")
    assert counters.model("one too many") is counters.model(OTHER)
