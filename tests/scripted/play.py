"""One scripted answer on its way out, and what is noted about it."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.scripted.speech import Speech
from tests.scripted.steps import (
    Close,
    Done,
    EndBody,
    Gate,
    Hang,
    Head,
    Pause,
    Raw,
    Reset,
    Say,
    Send,
    Status,
    Step,
    Whole,
    Wire,
)


@dataclass(slots=True)
class Request:
    """What the server saw of one request. Times are seconds of time.monotonic."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    text: str
    """The last user message."""
    connection: int
    """Requests with the same number came over the same connection."""
    at_s: float = field(default_factory=time.monotonic)
    deltas: int = 0
    last_delta_unix_s: float | None = None
    """time.time, to compare with what other processes noted."""
    state: str = "open"
    """`open`, `done` (answered to the script's end) or `closed` (the client went before)."""
    closed_at_s: float | None = None
    bytes_after_close: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def see_close(self) -> None:
        if self.closed_at_s is None and self.state == "open":
            self.closed_at_s, self.state = time.monotonic(), "closed"
        self.closed.set()


class Hangup(Exception):
    """The script ended this connection."""


class Play:
    """One answer on its way out."""

    def __init__(
        self,
        gates: Mapping[str, asyncio.Event],
        request: Request,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._gates = gates
        self._request = request
        self._writer = writer
        self._streaming = False
        self._speech = Speech(request.path, request.body)

    async def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            await self._step(step)
        if self._streaming:
            await self._step(EndBody())

    async def _step(self, step: Step) -> None:
        match step:
            case Say(text):
                await self._body(self._speech.say(text).encode())
                self._request.deltas += 1
                self._request.last_delta_unix_s = time.time()
            case Send(data):
                await self._event(data)
            case Raw(data):
                await self._body(data)
            case Wire(data):
                await self._write(data)
            case Gate(name):
                await self._gates[name].wait()
            case Pause(ms):
                await asyncio.sleep(ms / 1000)
            case Hang():
                await asyncio.Event().wait()
            case Done(reason):
                await self._body(self._speech.end(reason).encode())
            case Whole(text):
                whole = json.dumps(self._speech.whole(text)).encode()
                await self._write(answer(200, whole, {}))
            case EndBody():
                await self._head({})
                self._streaming = False
                await self._write(b"0\r\n\r\n")
            case Head(headers):
                await self._head(headers)
            case Status(status, body, headers):
                await self._write(answer(status, body, headers))
            case Close():
                raise Hangup
            case Reset():
                on = struct.pack("ii", 1, 0)
                self._writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, on
                )
                self._writer.transport.abort()
                raise Hangup

    async def _event(self, data: Any) -> None:
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        await self._body(f"data: {text}\n\n".encode())

    async def _body(self, data: bytes) -> None:
        await self._head({})
        await self._write(b"%x\r\n%b\r\n" % (len(data), data))

    async def _head(self, headers: Mapping[str, str]) -> None:
        if not self._streaming:
            self._streaming = True
            head = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **headers}
            lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
            await self._write(f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode())

    async def _write(self, data: bytes) -> None:
        if self._request.closed.is_set():
            self._request.bytes_after_close += len(data)
        self._writer.write(data)
        await self._writer.drain()


def answer(status: int, body: bytes, headers: Mapping[str, str]) -> bytes:
    head = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"HTTP/1.1 {status} Scripted\r\n{lines}\r\n".encode() + body
