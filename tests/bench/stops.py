#!/usr/bin/env python3
"""Stop latency: from the request to cancel until the provider sees its connection closed.

    stops.py [--count 200] [--json FILE]

Two web processes share one Valkey and one database; only the first runs generations. A quarter of
the stops each: asked of the process that generates or of the other one, before the first token or
in mid-text. Bars: median <= 50 ms, worst <= 1 s, nothing read from the provider after `cancelled`.

What was read after `cancelled` cannot be seen from outside, so the script looks at what could have
been read: bytes the provider sent into an open connection after a viewer had received `ended`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics

import uvloop
from load import quantiles, spec
from ours import Ground, write_result
from sse_client import Api, Provider, now_ns

AT_ONCE = 3
WHOLE_S = 300
BARS = {"median_ms": 50, "worst_ms": 1000}


async def one_stop(kind, serial, generating, other, provider):
    where, when = kind
    name = f"stop{serial}"
    if when == "before first token":
        shape = {"ttft": 120000.0, "tokens": 10}
    else:
        shape = {"ttft": 20.0, "itl": 20.0, "tokens": 5000, "watch": 1}
    stream = await generating.ask(spec(name, **shape))
    try:
        await provider.record_when(name, lambda record: record["start_ns"])
        if when == "mid-text":
            wanted = random.randint(3, 40)
            async with asyncio.timeout(20):
                await stream.when(
                    lambda: sum(e[0] == "text.delta" for e in stream.events) >= wanted
                )
        api = generating if where == "same process" else other
        _, created, _ = await stream.event("created")
        response_id = created["response_id"]
        asked_ns = now_ns()
        answer, _ = await api.cancel(response_id)
        _, ended, ended_ns = await stream.event("ended")
        record = await provider.record_when(name, lambda record: record["end_ns"])
    finally:
        stream.close()
    late = record["last_ns"] is not None and record["last_ns"] > ended_ns
    return {
        "ms": (record["end_ns"] - asked_ns) / 1e6,
        "viewer_ms": (ended_ns - asked_ns) / 1e6,
        "status": ended["status"],
        "reason": ended["reason"],
        "answered": answer["status"],
        "state": record["state"],
        "closed_first": record["end_ns"] <= ended_ns,
        "sent_after_end": late,
    }


async def measure(ground, count):
    port, _ = ground.web()
    other_port, _ = ground.web(embedded=False)
    generating, other = Api(port, ground.site.headers), Api(other_port, ground.site.headers)
    provider = Provider(ground.upstream_port)
    places, times = ("same process", "other process"), ("before first token", "mid-text")
    kinds = [(place, when) for place in places for when in times]
    for kind in kinds:  # warm up: imports, pools
        await one_stop(kind, f"warm{kinds.index(kind)}", generating, other, provider)
    rows = {kind: [] for kind in kinds}
    slots = asyncio.Semaphore(AT_ONCE)

    async def run(serial):
        kind = kinds[serial % len(kinds)]
        async with slots:
            rows[kind].append(await one_stop(kind, serial, generating, other, provider))

    async with asyncio.timeout(WHOLE_S), asyncio.TaskGroup() as group:
        for serial in range(count):
            group.create_task(run(serial))
    return rows


def summary(rows):
    ms = [r["ms"] for r in rows]
    return {
        "stops": len(rows),
        "aborted": sum(r["state"] == "aborted" for r in rows),
        "cancelled": sum((r["status"], r["reason"]) == ("cancelled", "user") for r in rows),
        "median_ms": round(statistics.median(ms), 2),
        "worst_ms": round(max(ms), 2),
        "upstream_ms": quantiles(ms),
        "viewer_ms": quantiles([r["viewer_ms"] for r in rows]),
        "closed_before_viewers_knew": sum(r["closed_first"] for r in rows),
        "streams_with_bytes_after_cancelled": sum(r["sent_after_end"] for r in rows),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--json", help="where the figures go")
    args = parser.parse_args()
    with Ground("stops") as ground:
        rows = uvloop.run(measure(ground, args.count))
    result = {" / ".join(kind): summary(found) for kind, found in rows.items()}
    result["all"] = whole = summary([r for found in rows.values() for r in found])

    print(
        "| stop | stops | aborted | upstream closed, median ms | p99 ms | worst ms | viewer told, median ms | p99 ms | bytes after `cancelled` |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, s in result.items():
        print(
            f"| {name} | {s['stops']} | {s['aborted']} | {s['median_ms']} "
            f"| {s['upstream_ms']['p99']:.2f} | {s['worst_ms']} "
            f"| {s['viewer_ms']['p50']:.2f} | {s['viewer_ms']['p99']:.2f} | in {s['streams_with_bytes_after_cancelled']} streams |"
        )
    passed = (
        all(whole[name] <= bar for name, bar in BARS.items())
        and whole["aborted"] == whole["cancelled"] == whole["stops"]
        and not whole["streams_with_bytes_after_cancelled"]
    )
    print(
        f"median <= 50 ms, worst <= 1000 ms, all aborted, 0 bytes after: {'PASS' if passed else 'MISS'}"
    )
    write_result("stops", {**result, "verdict": "PASS" if passed else "MISS"}, args.json)


if __name__ == "__main__":
    main()
