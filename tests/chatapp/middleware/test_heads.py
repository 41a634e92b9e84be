"""What has not become a request yet, over real sockets and uvicorn itself."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from chatapp.middleware import heads
from chatapp.middleware.heads import (
    MAX_HEAD_BYTES,
    UNSENT_BYTES,
    WRITE_BUFFER_BYTES,
    BoundedHttp,
)
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatapp.middleware.asgi_types import Receive, Scope, Send

LATE_S = 0.3
WHOLE_S = 10.0
STUCK_S = 0.5
PIECE = b"x" * 1024
HEAD = b"POST /p HTTP/1.1\r\nhost: x\r\n"


class Echo:
    """Answers with the body that it was sent. /stream goes on until it is let go, /flood until
    nobody takes any more."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.let_go = asyncio.Event()
        self.gone = asyncio.Event()
        """The client of /stream is."""
        self.taken_bytes = 0
        self.stuck = asyncio.Event()
        """The client of /flood takes nothing."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        body = b""
        if scope["path"] not in ("/stream", "/flood"):
            more = True
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        if scope["path"] == "/flood":
            await self._flood(send)
        if scope["path"] == "/stream":
            hearing = asyncio.create_task(self._hear(receive))
            await self.let_go.wait()
            hearing.cancel()
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _flood(self, send: Send) -> None:
        while self.taken_bytes < 64 * UNSENT_BYTES:
            sending = asyncio.ensure_future(
                send({"type": "http.response.body", "body": PIECE, "more_body": True})
            )
            if not (await asyncio.wait([sending], timeout=STUCK_S))[0]:
                sending.cancel()
                break
            self.taken_bytes += len(PIECE)
        self.stuck.set()

    async def _hear(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone.set()
        self.let_go.set()


class Served:
    def __init__(self, app: Echo, port: int) -> None:
        self.app = app
        self.port = port

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()

    async def answer(self, *pieces: bytes) -> bytes:
        """All that comes until the server closes."""
        async with self.socket() as (reader, writer):
            for piece in pieces:
                writer.write(piece)
            return await whole(reader)


async def whole(reader: asyncio.StreamReader) -> bytes:
    received = b""
    async with asyncio.timeout(WHOLE_S):
        try:
            while chunk := await reader.read(65536):
                received += chunk
        except ConnectionResetError:
            pass  # closed with something unread
    return received


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(heads, "HEAD_TIMEOUT_S", LATE_S)
    app: Any = Echo()
    config = uvicorn.Config(
        app, port=0, http=BoundedHttp, lifespan="off", ws="none", log_config=None
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server._serve())
    await wait_until(lambda: server.started, "the server to listen")
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Served(app, port)
    app.let_go.set()
    server.should_exit = True
    await task


async def test_whoever_does_not_read_is_kept_little(served: Served) -> None:
    """The kernel alone would take megabytes, and the viewer would pass for one that reads."""
    loop = asyncio.get_running_loop()
    with socket.socket() as viewer:
        viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        viewer.setblocking(False)
        await loop.sock_connect(viewer, ("127.0.0.1", served.port))
        await loop.sock_sendall(viewer, b"GET /flood HTTP/1.1\r\nhost: x\r\n\r\n")
        async with asyncio.timeout(WHOLE_S):
            await served.app.stuck.wait()
    # Beside ours: what has been sent and not read, of which the kernels have ideas of their own.
    assert served.app.taken_bytes < UNSENT_BYTES + WRITE_BUFFER_BYTES + 64 * 1024


async def test_a_whole_request_is_answered(served: Served) -> None:
    answer = await served.answer(HEAD + b"content-length: 2\r\nconnection: close\r\n\r\nhi")
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"hi" in answer


@pytest.mark.parametrize(
    "piece", [b"G", b"\r\n", HEAD, b"GET /" + b"a" * 1000], ids=["letter", "line", "head", "url"]
)
async def test_a_head_that_does_not_come_is_given_up(served: Served, piece: bytes) -> None:
    assert (await served.answer(piece)).startswith(b"HTTP/1.1 408")
    assert not served.app.scopes


async def test_a_connection_without_a_word_is_closed_without_one(served: Served) -> None:
    assert await served.answer() == b""


async def test_a_byte_now_and_then_does_not_prolong_it(served: Served) -> None:
    async with served.socket() as (reader, writer), asyncio.timeout(WHOLE_S):
        began_s = asyncio.get_running_loop().time()
        answer = asyncio.create_task(whole(reader))
        while not answer.done():
            writer.write(b"a")
            await asyncio.wait([answer], timeout=LATE_S / 10)
        assert answer.result().startswith(b"HTTP/1.1 4")
        assert asyncio.get_running_loop().time() - began_s < WHOLE_S / 2


@pytest.mark.parametrize("piece", [b"\r\n", HEAD])
async def test_the_next_head_of_a_kept_connection_has_the_same_time(
    served: Served, piece: bytes
) -> None:
    async with served.socket() as (reader, writer):
        writer.write(HEAD + b"content-length: 2\r\n\r\nhi")
        await reader.readuntil(b"0\r\n\r\n")
        writer.write(piece)
        assert (await whole(reader)).startswith(b"HTTP/1.1 408")


async def test_the_time_is_for_the_head_alone(served: Served) -> None:
    """A body has one of its own (BODY_TIMEOUT_S), an answer has none."""
    async with served.socket() as (reader, writer):
        writer.write(b"GET /stream HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        await reader.readuntil(b"begun\r\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(100), 3 * LATE_S)
        served.app.let_go.set()
        assert (await whole(reader)).endswith(b"0\r\n\r\n")


LONG = b"a" * (MAX_HEAD_BYTES + 1)


@pytest.mark.parametrize("at_once", [True, False], ids=["in one piece", "without an end"])
@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + LONG + b" HTTP/1.1\r\nhost: x",
        HEAD + b"cookie: " + LONG,
        HEAD + LONG + b": x",
        HEAD + b"\r\n".join(b"x%d: y" % n for n in range(4000)),
    ],
    ids=["url", "value", "name", "many"],
)
async def test_a_head_has_a_size(served: Served, head: bytes, at_once: bool) -> None:
    answer = await served.answer(head + b"\r\n\r\n" if at_once else head)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431")
    assert not served.app.scopes


async def test_what_browsers_send_at_most_is_taken(served: Served) -> None:
    cookie = b"cookie: " + b"a" * 8192
    answer = await served.answer(HEAD + cookie + b"\r\nconnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")


CHUNKED = HEAD + b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"


async def test_trailers_are_no_headers(served: Served) -> None:
    trailers = b"authorization: Bearer x\r\nhost: elsewhere\r\n\r\n"
    answer = await served.answer(CHUNKED + b"2\r\nhi\r\n0\r\n" + trailers)
    assert answer.startswith(b"HTTP/1.1 200")
    names = [name for name, _ in served.app.scopes[0]["headers"]]
    assert names == [b"host", b"transfer-encoding", b"connection"]


@pytest.mark.parametrize(
    "piece",
    [
        b"2\r\nhi\r\n0\r\nx: " + b"a" * 32 * MAX_HEAD_BYTES,
        b"2;" + b"a" * 32 * MAX_HEAD_BYTES,
    ],
    ids=["trailer", "extension"],
)
async def test_framing_is_bounded_as_well(served: Served, piece: bytes) -> None:
    answer = await served.answer(CHUNKED, piece)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")


async def test_a_body_in_chunks_of_one_byte_is_taken(served: Served) -> None:
    chunks = b"1\r\nx\r\n" * 20_000
    answer = await served.answer(CHUNKED + chunks + b"0\r\n\r\n")
    assert answer.count(b"x") == 20_000


async def test_what_cannot_be_read_does_not_get_into_an_answer_that_runs(served: Served) -> None:
    async with served.socket() as (reader, writer):
        writer.write(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.readuntil(b"begun\r\n")
        writer.write(b"\0\0\0\r\n\r\n")
        assert b"HTTP/1.1" not in await whole(reader)


@pytest.mark.parametrize("behind", [0, 1, 2], ids=["alone", "one", "two"])
async def test_an_answer_hears_that_its_client_is_gone_whatever_came_behind_it(
    served: Served, behind: int
) -> None:
    """uvicorn tells only the last request of a connection."""
    async with served.socket() as (reader, writer):
        writer.write(b"GET /first HTTP/1.1\r\nhost: x\r\n\r\n" if behind == 2 else b"")
        writer.write(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n")
        writer.write(b"GET /never HTTP/1.1\r\nhost: x\r\n\r\n" * min(behind, 1))
        while not any(scope["path"] == "/stream" for scope in served.app.scopes):
            assert await asyncio.wait_for(reader.read(65536), WHOLE_S)
        writer.transport.abort()  # a reset: it is heard of though nothing is read any more
    await asyncio.wait_for(served.app.gone.wait(), WHOLE_S)
    assert [s["path"] for s in served.app.scopes if s["path"] == "/never"] == []
