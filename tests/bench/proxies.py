#!/usr/bin/env python3
"""The proxies of deploy/ beside the bare server, in one run: what do they cost an answer?

    .venv/bin/python -m tests.bench.proxies [--rounds 3] [--streams 5] [--idle-s 300] [--json FILE]

Each way is asked in turns, a round after the other: time to the first byte of a POST that streams, how
late each token is (the fake provider stamps them), how long a stop takes until the stream ends. Then
one answer that falls silent is watched on all ways at once for `--idle-s`: pings must come and nothing
may be cut. Compare inside a run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import secrets
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import httpx

from tests import proxies
from tests.ports import free_port
from tests.site import Proc, Site
from tests.waiting import wait_until

STAMP = re.compile(r"\[\d+:(\d+)")
ENV = {"ALLOWED_HOSTS": "localhost,127.0.0.1", "TRUSTED_PROXIES": "127.0.0.1"}
now_ns = time.monotonic_ns


def spec(**shape):
    return "bench:" + ",".join(f"{k}={v}" for k, v in shape.items())


def client_of(url, key, *, http2=True):
    return httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {key}", "Accept": "text/event-stream"},
        http2=http2,
        verify=proxies.any_certificate(),
        trust_env=False,
        timeout=httpx.Timeout(30, read=None),
    )


async def one_answer(client, tokens, stop_at=None):
    """(ms to the first byte, ms late of each token, ms from stop to end)."""
    body = {"model": "fake", "input": spec(ttft=50, itl=20, tokens=tokens, id=secrets.token_hex(6))}
    await client.get("/healthz")  # a connection that is there: a handshake is not what is compared
    begun = now_ns()
    first = stopped = None
    lags, text, stopping = [], b"", None
    async with client.stream("POST", "/api/responses", json=body) as reply:
        reply.raise_for_status()
        async for chunk in reply.aiter_raw():
            now = now_ns()
            first = first or now
            text += chunk
            *frames, text = text.split(b"\n\n")
            for frame in frames:
                lags += [(now - int(at)) / 1e6 for at in STAMP.findall(frame.decode())]
                if b"event: created" in frame:
                    rid = json.loads(frame.partition(b"data: ")[2])["response_id"]
                if b"event: ended" in frame and stopped:
                    stopped = (now - stopped) / 1e6
            if stop_at is not None and len(lags) >= stop_at and stopping is None:
                stopped = now_ns()
                stopping = asyncio.create_task(client.post(f"/api/responses/{rid}/cancel"))
    if stopping is not None:
        await stopping
    return (first - begun) / 1e6, lags, stopped


async def idle(name, client, rid, idle_s):
    """Pings and silence of one watcher of a silent answer: (name, seconds kept, pings, longest gap)."""
    begun = last = time.monotonic()
    pings, longest = 0, 0.0
    try:
        async with asyncio.timeout(idle_s):
            async with client.stream("GET", f"/api/responses/{rid}/events") as reply:
                reply.raise_for_status()
                async for chunk in reply.aiter_raw():
                    now = time.monotonic()
                    longest, last = max(longest, now - last), now
                    pings += chunk.count(b": ping")
    except TimeoutError:
        pass
    except httpx.TransportError as exc:
        print(f"{name}: {exc!r}", file=sys.stderr)
    return {
        "way": name,
        "kept_s": round(time.monotonic() - begun, 1),
        "pings": pings,
        "longest_gap_s": round(longest, 1),
    }


def quantile(values, share):
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


async def measure(folder, rounds, streams, idle_s):
    port = free_port()
    models = folder / "fake.toml"
    models.write_text(
        f'[models.fake]\ndialect = "openai-chat"\nbase_url = "http://127.0.0.1:{port}/v1"\n'
        'upstream_model = "x"\nread_s = 3600\nfirst_byte_s = 3600\n'
    )
    env = ENV | {
        "RELAY_MODELS": str(models),
        "RELAY_VIEWER_MAX_AGE_S": "0",
        "RELAY_TOTAL_S": "3600",
    }
    with ExitStack() as stack:
        argv = [sys.executable, "tests/bench/upstream.py", "--port", str(port)]
        proc = Proc(
            "fake", argv, {"PATH": "/usr/bin:/bin", "HOME": str(folder)}, folder / "fake.log"
        )
        stack.callback(proc.kill)
        async with Site(folder, env=env) as site:
            ways = {"direct": site.urls[0]}
            for name, make in {
                "nginx": proxies.our_nginx,
                "haproxy": proxies.our_haproxy,
                "caddy": proxies.our_caddy,
            }.items():
                proxy = stack.enter_context(make(folder, site.urls[0]))
                ways[name] = proxy.url
            clients = {name: client_of(url, site.key) for name, url in ways.items()}
            # The client's own HTTP/2 is written in Python: what it costs is no proxy's fault.
            clients |= {
                f"{name}, HTTP/1.1": client_of(url, site.key, http2=False)
                for name, url in ways.items()
                if name != "direct"
            }

            async def all_ready():
                replies = [await client.get("/readyz") for client in clients.values()]
                return all(reply.status_code == 200 for reply in replies)

            await wait_until(all_ready, "every way to be open", timeout=30)
            seen = {name: {"first_ms": [], "lag_ms": [], "stop_ms": []} for name in clients}
            for client in clients.values():  # warm up: imports, connections
                await one_answer(client, 5)
            for _ in range(rounds):
                for name, client in clients.items():
                    for first, lags, _none in await asyncio.gather(
                        *(one_answer(client, 100) for _ in range(streams))
                    ):
                        seen[name]["first_ms"].append(first)
                        seen[name]["lag_ms"] += lags
                    for _ in range(streams):
                        _first, _lags, stop = await one_answer(client, 2000, stop_at=10)
                        seen[name]["stop_ms"].append(stop)
            rows = [
                {
                    "way": name,
                    "first_p50_ms": round(statistics.median(one["first_ms"]), 1),
                    "lag_p50_ms": round(statistics.median(one["lag_ms"]), 2),
                    "lag_p99_ms": round(quantile(one["lag_ms"], 0.99), 1),
                    "stop_p50_ms": round(statistics.median(one["stop_ms"]), 1),
                    "stop_worst_ms": round(max(one["stop_ms"]), 1),
                    "tokens": len(one["lag_ms"]),
                }
                for name, one in seen.items()
            ]
            silent = []
            if idle_s:
                body = {
                    "model": "fake",
                    "input": spec(ttft=50, itl=20, tokens=50, stall=3),
                    "on_disconnect": "continue",
                }
                asking = clients["direct"]
                reply = await asking.post(
                    "/api/responses", json=body, headers={"Accept": "application/json"}
                )
                rid = reply.json()["id"]
                silent = await asyncio.gather(
                    *(idle(name, client, rid, idle_s) for name, client in clients.items())
                )
                await asking.post(
                    f"/api/responses/{rid}/cancel", headers={"Accept": "application/json"}
                )
            for client in clients.values():
                await client.aclose()
            return rows, silent


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, default=5)
    parser.add_argument("--idle-s", type=float, default=300)
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unbroken-proxies-") as folder:
        rows, silent = asyncio.run(measure(Path(folder), args.rounds, args.streams, args.idle_s))
    for table in (rows, silent):
        for row in table:
            print("  ".join(f"{k} {v}" for k, v in row.items()))
    if args.json:
        Path(args.json).write_text(json.dumps({"ways": rows, "silent": silent}, indent=1) + "\n")


if __name__ == "__main__":
    main()
