"""Every end says what was used: by the provider's word if it came, else by our own count."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from relay import events as ev
from relay.errors import ErrorKind, UpstreamError
from relay.generate import End
from relay.generate.end import NOTHING_USED, usage_at_end
from relay.request import GenerationRequest
from relay.standing import read_standing
from relay.states import FinishReason
from relay.upstream import Attempts, CircuitState
from tests.relay.actors import MODEL
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay.config import ModelConfig
    from tests.relay.stage import Stage

TOLD = ev.UsageCount(input_tokens=9, output_tokens=7)


def counted(output_tokens: int) -> ev.UsageCount:
    return ev.UsageCount(output_tokens=output_tokens, source="counted")


async def test_token_ids_are_counted_where_they_come(stage: Stage) -> None:
    rid, call = await stage.asked()
    call.counted_output_ids = 5
    call.say("two deltas", " of five tokens")
    call.end()
    outcome = await stage.outcome(rid)
    assert (outcome.counted_output_tokens, outcome.snapshot.usage) == (5, counted(5))


async def test_deltas_are_counted_where_text_comes(stage: Stage) -> None:
    rid, call = await stage.asked()
    call.send(ev.ReasoningDelta(delta="hm"))
    call.say("a", "b")
    call.send(
        ev.ToolCallStarted(index=0, call_id="c", name="n"),
        ev.ToolCallDelta(index=0, delta="{}"),
        ev.ToolCallCompleted(index=0, call_id="c", name="n", arguments={}),
    )
    call.end("tool_calls")
    outcome = await stage.outcome(rid)
    assert (outcome.counted_output_tokens, outcome.snapshot.usage) == (4, counted(4))


async def test_both_counts_are_kept_when_the_provider_tells_its_own(stage: Stage) -> None:
    rid, call = await stage.asked()
    call.say("a", "b")
    call.send(ev.Usage(input_tokens=9, output_tokens=1), ev.Usage(input_tokens=9, output_tokens=7))
    call.end()
    outcome = await stage.outcome(rid)
    assert (outcome.counted_output_tokens, outcome.snapshot.usage) == (2, TOLD)


async def test_a_failure_before_the_first_token_used_nothing(stage: Stage) -> None:
    rid, call = await stage.asked()
    call.fail(UpstreamError(ErrorKind.AUTHENTICATION, "no"))
    outcome = await stage.outcome(rid)
    assert (outcome.counted_output_tokens, outcome.snapshot.usage) == (0, NOTHING_USED)


async def test_a_stop_says_what_had_come_until_then(stage: Stage) -> None:
    rid, call = await stage.asked()
    call.say("a", "b")
    await stage.until_text(rid, "ab")
    stage.supervisor._on_stop(rid, "user")
    outcome = await stage.outcome(rid)
    assert (outcome.snapshot.status, outcome.counted_output_tokens) == ("cancelled", 2)
    assert outcome.snapshot.usage == counted(2)


@pytest.mark.parametrize(
    ("told", "used"), [([], counted(5)), ([ev.Usage(input_tokens=9, output_tokens=7)], TOLD)]
)
async def test_whoever_takes_over_records_what_the_dead_worker_had_counted(
    stage: Stage, told: list[ev.Event], used: ev.UsageCount
) -> None:
    rid, call = await stage.asked()
    call.counted_output_ids = 5
    call.send(*told, ev.TextDelta(delta="so far"))
    await stage.until_text(rid, "so far")
    await stage.supervisor.aclose()  # as a kill: no end, no ack
    second = stage.another("second")
    second.start()
    outcome = await stage.outcome(rid, timeout=15)
    await second.aclose()
    assert outcome.snapshot.status == "interrupted"
    assert (outcome.counted_output_tokens, outcome.snapshot.usage) == (5, used)


def test_what_a_prompt_cost_is_not_made_up() -> None:
    stopped = End.cancelled("user")
    assert usage_at_end(stopped, None, 0) == counted(0)
    assert usage_at_end(stopped, None, 0, asked=False) == NOTHING_USED
    assert usage_at_end(stopped, TOLD, 3) == TOLD
    assert usage_at_end(End.failed(ErrorKind.STALLED, "x"), None, 3) == counted(3)
    assert usage_at_end(End.finished(FinishReason.STOP), None, 0) == counted(0)


async def test_what_a_worker_has_met_is_told_to_all(stage: Stage) -> None:
    """PROTOCOL 12.5"""

    async def told() -> bool:
        return "scripted" in (await read_standing(stage.store)).get("first", {})

    async def known() -> bool:
        return "first" in await read_standing(stage.store)

    await wait_until(known, "a report of a worker that has asked nobody")
    _, call = await stage.asked()
    call.fail(UpstreamError(ErrorKind.OVERLOADED, "busy"))
    await wait_until(told, "the report of the failure")
    status = (await read_standing(stage.store))["first"]["scripted"]
    assert (status.state, status.failures) == (CircuitState.CLOSED, 1)
    assert (status.last_error_kind, status.last_error_message) == ("overloaded", "busy")
    assert status.last_error_at is not None


class Tokens:
    """A call that has sent this many ids, and fails or says something."""

    finish = None

    def __init__(self, ids: int | None, *, fails: bool) -> None:
        self.counted_output_ids = ids
        self._fails = fails

    def abandon(self) -> list[ev.Event]:
        return []

    async def __aiter__(self) -> AsyncIterator[list[ev.Event]]:
        if self._fails:
            raise UpstreamError(ErrorKind.SERVER_ERROR, "half a character, then nothing")
        yield [ev.TextDelta(delta="whole")]


class Engines:
    """Asked with ids, the first dies before it has made a character; the other sends text."""

    @asynccontextmanager
    async def open(
        self, request: GenerationRequest, model: ModelConfig, *, stream: bool = True
    ) -> AsyncIterator[Tokens]:
        yield Tokens(3, fails=True) if model is MODEL else Tokens(None, fails=False)


async def test_ids_of_an_attempt_that_failed_are_not_counted_for_who_answers() -> None:
    """PROTOCOL 12.1"""
    request = GenerationRequest(
        response_id="resp_0_" + "0" * 32, model="m", messages=[], created_at="2026-01-01T00:00:00Z"
    )
    other = replace(MODEL, name="other", base_url="http://127.0.0.1:8")
    async with Attempts(Engines(), retries=0).open(request, [MODEL, other]) as call:
        counts = [call.counted_output_ids async for _ in call]
    assert counts == [None, None]  # the notice, then the text
