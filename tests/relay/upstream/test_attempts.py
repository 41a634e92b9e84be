"""Asked again, or somebody else asked, as long as nothing of an answer is there (law 11)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from relay import events as ev
from relay.config import ModelConfig
from relay.errors import ErrorKind, UpstreamError
from relay.fold import fold
from relay.request import GenerationRequest
from relay.upstream import Attempts
from relay.upstream.circuit import FAILURES, CircuitState

K = ErrorKind
REQUEST = GenerationRequest(
    response_id="r1", model="fast", messages=[], created_at="2026-03-01T12:00:00Z"
)
FAST = ModelConfig(name="fast", dialect="openai-chat", base_url="http://fast", upstream_model="f")
CAREFUL = replace(FAST, name="careful", base_url="http://careful")

Script = list[list[ev.Event] | UpstreamError]
"""Batches of events, perhaps ended by a failure."""


class Finished:
    finish_reason = "stop"


class ScriptedCall:
    def __init__(self, script: Script) -> None:
        self.finish: Finished | None = None
        self.counted_output_ids: int | None = None
        self._script = script

    def abandon(self) -> list[ev.Event]:
        return [ev.Usage(output_tokens=1)]

    async def __aiter__(self) -> AsyncIterator[list[ev.Event]]:
        for item in self._script:
            if isinstance(item, UpstreamError):
                raise item
            yield item
        self.finish = Finished()


class Scripted:
    """Each request takes the next script of its model; one that begins with a failure refuses."""

    def __init__(self, **scripts: list[Script]) -> None:
        self.scripts = scripts
        self.asked: list[tuple[str, bool]] = []
        self.open_now = 0
        self.most_open = 0

    @asynccontextmanager
    async def open(
        self, request: GenerationRequest, model: ModelConfig, *, stream: bool = True
    ) -> AsyncIterator[ScriptedCall]:
        self.asked.append((model.name, stream))
        script = self.scripts[model.name].pop(0)
        if script and isinstance(script[0], UpstreamError):
            raise script[0]
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        try:
            yield ScriptedCall(script)
        finally:
            self.open_now -= 1


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses take no time and are written down."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("relay.upstream.attempts.asyncio.sleep", sleep)
    return slept


async def heard(
    upstream: Scripted,
    models: Sequence[ModelConfig] = (FAST,),
    *,
    through: Attempts | None = None,
    retries: int = 2,
) -> tuple[list[ev.Event], UpstreamError | None]:
    through = through or Attempts(upstream, retries=retries)
    events: list[ev.Event] = []
    error: UpstreamError | None = None
    async with through.open(REQUEST, models) as call:
        try:
            async for batch in call:
                events += batch
        except UpstreamError as raised:
            error = raised
        else:
            assert call.finish is not None
    assert upstream.open_now == 0
    assert upstream.most_open <= 1, "one is left before another is asked"
    return events, error


def failure(kind: ErrorKind, **more: Any) -> UpstreamError:
    return UpstreamError(kind, "It failed.", **more)


def text(value: str) -> list[ev.Event]:
    return [ev.TextDelta(delta=value)]


def codes(events: list[ev.Event]) -> list[str]:
    return [
        event.code if isinstance(event, ev.Notice) else type(event).__name__ for event in events
    ]


def shown(events: list[ev.Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, ev.TextDelta))


async def test_a_good_answer_passes_unchanged() -> None:
    upstream = Scripted(fast=[[text("a"), text("b")]])
    events, error = await heard(upstream)
    assert (codes(events), shown(events), error) == (["TextDelta"] * 2, "ab", None)


async def test_two_failures_that_pass_are_told_and_waited_for(pauses: list[float]) -> None:
    upstream = Scripted(fast=[[failure(K.SERVER_ERROR)], [failure(K.CONNECTION)], [text("a")]])
    events, error = await heard(upstream)
    assert (codes(events), error) == (["retrying", "retrying", "TextDelta"], None)
    assert 0.25 <= pauses[0] <= 0.5
    assert 0.5 <= pauses[1] <= 1.0


async def test_what_a_provider_said_is_a_sentence_before_ours_begins() -> None:
    for said in ("Too many requests", "Too many requests."):
        refused = UpstreamError(K.RATE_LIMIT, said, retryable=True)
        events, _ = await heard(Scripted(fast=[[refused], [text("a")]]))
        assert isinstance(events[0], ev.Notice)
        assert events[0].message == "Too many requests. Trying again."


async def test_a_failure_before_any_content_but_after_other_events_is_tried_again() -> None:
    upstream = Scripted(fast=[[[ev.Usage(input_tokens=3)], failure(K.TRUNCATED)], [text("a")]])
    events, error = await heard(upstream)
    assert (codes(events), error) == (["retrying", "TextDelta"], None)


async def test_usage_counts_only_for_the_attempt_that_answers_or_fails_for_good() -> None:
    upstream = Scripted(
        fast=[
            [[ev.Usage(input_tokens=3)], failure(K.TRUNCATED)],
            [[ev.Usage(input_tokens=4)], text("a")],
        ]
    )
    events, _ = await heard(upstream)
    assert codes(events) == ["retrying", "Usage", "TextDelta"]
    assert events[1] == ev.Usage(input_tokens=4)
    upstream = Scripted(fast=[[[ev.Usage(input_tokens=5)], failure(K.CONTENT_FILTER)]])
    events, error = await heard(upstream)
    assert events == [ev.Usage(input_tokens=5)]
    assert error is not None
    assert error.kind is K.CONTENT_FILTER
    upstream = Scripted(fast=[[[ev.Usage(input_tokens=6)]]])
    assert await heard(upstream) == ([ev.Usage(input_tokens=6)], None)


@pytest.mark.parametrize("kind", [K.TRUNCATED, K.CONNECTION, K.STALLED, K.SERVER_ERROR])
async def test_after_the_first_content_nothing_is_repeated(kind: ErrorKind) -> None:
    upstream = Scripted(fast=[[text("a"), failure(kind)]], careful=[[text("b")]])
    events, error = await heard(upstream, [FAST, CAREFUL])
    assert (shown(events), upstream.asked) == ("a", [("fast", True)])
    assert error is not None
    assert error.kind is kind


@pytest.mark.parametrize("kind", [K.AUTHENTICATION, K.NOT_FOUND, K.CONTEXT_LENGTH])
async def test_what_will_not_pass_moves_on_at_once(kind: ErrorKind) -> None:
    upstream = Scripted(fast=[[failure(kind)]], careful=[[text("b")]])
    events, error = await heard(upstream, [FAST, CAREFUL])
    assert (codes(events), error) == (["fallback", "TextDelta"], None)
    assert isinstance(events[0], ev.Notice)
    assert (events[0].model, "careful answers" in events[0].message) == ("careful", True)


@pytest.mark.parametrize("kind", [K.INVALID_REQUEST, K.CONTENT_FILTER])
async def test_what_is_wrong_with_the_question_goes_to_nobody_else(kind: ErrorKind) -> None:
    upstream = Scripted(fast=[[failure(kind)]], careful=[[text("b")]])
    events, error = await heard(upstream, [FAST, CAREFUL])
    assert (events, len(upstream.asked)) == ([], 1)
    assert error is not None


async def test_fallbacks_come_after_the_retries_and_have_retries_of_their_own() -> None:
    bad: Script = [failure(K.OVERLOADED)]
    upstream = Scripted(fast=[bad, bad, bad], careful=[bad, [text("b")]])
    events, error = await heard(upstream, [FAST, CAREFUL])
    assert codes(events) == ["retrying", "retrying", "fallback", "retrying", "TextDelta"]
    assert (shown(events), error) == ("b", None)


async def test_the_last_failure_is_the_one_that_is_told() -> None:
    upstream = Scripted(fast=[[failure(K.AUTHENTICATION)]], careful=[[failure(K.PERMISSION)]])
    _, error = await heard(upstream, [FAST, CAREFUL])
    assert error is not None
    assert (error.kind, error.retryable) == (K.PERMISSION, False)


async def test_what_may_pass_for_one_of_them_may_be_tried_again_by_hand() -> None:
    """A fallback with a lost key must not hide that the model itself was only busy."""
    upstream = Scripted(fast=[[failure(K.OVERLOADED)]], careful=[[failure(K.PERMISSION)]])
    _, error = await heard(upstream, [FAST, CAREFUL], retries=0)
    assert error is not None
    assert (error.kind, error.retryable) == (K.PERMISSION, True)


async def test_the_last_resort_after_a_fallback_names_the_first_model_again() -> None:
    upstream = Scripted(
        fast=[[failure(K.PROTOCOL)], [text("whole")]], careful=[[failure(K.PERMISSION)]]
    )
    events, error = await heard(upstream, [FAST, CAREFUL])
    assert (shown(events), error) == ("whole", None)
    assert [event.model for event in events if isinstance(event, ev.Notice)] == ["careful", "fast"]
    assert fold(events).model == "fast"


async def test_the_last_resort_is_an_answer_in_one_piece() -> None:
    empty: Script = [[ev.Usage(input_tokens=3)], failure(K.EMPTY_RESPONSE)]
    upstream = Scripted(fast=[empty, empty, empty, [text("whole")]])
    events, error = await heard(upstream)
    assert (shown(events), error) == ("whole", None)
    assert upstream.asked == [("fast", True)] * 3 + [("fast", False)]
    upstream = Scripted(fast=[empty, empty, empty, empty])
    _, error = await heard(upstream)
    assert error is not None
    assert len(upstream.asked) == 4


async def test_a_short_wait_that_the_provider_asks_for_is_kept(pauses: list[float]) -> None:
    upstream = Scripted(fast=[[failure(K.RATE_LIMIT, retry_after_s=7.0)], [text("a")]])
    await heard(upstream)
    assert pauses == [7.0]


async def test_a_long_wait_is_told_at_once(pauses: list[float]) -> None:
    upstream = Scripted(fast=[[failure(K.RATE_LIMIT, retry_after_s=600.0)]])
    events, error = await heard(upstream)
    assert (events, pauses) == ([], [])
    assert error is not None
    assert error.message == "It failed. Try again in 10 min."
    upstream = Scripted(fast=[[failure(K.RATE_LIMIT, retry_after_s=600.0)]], careful=[[text("b")]])
    events, error = await heard(upstream, [FAST, CAREFUL])
    assert (codes(events), error) == (["fallback", "TextDelta"], None)


async def test_retries_can_be_turned_off() -> None:
    upstream = Scripted(fast=[[failure(K.TRUNCATED)]])
    events, error = await heard(upstream, retries=0)
    assert (events, len(upstream.asked)) == ([], 1)
    assert error is not None


async def test_an_upstream_that_keeps_failing_is_left_alone_and_tried_again_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 1000.0
    monkeypatch.setattr("relay.upstream.attempts.time.monotonic", lambda: now_s)
    upstream = Scripted(fast=[[failure(K.CONNECTION)] for _ in range(FAILURES)])
    through = Attempts(upstream, retries=0)
    for _ in range(FAILURES):
        await heard(upstream, through=through)
    circuit = through.circuits.of(FAST)
    assert circuit.state is CircuitState.OPEN
    events, error = await heard(upstream, through=through)
    assert (events, len(upstream.asked)) == ([], FAILURES)
    assert error is not None
    assert (error.kind, error.retryable) == (K.OVERLOADED, True)
    assert error.message.endswith("left alone for now. Try again in 30 s.")
    upstream.scripts["careful"] = [[text("b")]]
    events, error = await heard(upstream, [FAST, CAREFUL], through=through)
    assert (codes(events), error) == (["fallback", "TextDelta"], None)
    now_s += 31.0
    upstream.scripts["fast"] = [[text("a")]]
    events, error = await heard(upstream, through=through)
    assert (shown(events), error, circuit.state) == ("a", None, CircuitState.CLOSED)


async def test_a_model_that_rests_is_not_asked_and_nothing_is_held_against_it() -> None:
    resting = dataclasses.replace(FAST, resting=True)
    upstream = Scripted(careful=[[text("b")]])
    through = Attempts(upstream, retries=2)
    events, error = await heard(upstream, [resting, CAREFUL], through=through)
    assert (codes(events), error) == (["fallback", "TextDelta"], None)
    events, error = await heard(upstream, [resting], through=through)
    assert events == []
    assert error is not None
    assert error.message == "The operators have switched this model off for now."
    assert [name for name, *_ in upstream.asked] == ["careful"]
    assert through.circuits.of(FAST).state is CircuitState.CLOSED


async def test_an_upstream_that_is_left_alone_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    now_s = 1000.0
    monkeypatch.setattr("relay.upstream.attempts.time.monotonic", lambda: now_s)
    upstream = Scripted(fast=[])
    through = Attempts(upstream, retries=2)
    for _ in range(FAILURES):
        through.circuits.of(FAST).failed(failure(K.CONNECTION), now_s)
    now_s += 20.0
    events, error = await heard(upstream, through=through)
    assert (events, pauses) == ([], [])
    assert error is not None
    assert error.retry_after_s == 10.0


async def test_the_first_word_of_a_trial_lets_the_others_in_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 1000.0
    monkeypatch.setattr("relay.upstream.attempts.time.monotonic", lambda: now_s)
    upstream = Scripted(fast=[[text("long"), text(" answer")], [text("me too")]])
    through = Attempts(upstream, retries=0)
    for _ in range(FAILURES):
        through.circuits.of(FAST).failed(failure(K.CONNECTION), now_s)
    now_s += 31.0
    async with through.open(REQUEST, [FAST]) as trial:
        assert await anext(trial) == text("long")
        async with through.open(REQUEST, [FAST]) as other:
            assert await anext(other) == text("me too")


async def test_a_stop_during_a_pause_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    paused = asyncio.Event()

    async def sleep(seconds: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("relay.upstream.attempts.asyncio.sleep", sleep)
    upstream = Scripted(fast=[[failure(K.SERVER_ERROR)]])
    through = Attempts(upstream, retries=2)

    async def read() -> None:
        async with through.open(REQUEST, [FAST]) as call:
            try:
                async for _ in call:
                    pass
            except asyncio.CancelledError:
                assert call.abandon() == []
                raise

    reader = asyncio.create_task(read())
    await paused.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert upstream.asked == [("fast", True)]
