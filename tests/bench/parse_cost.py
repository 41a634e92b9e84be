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
from typing import Any

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
CHUNKS_OF = {
    "openai-chat": ("", DATA),
    "anthropic": (
        "content_block_delta",
        '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}',
    ),
    "openai-responses": (
        "response.output_text.delta",
        '{"type":"response.output_text.delta","sequence_number":7,"item_id":"msg_c0ffee01",'
        '"output_index":0,"content_index":0,"delta":" word","logprobs":[]}',
    ),
}
"""Name and data of the event that nearly all of a stream consists of."""
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


def dialect(name: str) -> None:
    """What it costs beside json.loads of its own chunk."""
    event, data = CHUNKS_OF[name]
    chunk = (f"event: {event}\n" if event else "").encode() + f"data: {data}\n\n".encode()
    model = ModelConfig(name="m", dialect=name, base_url="http://m/v1", upstream_model="m")
    request = GenerationRequest(response_id="r", model="m", messages=[], created_at="")
    decoder, coalescer = DIALECTS[name].decoder(Asked(request=request, model=model)), Coalescer()

    def to_log() -> None:
        coalescer.add(decoder.feed(chunk))
        coalescer.take(7)

    to_log()
    reference, to_events, logged = beside(
        lambda: json.loads(data), lambda: decoder.feed(chunk), to_log
    )
    for what, cost in (("bytes to events", to_events), ("bytes to what is logged", logged)):
        verdict = "ok" if cost <= BAR * reference else f"MORE THAN {BAR}"
        ratio = f"{cost / reference:5.2f} x json.loads of its {len(data)} bytes: {verdict}"
        print(f"{cost:8.2f} µs  {ratio}  {name}, {what}")


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
    for name in CHUNKS_OF:
        dialect(name)
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
