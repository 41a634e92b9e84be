"""The server: connections, requests, and which script answers them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from relay.config import ModelConfig
from tests.scripted.behaviours import behaviour, last_user_text
from tests.scripted.play import Hangup, Play, Request, answer

if TYPE_CHECKING:
    from tests.scripted.steps import Step


NOT_FOUND = 404


class ScriptedUpstream:
    def __init__(self, *, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.scripts: dict[str, list[Sequence[Step]]] = {}
        self._port = port
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._server: asyncio.Server | None = None
        self._connections = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def model_config(self, name: str = "scripted", **changes: Any) -> ModelConfig:
        given: dict[str, Any] = {
            "dialect": "openai-chat",
            "base_url": f"{self.url}/v1",
            "upstream_model": "scripted-1",
        }
        return ModelConfig(name=name, **(given | changes))

    def script(self, text: str, *steps: Step) -> None:
        """Answer like this whenever the last user message is `text`."""
        self.scripts[text] = [steps]

    def script_each(self, text: str, *scripts: Sequence[Step]) -> None:
        """One after the other, a script per request; the last is repeated."""
        self.scripts[text] = list(scripts)

    def open(self, gate: str) -> None:
        self._gates[gate].set()

    @property
    def open_connections(self) -> int:
        return len(self._tasks)

    @property
    def last(self) -> Request:
        return self.requests[-1]

    # -- the server -------------------------------------------------------------------------------
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._connections += 1
        try:
            while await self._request(reader, writer, self._connections):
                pass
        except (Hangup, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, path, _ = first.split(" ")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if method == "GET":
            writer.write(self._page(path))
            await writer.drain()
            return True
        asked = json.loads(body)
        request = Request(path, headers, asked, last_user_text(asked), connection)
        self.requests.append(request)
        attempt = sum(1 for other in self.requests if other.text == request.text)
        scripts = self.scripts.get(request.text) or [behaviour(request.text, attempt)]
        steps = scripts.pop(0) if len(scripts) > 1 else scripts[0]
        play = asyncio.ensure_future(Play(self._gates, request, writer).run(steps))
        watch = asyncio.ensure_future(_gone(reader))
        try:
            await asyncio.wait([play, watch], return_when=asyncio.FIRST_COMPLETED)
            if play.done() and not isinstance(play.exception(), ConnectionError):
                request.state = "done"
                play.result()
                return True
            request.see_close()  # read as an end, or felt as a write that failed
            return False
        finally:
            for part in (play, watch):
                part.cancel()
            await asyncio.gather(play, watch, return_exceptions=True)

    def _page(self, path: str) -> bytes:
        if path not in ("/stats", "/healthz"):
            return answer(NOT_FOUND, b"{}", {})
        stats = [
            {
                "text": r.text,
                "state": r.state,
                "deltas": r.deltas,
                "bytes_after_close": r.bytes_after_close,
                "age_s": round(time.monotonic() - r.at_s, 3),
                "closed_after_s": None if r.closed_at_s is None else r.closed_at_s - r.at_s,
                "last_delta_unix_s": r.last_delta_unix_s,
            }
            for r in self.requests
        ]
        return answer(200, json.dumps({"requests": stats}).encode(), {})


async def _gone(reader: asyncio.StreamReader) -> None:
    """Return when the client has closed; it has nothing to say while it is being answered."""
    with contextlib.suppress(ConnectionError):
        await reader.read(1)
