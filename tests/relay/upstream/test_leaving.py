"""Leaving a call closes its connection, wherever the leaving happens."""

from __future__ import annotations

import asyncio
import select
from pathlib import Path

import pytest
import uvloop

from relay import events as ev
from relay.errors import ErrorKind
from relay.fold import fold
from relay.upstream import Upstream, connections
from tests.relay.upstream.certificate import contexts
from tests.relay.upstream.hearing import QUICK, asking, closed_by, hear
from tests.scripted import (
    EndBody,
    Hang,
    Head,
    Raw,
    Say,
    ScriptedUpstream,
    Send,
    Step,
)
from tests.waiting import wait_until

RDHUP = getattr(select, "POLLRDHUP", select.POLLHUP)  # Linux; elsewhere POLLHUP says it
SAY = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'


@pytest.mark.parametrize("step", ["before the head", "before the body", "in mid-answer"])
async def test_a_cancelled_reader_closes_its_connection(
    provider: ScriptedUpstream, upstream: Upstream, step: str
) -> None:
    begin: dict[str, list[Step]] = {
        "before the head": [],
        "before the body": [Head()],
        "in mid-answer": [Say("a")],
    }
    provider.script("hi", *begin[step], Hang())
    heard = asyncio.Event()

    async def read() -> None:
        async with upstream.open(asking("hi"), provider.model_config()) as call:
            heard.set()
            async for _ in call:
                pass

    async def leave() -> None:
        task = asyncio.create_task(read())
        await wait_until(lambda: provider.requests, "the request")
        if step != "before the head":
            await heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    await closed_by(provider, leave())


async def test_leaving_early_closes_the_connection(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    provider.script("hi", Say("a"), Hang())

    async def leave() -> None:
        async with upstream.open(asking("hi"), provider.model_config()) as call:
            await anext(call)

    await closed_by(provider, leave())


async def test_an_error_of_ours_closes_the_connection_and_is_not_hidden(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    provider.script("hi", Say("a"), Hang())

    async def read() -> None:
        async with upstream.open(asking("hi"), provider.model_config()) as call:
            async for _ in call:
                raise ZeroDivisionError

    async def leave() -> None:
        with pytest.raises(ZeroDivisionError):
            await read()

    await closed_by(provider, leave())


async def test_nothing_is_read_from_a_provider_that_goes_on_sending(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    """Law 7: the connection is aborted, not drained, however much is on its way."""
    provider.script("hi", Say("a"), *[Raw(b": " + b"x" * 65536 + b"\n") for _ in range(400)])

    async def leave() -> None:
        async with upstream.open(asking("hi"), provider.model_config()) as call:
            await anext(call)

    await closed_by(provider, leave())


async def test_leaving_does_not_wait_for_a_provider_to_say_goodbye(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A polite close over TLS shakes hands first, with a provider that is busy generating."""
    server_ssl, client_ssl = contexts(tmp_path)
    monkeypatch.setattr(connections, "ssl_context", lambda: client_ssl)
    upstream = Upstream(QUICK)
    left = asyncio.Event()
    gone = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + SAY)
        await left.wait()
        hangup = select.poll()
        hangup.register(writer.get_extra_info("socket").fileno(), RDHUP)
        gone.set_result(await wait_until(lambda: hangup.poll(0), "the connection to be closed"))
        writer.transport.abort()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_ssl) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"https://127.0.0.1:{port}"
        model = ScriptedUpstream().model_config(base_url=url)
        async with upstream.open(asking("hi"), model) as call:
            assert await anext(call) == [ev.TextDelta(delta="a")]
        left.set()
        await asyncio.wait_for(gone, 6)
    await upstream.aclose()


async def test_a_second_cancel_while_closing_changes_nothing(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    provider.script("hi", Say("a"), Hang())
    reading = asyncio.Event()

    async def read() -> None:
        async with upstream.open(asking("hi"), provider.model_config()) as call:
            async for _ in call:
                reading.set()

    async def leave() -> None:
        task = asyncio.create_task(read())
        await reading.wait()
        task.cancel()
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    await closed_by(provider, leave())


async def test_a_stop_leaves_calls_unclosed_and_tells_the_usage(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    call_ = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}
    chunk = {"choices": [{"delta": {"tool_calls": [call_]}}], "usage": {"completion_tokens": 3}}
    provider.script("hi", Send(chunk), Hang())
    async with upstream.open(asking("hi"), provider.model_config()) as call:
        events = await anext(call)
        rest = call.abandon()
    assert fold(events).tool_calls[0].error is None
    assert fold([*events, *rest]).tool_calls[0].error == "unclosed"
    assert rest[-1] == ev.Usage(output_tokens=3)


async def test_there_is_nothing_to_abandon_after_the_end(
    provider: ScriptedUpstream, upstream: Upstream
) -> None:
    call_ = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}
    provider.script("hi", Send({"choices": [{"delta": {"tool_calls": [call_]}}]}), EndBody())
    heard = await hear(upstream, "hi", provider.model_config())
    assert heard.call is not None
    assert heard.call.abandon() == []


def test_it_is_the_same_on_uvloop() -> None:
    async def main() -> None:
        upstream = Upstream(QUICK)
        async with ScriptedUpstream() as provider:
            provider.script("hang on", Say("a"), Hang())
            assert (await hear(upstream, "say:3", provider.model_config())).error is None
            cut = await hear(upstream, "reset:after:2", provider.model_config())
            assert cut.kind is ErrorKind.CONNECTION
            stalled = await hear(upstream, "stall:after:2", provider.model_config(read_s=0.1))
            assert stalled.kind is ErrorKind.STALLED
            await asyncio.wait_for(provider.last.closed.wait(), 2)

            async def leave() -> None:
                async with upstream.open(asking("hang on"), provider.model_config()) as call:
                    await anext(call)

            await closed_by(provider, leave())
        await upstream.aclose()

    uvloop.run(main())
