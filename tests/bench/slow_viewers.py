#!/usr/bin/env python3
"""Viewers that read 1 KB/s beside normal ones: what they cost, and whom they slow down.

    slow_viewers.py [--viewers 200] [--seconds 60] [--server uvicorn|daphne|both] [--json FILE]

Twenty answers run in one web process, each with its share of normal viewers. Their latency, from
the provider's stamp to the viewer, is measured for 20 s; then as many slow viewers come, each with
a receive buffer of 4 KiB of which it takes 1 KB a second, while an answer makes 5 KB a second. The
normal viewers' latency and the process' resident memory are measured again until the time is over.
The slow ones live in a process of their own that gives way to the one that measures: two hundred
that wake up together would delay its clock by milliseconds.
Bars under uvicorn: memory grows by less than 20 MB, the 99th percentile changes by less than 20 %.
Under Daphne, which never tells an application that a socket is full, the growth is stated: what a
viewer that does not read can cost there is bounded by what one answer may hold.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import socket
import subprocess
import sys

import uvloop
from load import Reader, now, quantiles, spec
from ours import Ground, write_result
from sse_client import Api
from targets import http
from viewers import Memory, mb, verdict

ANSWERS = 20
EVERY_MS = 50.0
DELTA_BYTES = 120
CALM_S = 20.0
BYTES_PER_S = 1024
RESPITE_S = 5.0
BARS = {"growth_mb": 20.0, "p99_change": 1.2}


async def attach(port, response_id, headers):
    request = http("GET", f"/api/responses/{response_id}/events", headers=headers)
    loop = asyncio.get_running_loop()
    _, reader = await loop.create_connection(lambda: Reader(request), "127.0.0.1", port)
    return reader


async def sip(port, response_id, headers, pause_s):
    """Read for ever, 1 KB a second, from `pause_s` after now."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(pause_s)
    with socket.socket() as viewer:
        viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        viewer.setblocking(False)
        await loop.sock_connect(viewer, ("127.0.0.1", port))
        await loop.sock_sendall(
            viewer, http("GET", f"/api/responses/{response_id}/events", headers=headers)
        )
        taken = 0
        while chunk := await loop.sock_recv(viewer, BYTES_PER_S):
            taken += len(chunk)
            await asyncio.sleep(len(chunk) / BYTES_PER_S)
    raise RuntimeError(f"a slow viewer was closed after {taken} bytes")


async def sip_all(order):
    """What the process of the slow viewers does; fails when one of them was closed."""
    count = order["count"]
    await asyncio.gather(
        *[
            sip(order["port"], rid, order["headers"], n / count)
            for n, rid in zip(range(count), itertools.cycle(order["ids"]))
        ]
    )


def slow_crowd(port, ids, headers, count):
    order = json.dumps({"port": port, "ids": ids, "headers": headers, "count": count})
    argv = [sys.executable, __file__, "--sip", order]
    return subprocess.Popen(argv, preexec_fn=lambda: os.nice(15))  # noqa: PLW1509


def lags(readers, since_ns, until_ns):
    found = []
    for reader in readers:
        found += [
            (received - sent) / 1e6
            for _, sent, received in reader.parse()
            if since_ns <= sent <= until_ns
        ]
    return found


async def measure(ground, server, count, seconds):
    port, pid = ground.web(server=server)
    headers, memory, api = ground.site.headers, Memory(pid), Api(port, ground.site.headers)
    tokens = int((CALM_S + seconds + 60) * 1000 / EVERY_MS)
    shape = {"ttft": 100.0, "itl": EVERY_MS, "tokens": tokens, "bytes": DELTA_BYTES}
    ids = [(await api.create(spec(f"slow{n}", **shape)))[0]["id"] for n in range(ANSWERS)]
    readers = [await attach(port, ids[n % ANSWERS], headers) for n in range(count)]
    await asyncio.sleep(RESPITE_S)
    calm = now()
    await asyncio.sleep(CALM_S)
    crowd, before = now(), memory.rss()
    slow = slow_crowd(port, ids, headers, count)
    try:
        await asyncio.sleep(RESPITE_S)
        crowded = now()
        await asyncio.sleep(seconds - RESPITE_S)
        end, after = now(), memory.rss()
        await asyncio.sleep(0.5)
        lost = slow.poll() is not None
    finally:
        slow.kill()
        slow.wait()
    for reader in readers:
        reader.close()
    for response_id in ids:
        await api.cancel(response_id)
    alone, beside = quantiles(lags(readers, calm, crowd)), quantiles(lags(readers, crowded, end))
    gaps = sum(b[0] != a[0] + 1 for reader in readers for a, b in itertools.pairwise(reader.tokens))
    return {
        "normal_viewers": count,
        "slow_viewers": count,
        "slow_viewers_closed": lost,
        "gaps": gaps,
        "lag_ms_alone": alone,
        "lag_ms_beside_slow": beside,
        "p99_change": round(beside["p99"] / alone["p99"], 2),
        "rss_mb_before": mb(before),
        "growth_mb": mb(after - before),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--viewers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--server", choices=["uvicorn", "daphne", "both"], default="both")
    parser.add_argument("--json", help="where the figures go")
    parser.add_argument("--sip", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.sip:
        uvloop.run(sip_all(args.sip))
        return
    result = {}
    for server in ("uvicorn", "daphne") if args.server == "both" else (args.server,):
        with Ground(f"slow-{server}", pinned=True) as ground:
            work = measure(ground, server, args.viewers, args.seconds)
            result[server] = uvloop.run(asyncio.wait_for(work, 60 + CALM_S + args.seconds))
        row = result[server]
        if server == "uvicorn":
            row["verdict"] = {
                name: verdict(
                    row[name] < limit and not row["gaps"] and not row["slow_viewers_closed"]
                )
                for name, limit in BARS.items()
            }
        print(f"{server}: {json.dumps(row)}", flush=True)
    write_result("slow-viewers", result, args.json)


if __name__ == "__main__":
    main()
