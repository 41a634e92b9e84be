"""What a call gives, and what calls share."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from relay import events as ev
from relay.errors import ErrorKind
from relay.fold import fold
from relay.states import FinishReason
from tests.relay.upstream.hearing import asking, hear
from tests.scripted import (
    Done,
    EndBody,
    Gate,
    Head,
    Raw,
    Say,
    ScriptedUpstream,
    Send,
)
from tests.waiting import wait_until

if TYPE_CHECKING:
    from relay.upstream import Upstream


async def test_an_answer_is_heard_to_its_end(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    provider.script("hi", Say("Hel"), Say("lo"), Done())
    heard = await hear(upstream, "hi", provider.model_config(api_key="k-1"))
    assert heard.error is None
    assert heard.text == "Hello"
    assert heard.call is not None
    assert heard.call.finish is not None
    assert heard.call.finish.finish_reason is FinishReason.STOP
    assert fold(heard.events).usage == ev.UsageCount(input_tokens=1, output_tokens=2)
    assert provider.last.headers["authorization"] == "Bearer k-1"
    assert provider.last.body["model"] == "scripted-1"
    assert provider.last.body["stream"] is True


async def test_events_come_as_soon_as_their_bytes(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    provider.script("hi", Say("a"), Gate("b"), Say("b"), Gate("c"), Done())
    async with upstream.open(asking("hi"), provider.model_config()) as call:
        assert await anext(call) == [ev.TextDelta(delta="a")]
        provider.open("b")
        assert await anext(call) == [ev.TextDelta(delta="b")]
        provider.open("c")
        assert [type(event) async for events in call for event in events] == [ev.Usage]


async def test_the_call_after_a_whole_answer_uses_its_connection(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    for _ in range(3):
        await hear(upstream, "say:3", provider.model_config())
    assert {request.connection for request in provider.requests} == {1}


async def test_a_last_chunk_that_comes_after_the_end_marker_is_waited_for(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    """Without it the connection would be lost to the next answer."""
    provider.script("hi", Say("a"), Send("[DONE]"), Gate("later"), EndBody())
    for _ in range(2):
        async with upstream.open(asking("hi"), provider.model_config()) as call:
            async for _ in call:
                pass
            provider.open("later")
    assert {request.connection for request in provider.requests} == {1}


async def test_a_large_request_arrives_whole(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    text = "ü" * 1_000_000
    provider.script(text, Say("a"), Done())
    heard = await hear(upstream, text, provider.model_config())
    assert (heard.text, provider.last.text == text) == ("a", True)
    assert "transfer-encoding" not in provider.last.headers


async def test_no_cookie_of_one_answer_goes_into_the_next(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    provider.script("hi", Head({"Set-Cookie": "who=somebody; Path=/"}), Say("a"), Done())
    for _ in range(2):
        await hear(upstream, "hi", provider.model_config())
    assert "cookie" not in provider.last.headers


async def test_more_than_a_hundred_answers_run_side_by_side(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    """A pool that is left to its defaults queues the 101st."""
    provider.script("hi", Say("a"), Gate("on"), Done())
    tasks = [asyncio.create_task(hear(upstream, "hi", provider.model_config())) for _ in range(120)]
    await wait_until(lambda: len(provider.requests) == 120, "all requests to have come in")
    provider.open("on")
    assert {(await task).text for task in tasks} == {"a"}


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("identity", bytes),
    ],
)
async def test_a_compressed_answer_is_decoded(
    provider: ScriptedUpstream, upstream: Upstream, coding: str, pack: Callable[[bytes], bytes]
) -> None:
    body = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: [DONE]\n\n'
    provider.script("hi", Head({"Content-Encoding": coding}), Raw(pack(body)))
    heard = await hear(upstream, "hi", provider.model_config())
    assert (heard.error, heard.text) == (None, "a")


async def test_a_damaged_compressed_answer_is_a_failure(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    provider.script("hi", Head({"Content-Encoding": "gzip"}), Raw(b"not gzip at all"))
    assert (await hear(upstream, "hi", provider.model_config())).kind is ErrorKind.PROTOCOL
