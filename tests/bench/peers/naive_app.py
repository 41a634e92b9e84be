"""Baseline: the usual tutorial relay. FastAPI + sse-starlette + httpx, no store, no resume."""

from __future__ import annotations

import json
import os

import httpx
from fastapi import FastAPI, Request
from sse_starlette.sse import EventSourceResponse

UPSTREAM = os.environ["BENCH_UPSTREAM"] + "/v1/chat/completions"
app = FastAPI()
client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))


@app.post("/chat")
async def chat(request: Request):
    body = await request.json()

    async def events():
        async with client.stream("POST", UPSTREAM, json=body) as response:
            async for line in response.aiter_lines():
                if not line.startswith("data: "):
                    continue
                data = line[6:]
                if data == "[DONE]":
                    break
                delta = json.loads(data)["choices"][0]["delta"].get("content")
                if delta:
                    yield {"data": json.dumps({"delta": delta})}
        yield {"data": "[DONE]"}

    return EventSourceResponse(events())


@app.get("/health")
async def health():
    return {}
