"""Limits on silence: each from its own beginning, and only while somebody listens."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from unittest.mock import patch

import pytest

from relay import events as ev
from relay.errors import ErrorKind
from relay.upstream import Upstream
from relay.upstream import call as call_module
from relay.upstream.silence import Silence
from tests.relay.upstream.hearing import asking, hear
from tests.scripted import (
    Done,
    Gate,
    Hang,
    Head,
    Say,
    ScriptedUpstream,
    Send,
    Status,
)
from tests.waiting import wait_until


@pytest.mark.parametrize("steps", [[Hang()], [Head(), Hang()]], ids=["no head", "head only"])
async def test_a_late_first_byte_is_a_timeout(
    provider: ScriptedUpstream, upstream: Upstream, steps: list[Any]
) -> None:
    provider.script("hi", *steps)
    heard = await hear(upstream, "hi", provider.model_config(first_byte_s=0.1))
    assert heard.kind is ErrorKind.TIMEOUT
    assert heard.error is not None
    assert heard.error.message == "The provider did not begin to answer within 0.1 s."
    await asyncio.wait_for(provider.last.closed.wait(), 2)


async def test_silence_in_mid_answer_is_a_stall_that_keeps_the_text(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    provider.script("hi", Say("Hel"), Hang())
    heard = await hear(upstream, "hi", provider.model_config(read_s=0.1))
    assert (heard.text, heard.kind) == ("Hel", ErrorKind.STALLED)
    await asyncio.wait_for(provider.last.closed.wait(), 2)


async def test_a_first_byte_may_take_longer_than_a_later_one(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    provider.script("hi", Gate("first"), Say("Late"), Done())
    model = provider.model_config(first_byte_s=5, read_s=0.05)
    task = asyncio.create_task(hear(upstream, "hi", model))
    await wait_until(lambda: provider.requests, "the request")
    loop = asyncio.get_running_loop()
    loop.call_later(0.15, provider.open, "first")  # three times read_s
    assert (await task).text == "Late"


async def test_a_limit_does_not_outlive_its_call(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    """Otherwise it would cancel its task later, in the middle of something else."""
    provider.script("no", Status(400))
    loop = asyncio.get_running_loop()
    for text in ("no", "say:2"):
        await hear(upstream, text, provider.model_config(first_byte_s=0.1, read_s=0.1))
        later = loop.create_future()
        loop.call_later(0.25, later.set_result, None)
        await later


async def test_time_in_which_nobody_listens_is_not_silence(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    """A store that is away for longer than read_s must not fail the provider."""
    provider.script("hi", Say("a"), Gate("2"), Say("b"), Gate("on"), Say("c"), Gate("end"), Done())
    async with upstream.open(asking("hi"), provider.model_config(read_s=0.05)) as call:
        assert await anext(call) == [ev.TextDelta(delta="a")]
        provider.open("2")
        assert await anext(call) == [ev.TextDelta(delta="b")]
        away = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.15, away.set_result, None)
        await away
        provider.open("on")
        assert await anext(call) == [ev.TextDelta(delta="c")]
        provider.open("end")


@pytest.mark.parametrize(("linger_s", "read_s"), [(0.1, 60), (60, 0.1)])
async def test_an_end_marker_that_is_held_back_keeps_nobody_waiting(
    provider: ScriptedUpstream,
    upstream: Upstream,
    monkeypatch: pytest.MonkeyPatch,
    linger_s: float,
    read_s: float,
) -> None:
    monkeypatch.setattr(call_module, "LINGER_S", linger_s)
    stop = Send({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    provider.script("hi", Say("All"), stop, Hang())
    heard = await asyncio.wait_for(hear(upstream, "hi", provider.model_config(read_s=read_s)), 5)
    assert (heard.text, heard.error) == ("All", None)


async def test_a_body_that_stays_open_after_the_end_marker_keeps_nobody_waiting(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    provider.script("hi", Say("All"), Send("[DONE]"), Hang())
    heard = await asyncio.wait_for(hear(upstream, "hi", provider.model_config()), 5)
    assert (heard.text, heard.error) == ("All", None)
    await asyncio.wait_for(provider.last.closed.wait(), 2)


async def test_a_stop_in_the_same_moment_as_the_limit_is_a_stop() -> None:
    """Taking the one cancel for the other would end a stopped answer as a stalled one."""

    async def wait() -> str:
        silence = Silence(0.01)
        silence.begin()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "limit" if silence.ended_wait() else "stop"
        raise AssertionError("unreachable")

    for stops, heard in ((False, "limit"), (True, "stop")):
        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        if stops:
            due = time.monotonic() + 0.02
            while time.monotonic() < due:  # the loop must not turn until both are due
                pass
            asyncio.get_running_loop().call_soon(task.cancel)
        assert await task == heard


async def test_a_limit_rings_once_and_not_per_wait() -> None:
    loop = asyncio.get_running_loop()
    silence = Silence(60)
    with patch.object(loop, "call_at", wraps=loop.call_at) as timers:
        for _ in range(1000):
            silence.begin()
            silence.end()
    silence.close()
    assert timers.call_count == 1
