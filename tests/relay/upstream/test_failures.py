"""How calls fail, and what the failures are called."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from relay import events as ev
from relay.config import ModelConfig
from relay.errors import ErrorKind, UpstreamError
from relay.fold import fold
from relay.upstream import client
from tests.relay.upstream.hearing import asking, hear
from tests.scripted import (
    Close,
    EndBody,
    Gate,
    Hang,
    Reset,
    Say,
    ScriptedUpstream,
    Send,
    Status,
    Wire,
)

if TYPE_CHECKING:
    from relay.upstream import Upstream


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (EndBody(), ErrorKind.TRUNCATED),
        (Close(), ErrorKind.CONNECTION),
        (Reset(), ErrorKind.CONNECTION),
        (Send({"error": {"message": "boom", "code": 503}}), ErrorKind.OVERLOADED),
        (Send("{ no json"), ErrorKind.PROTOCOL),
    ],
)
async def test_a_broken_answer_keeps_its_text_and_names_its_failure(
    provider: ScriptedUpstream, upstream: Upstream, ending: Any, kind: ErrorKind
) -> None:
    provider.script("hi", Say("Hel"), ending)
    heard = await hear(upstream, "hi", provider.model_config())
    assert (heard.text, heard.kind) == ("Hel", kind)


async def test_a_body_that_stops_being_http_fails(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    """aiohttp 3.14 closes such a connection and forgets to tell the reader: silence ends it."""
    provider.script("hi", Say("Hel"), Gate("on"), Wire(b"zzz\r\n"), Hang())
    async with upstream.open(asking("hi"), provider.model_config(read_s=0.2)) as call:
        assert await anext(call) == [ev.TextDelta(delta="Hel")]
        provider.open("on")
        with pytest.raises(UpstreamError) as lost:
            await anext(call)
    assert lost.value.kind in (ErrorKind.CONNECTION, ErrorKind.STALLED)


async def test_calls_that_a_failure_left_open_are_told_before_it(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a'}}
    provider.script("hi", Send({"choices": [{"delta": {"tool_calls": [call]}}]}), Reset())
    heard = await hear(upstream, "hi", provider.model_config())
    assert heard.kind is ErrorKind.CONNECTION
    assert [c.error for c in fold(heard.events).tool_calls] == ["unclosed"]


@pytest.mark.parametrize("ending", [EndBody(), Close(), Reset()], ids=lambda e: type(e).__name__)
async def test_a_connection_lost_after_the_model_stopped_harms_nobody(
    provider: ScriptedUpstream, upstream: Upstream, ending: Any
) -> None:
    stop = Send({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    provider.script("hi", Say("All"), stop, ending)
    heard = await hear(upstream, "hi", provider.model_config())
    assert (heard.text, heard.error) == ("All", None)


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ([Close()], ErrorKind.CONNECTION),
        ([Reset()], ErrorKind.CONNECTION),
        ([Wire(b"SSH-2.0-nothing\r\n\r\n"), Hang()], ErrorKind.PROTOCOL),
        ([EndBody()], ErrorKind.EMPTY_RESPONSE),
        ([Status(200, b"<html>")], ErrorKind.PROTOCOL),
        ([Status(302, b"", {"Location": "http://127.0.0.1:9/"})], ErrorKind.PROTOCOL),
    ],
)
async def test_an_answer_that_never_was_one(
    provider: ScriptedUpstream, upstream: Upstream, steps: list[Any], kind: ErrorKind
) -> None:
    provider.script("hi", *steps)
    heard = await hear(upstream, "hi", provider.model_config())
    assert (heard.events, heard.kind) == ([], kind)


async def test_a_provider_that_is_not_there_cannot_be_reached(upstream: Upstream) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port meanwhile
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        model = ModelConfig(name="m", dialect="openai-chat", base_url=url, upstream_model="u")
        heard = await hear(upstream, "hi", model)
    assert heard.kind is ErrorKind.CONNECTION
    assert heard.error is not None
    assert heard.error.retryable
    assert heard.error.message == "The provider cannot be reached."


async def test_an_address_of_another_kind_is_refused(upstream: Upstream) -> None:
    model = ModelConfig(name="m", dialect="openai-chat", base_url="ftp://h/", upstream_model="u")
    heard = await hear(upstream, "hi", model)
    assert heard.error is not None
    assert (heard.kind, heard.error.retryable) == (ErrorKind.CONNECTION, False)


async def test_a_refusal_keeps_the_providers_words_but_not_our_key(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    body = {"error": {"message": "Incorrect API key provided: k-very-secret.", "code": None}}
    provider.script("hi", Status(401, json.dumps(body).encode()))
    heard = await hear(upstream, "hi", provider.model_config(api_key="k-very-secret"))
    assert heard.kind is ErrorKind.AUTHENTICATION
    assert heard.error is not None
    assert heard.error.message == "Incorrect API key provided: [hidden]."
    assert not heard.error.retryable


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"Retry-After": "7"}, 7, 7),
        ({"Retry-After": "0.5"}, 0.5, 0.5),
        ({"retry-after-ms": "1500", "Retry-After": "2"}, 1.5, 1.5),
        ({"Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"}, 86_400, 86_400),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0, 0),
        ({"Retry-After": "-3"}, 0, 0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m4s"}, 64, 64),
    ],
)
async def test_how_long_to_wait_is_understood(
    provider: ScriptedUpstream,
    upstream: Upstream,
    headers: dict[str, str],
    least: float,
    most: float,
) -> None:
    provider.script("hi", Status(429, b"slow down", headers))
    heard = await hear(upstream, "hi", provider.model_config())
    assert heard.kind is ErrorKind.RATE_LIMIT
    assert heard.error is not None
    assert heard.error.message == "slow down"
    assert heard.error.retry_after_s is not None
    assert least <= heard.error.retry_after_s <= most


async def test_a_budget_that_is_not_what_failed_is_no_wait(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    provider.script("hi", Status(503, b"", {"x-ratelimit-reset-requests": "1m4s"}))
    heard = await hear(upstream, "hi", provider.model_config())
    assert heard.error is not None
    assert heard.error.retry_after_s is None


@pytest.mark.parametrize("value", ["soon", "nan", ""])
async def test_an_unreadable_wait_is_no_wait(
    provider: ScriptedUpstream, upstream: Upstream, value: str
) -> None:
    provider.script("hi", Status(503, b"", {"Retry-After": value}))
    heard = await hear(upstream, "hi", provider.model_config())
    assert heard.error is not None
    assert (heard.kind, heard.error.retry_after_s) == (ErrorKind.OVERLOADED, None)


async def test_a_page_of_html_is_not_read_to_its_end_nor_shown(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    provider.script("hi", Status(502, b"<html>" + b"x" * 50_000_000))
    heard = await hear(upstream, "hi", provider.model_config())
    await asyncio.wait_for(provider.last.closed.wait(), 5)
    assert heard.error is not None
    assert (heard.kind, heard.error.message) == (ErrorKind.SERVER_ERROR, "The provider failed.")


async def test_a_refusal_that_never_ends_still_has_its_status(
    provider: ScriptedUpstream, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ERROR_BODY_S", 0.1)
    provider.script("hi", Wire(b"HTTP/1.1 429 Slow\r\nContent-Length: 500\r\n\r\n{"), Hang())
    heard = await asyncio.wait_for(hear(upstream, "hi", provider.model_config()), 5)
    assert heard.kind is ErrorKind.RATE_LIMIT
    await asyncio.wait_for(provider.last.closed.wait(), 5)


async def test_a_refusal_that_breaks_off_still_has_its_status(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    head = b"HTTP/1.1 429 Slow\r\nContent-Length: 500\r\n\r\n{"
    provider.script("hi", Wire(head), Reset())
    assert (await hear(upstream, "hi", provider.model_config())).kind is ErrorKind.RATE_LIMIT
