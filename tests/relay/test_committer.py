"""Who goes along in the next pipeline: by the age of what is unsent, not by a common beat."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from relay import MemoryStore, RelayConfig
from relay.generate import Committer
from relay.generate.commit import LoadGauge


class Unsent:
    """A writer as the committer sees it."""

    queued = False
    marked_s = 0.0


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("relay.generate.commit.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def committer() -> Committer:
    return Committer(MemoryStore(RelayConfig()), flush_max_ms=25)


def mark(committer: Committer, *, urgent: bool = False) -> Any:
    writer = cast("Any", Unsent())
    committer.mark(writer, urgent=urgent)
    return writer


def test_without_a_window_everything_goes_at_once(committer: Committer, now_s: list[float]) -> None:
    first, second = mark(committer), mark(committer)
    assert committer.take_due(0.0) == [first, second]


def test_a_response_waits_until_its_own_oldest_event_is_as_old_as_the_window(
    committer: Committer, now_s: list[float]
) -> None:
    early = mark(committer)
    now_s[0] += 0.020
    late = mark(committer)
    now_s[0] += 0.005
    assert committer.take_due(0.025) == [early]
    now_s[0] += 0.020
    assert committer.take_due(0.025) == [late]


def test_who_is_nearly_due_goes_along(committer: Committer, now_s: list[float]) -> None:
    due = mark(committer)
    now_s[0] += 0.003
    nearly = mark(committer)
    now_s[0] += 0.022
    assert committer.take_due(0.025) == [due, nearly]


def test_a_first_token_waits_for_a_part_of_the_window_only(
    committer: Committer, now_s: list[float]
) -> None:
    usual, first = mark(committer), mark(committer, urgent=True)
    now_s[0] += 0.010
    assert committer.take_due(0.025) == [first]
    assert committer.next_due_s(0.025) == pytest.approx(usual.marked_s + 0.025)


def test_marking_again_does_not_make_it_younger(committer: Committer, now_s: list[float]) -> None:
    writer = mark(committer)
    now_s[0] += 0.020
    committer.mark(writer)
    now_s[0] += 0.005
    assert committer.take_due(0.025) == [writer]


async def test_one_that_waits_to_try_again_wakes_nobody(committer: Committer) -> None:
    """Its batch failed and it is not due: with nothing else unsent there is nothing to look at."""
    sending = asyncio.create_task(committer.run())
    await asyncio.sleep(0)  # it waits for something to send
    writer = cast("Any", Unsent())
    writer.queued = True
    committer.mark(writer)
    for _ in range(3):  # turns of the loop
        await asyncio.sleep(0)
    assert not sending.done()
    sending.cancel()
    await asyncio.wait([sending])


class Thread:
    """A thread that uses shares of a core, a fifth of a second each, and its gauge."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_s = self.cpu_s = 0.0
        monkeypatch.setattr("relay.generate.commit.time.perf_counter", lambda: self.wall_s)
        monkeypatch.setattr("relay.generate.commit.time.thread_time", lambda: self.cpu_s)
        self._gauge = LoadGauge(flush_max_ms=25)

    def uses(self, *shares: float) -> list[float]:
        """The window in milliseconds after each of them."""
        found = []
        for share in shares:
            self.wall_s += 0.2
            self.cpu_s += 0.2 * share
            found.append(self._gauge.window_s() * 1000)
        return found


def test_a_busy_moment_opens_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred slow viewers beside normal ones made many of them (DECISIONS 11)."""
    thread = Thread(monkeypatch)
    assert thread.uses(*[0.28, 0.4, 0.25, 0.2, 0.3] * 10) == [0.0] * 50


def test_a_busy_process_opens_the_window_within_two_seconds_and_closes_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thread = Thread(monkeypatch)
    thread.uses(0.2)
    assert thread.uses(*[0.6] * 9)[-1] == 25.0
    windows = thread.uses(*[0.2] * 9)
    assert windows == sorted(windows, reverse=True)
    assert windows[-1] == 0.0
