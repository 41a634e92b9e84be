"""Peer: the Python port of resumable-stream on Starlette + httpx; resume by character offset."""

from __future__ import annotations

import os

import httpx
from resumable_stream import RedisPublisher, RedisSubscriber, create_resumable_stream_context
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

UPSTREAM = os.environ["BENCH_UPSTREAM"] + "/v1/chat/completions"
client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))
context = None


async def streams():
    global context
    if context is None:
        publisher, subscriber = (
            RedisPublisher(os.environ["REDIS_URL"]),
            RedisSubscriber(os.environ["REDIS_URL"]),
        )
        await publisher.connect()
        await subscriber.connect()
        context = create_resumable_stream_context(
            publisher=publisher, subscriber=subscriber, wait_until=lambda future: None
        )
    return context


async def start(request):
    body = await request.json()

    async def source():
        async with client.stream("POST", UPSTREAM, json=body) as response:
            async for text in response.aiter_text():
                yield text

    stream = await (await streams()).create_new_resumable_stream(request.path_params["sid"], source)
    return StreamingResponse(stream, media_type="text/event-stream")


async def resume(request):
    skip = int(request.query_params.get("skip", 0))
    stream = await (await streams()).resume_existing_stream(request.path_params["sid"], skip)
    if stream is None:
        return Response(status_code=204)
    return StreamingResponse(stream, media_type="text/event-stream")


async def health(request):
    return JSONResponse({})


app = Starlette(
    routes=[
        Route("/chat/{sid}", start, methods=["POST"]),
        Route("/chat/{sid}", resume),
        Route("/health", health),
    ]
)
