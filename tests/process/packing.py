"""The application with its streams behind Django's own GZipMiddleware, which packs what it sees.

uvicorn tests.process.packing:application
"""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import TYPE_CHECKING, Any

from chatapp.asgi import application as ours  # first: it sets Django up

# ruff: isort: split
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.middleware.gzip import GZipMiddleware

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatapp.middleware.asgi_types import Message, Receive, Scope, Send


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "http" or scope["path"] != "/diag/stream":
        await ours(scope, receive, send)
        return
    said: asyncio.Queue[Message] = asyncio.Queue()
    inner = asyncio.create_task(ours(scope, receive, said.put))
    start = await said.get()

    async def body() -> AsyncIterator[bytes]:
        while True:
            message = await said.get()
            yield message.get("body", b"")
            if not message.get("more_body"):
                return

    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    plain = StreamingHttpResponse(body(), status=start["status"], headers=headers)

    def answer(request: HttpRequest) -> HttpResponse:
        return plain  # type: ignore[return-value]  # the middleware takes both

    packed: Any = GZipMiddleware(answer)(ASGIRequest(scope, BytesIO()))
    pairs = [(name.lower().encode(), value.encode()) for name, value in packed.items()]
    await send({"type": "http.response.start", "status": packed.status_code, "headers": pairs})
    async for chunk in packed.streaming_content:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    await inner
