"""Peer: one-node graph for the LangGraph API server; each delta goes out on the custom stream."""

from __future__ import annotations

import json
import os
from typing import TypedDict

import httpx
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph

UPSTREAM = os.environ["BENCH_UPSTREAM"] + "/v1/chat/completions"
client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))


class State(TypedDict):
    prompt: str


async def call(state: State):
    write = get_stream_writer()
    body = {
        "model": "bench",
        "stream": True,
        "messages": [{"role": "user", "content": state["prompt"]}],
    }
    async with client.stream("POST", UPSTREAM, json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                delta = json.loads(line[6:])["choices"][0]["delta"].get("content")
                if delta:
                    write({"delta": delta})
    return {}


builder = StateGraph(State)
builder.add_node("call", call)
builder.add_edge(START, "call")
builder.add_edge("call", END)
graph = builder.compile()
