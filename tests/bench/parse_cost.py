"""What one upstream chunk costs in CPU, from bytes to events, and over the wire. Prints µs.

python -m tests.bench.parse_cost
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import uvloop

from relay.coalesce import Coalescer
from relay.config import ModelConfig, RelayConfig
from relay.dialects import DIALECTS, Asked
from relay.dialects.openai_chat_chunk import decode_usual_chunk
from relay.events import TextDelta, encode_event
from relay.request import GenerationRequest
from relay.upstream import Upstream
from relay.wire.sse import Frame, SseDecoder, encode_frame

DATA = (
    '{"id":"chatcmpl-c0ffee01","object":"chat.completion.chunk","created":1735700000,'
    '"model":"demo-chat-1","choices":[{"index":0,"delta":{"content":" word"},'
    '"finish_reason":null}]}'
)
CHUNK = f"data: {DATA}\n\n".encode()


class Row(NamedTuple):
    """The event that a stream consists of while a model does one thing."""

    dialect: str
    what: str
    name: str
    data: str
    before: bytes = b""
    """What has to come first."""


def chat(delta: str) -> str:
    return DATA.replace('"content":" word"', delta)


def opened(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()


BLOCK = "content_block_delta"
ROWS = (
    Row("openai-chat", "text", "", DATA),
    Row("openai-chat", "reasoning", "", chat('"reasoning_content":" word"')),
    Row(
        "openai-chat",
        "tool call",
        "",
        chat('"tool_calls":[{"index":0,"function":{"arguments":" word"}}]'),
        before=b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1",'
        b'"type":"function","function":{"name":"look","arguments":""}}]}}]}\n\n',
    ),
    Row(
        "anthropic",
        "text",
        BLOCK,
        '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}',
    ),
    Row(
        "anthropic",
        "reasoning",
        BLOCK,
        '{"type":"content_block_delta","index":0,'
        '"delta":{"type":"thinking_delta","thinking":" word"}}',
    ),
    Row(
        "anthropic",
        "tool call",
        BLOCK,
        '{"type":"content_block_delta","index":0,'
        '"delta":{"type":"input_json_delta","partial_json":" word"}}',
        before=opened(
            "content_block_start",
            '{"type":"content_block_start","index":0,"content_block":'
            '{"type":"tool_use","id":"toolu_1","name":"look","input":{}}}',
        ),
    ),
    Row(
        "openai-responses",
        "text",
        "response.output_text.delta",
        '{"type":"response.output_text.delta","sequence_number":7,"item_id":"msg_c0ffee01",'
        '"output_index":0,"content_index":0,"delta":" word","logprobs":[]}',
    ),
    Row(
        "openai-responses",
        "reasoning",
        "response.reasoning_summary_text.delta",
        '{"type":"response.reasoning_summary_text.delta","sequence_number":7,'
        '"item_id":"rs_c0ffee01","output_index":0,"summary_index":0,"delta":" word"}',
    ),
    Row(
        "openai-responses",
        "tool call",
        "response.function_call_arguments.delta",
        '{"type":"response.function_call_arguments.delta","sequence_number":7,'
        '"item_id":"fc_c0ffee01","output_index":0,"delta":" word"}',
        before=opened(
            "response.output_item.added",
            '{"type":"response.output_item.added","sequence_number":6,"output_index":0,"item":'
            '{"type":"function_call","id":"fc_c0ffee01","call_id":"call_1","name":"look",'
            '"arguments":"","status":"in_progress"}}',
        ),
    ),
)
BAR = 2.5
"""What a dialect may cost, from bytes to what is logged, in json.loads of the same chunk."""
STREAMS, CHUNKS, EVERY_MS = 50, 200, 10


def us(call: Callable[[], object], number: int = 50_000) -> float:
    return min(timeit.repeat(call, number=number, repeat=5)) / number * 1e6


def beside(*calls: Callable[[], object]) -> list[float]:
    """µs of each, taken in turns, so that a noisy neighbour meets them all."""
    rounds = [[timeit.timeit(call, number=5_000) for call in calls] for _ in range(25)]
    return [min(costs) / 5_000 * 1e6 for costs in zip(*rounds, strict=True)]


def pure() -> None:
    sse = SseDecoder()
    sse.feed(CHUNK)
    crlf, half = CHUNK.replace(b"\n", b"\r\n"), len(CHUNK) // 2
    event, coalescer = TextDelta(delta=" word"), Coalescer()
    line = encode_event(event, 7).decode()

    def add_and_take() -> None:
        coalescer.add([event])
        coalescer.take(7)

    reference = us(lambda: json.loads(DATA))
    rows: list[tuple[str, float]] = [
        (f"json.loads of the chunk's {len(DATA)} bytes", reference),
        ("SSE decode, one event a chunk", us(lambda: sse.feed(CHUNK))),
        ("SSE decode, CRLF", us(lambda: sse.feed(crlf))),
        (
            "SSE decode, event in two reads",
            us(lambda: (sse.feed(CHUNK[:half]), sse.feed(CHUNK[half:]))),
        ),
        ("typed JSON decode", us(lambda: decode_usual_chunk(DATA))),
        ("coalesce, number and encode one event", us(add_and_take)),
        ("frame one event for a viewer", us(lambda: encode_frame(Frame(line, "text.delta", "7")))),
    ]
    for name, cost in rows:
        print(f"{cost:8.2f} µs  {cost / reference:5.2f} x json.loads  {name}")


def dialect(row: Row) -> None:
    """What it costs beside json.loads of its own chunk."""
    event = f"event: {row.name}\n" if row.name else ""
    chunk = f"{event}data: {row.data}\n\n".encode()
    model = ModelConfig(name="m", dialect=row.dialect, base_url="http://m/v1", upstream_model="m")
    request = GenerationRequest(response_id="r", model="m", messages=[], created_at="")
    asked, coalescer = Asked(request=request, model=model), Coalescer()
    decoder = DIALECTS[row.dialect].decoder(asked)
    decoder.feed(row.before)

    def to_log() -> None:
        coalescer.add(decoder.feed(chunk))
        coalescer.take(7)

    to_log()
    reference, to_events, logged = beside(
        lambda: json.loads(row.data), lambda: decoder.feed(chunk), to_log
    )
    for what, cost in (("events", to_events), ("what is logged", logged)):
        verdict = "ok" if cost <= BAR * reference else f"MORE THAN {BAR}"
        ratio = f"{cost / reference:5.2f} x json.loads of its {len(row.data)} bytes: {verdict}"
        print(f"{cost:8.2f} µs  {ratio}  {row.dialect}, {row.what}, bytes to {what}")


async def wire(address: str) -> list[tuple[str, float]]:
    """CPU of this process alone, per chunk, with the provider in another process."""
    request = GenerationRequest(
        response_id="r",
        model="m",
        messages=[{"role": "user", "content": f"say:{CHUNKS} every:{EVERY_MS}"}],
        created_at="2026-01-01T00:00:00Z",
    )
    model = ModelConfig(
        name="m", dialect="openai-chat", base_url=f"{address}/v1", upstream_model="m"
    )
    upstream = Upstream(RelayConfig())
    body = json.dumps({"messages": request.messages}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    async def ours() -> None:
        async with upstream.open(request, model) as call:
            async for _ in call:
                pass

    async def bare() -> None:
        reader, writer = await asyncio.open_connection(*address.removeprefix("http://").split(":"))
        writer.write(head + body)
        while b"[DONE]" not in await reader.read(65536):
            pass
        writer.close()

    async def cost(client: Callable[[], Coroutine[Any, Any, None]]) -> float:
        before = time.process_time()
        await asyncio.gather(*(client() for _ in range(STREAMS)))
        return (time.process_time() - before) / (STREAMS * CHUNKS) * 1e6

    rows = [
        ("a bare asyncio socket, bytes not looked at", min([await cost(bare) for _ in range(3)])),
        ("upstream: socket to events", min([await cost(ours) for _ in range(3)])),
    ]
    await upstream.aclose()
    return rows


def main() -> None:
    pure()
    for row in ROWS:
        dialect(row)
    command = [sys.executable, "-m", "tests.scripted"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as provider:
        try:
            assert provider.stdout is not None
            address = provider.stdout.readline().split()[-1]
            for name, cost in uvloop.run(wire(address)):
                print(f"{cost:8.2f} µs  per chunk, {STREAMS} streams: {name}")
        finally:
            provider.terminate()


if __name__ == "__main__":
    main()
