#!/usr/bin/env python3
"""Where the added time to the first token goes.

    ttft_parts.py [--count 100] [--beside 20] [--json FILE]

Asks one question after the other, first alone and then beside running answers, and splits the time
between sending the question and receiving the first token (less the provider's own delay):

    request → create      HTTP, who is asking, validation, the database, until the log exists
    create → claim        the job stream until a supervisor has claimed it
    claim → provider      from the claim until the provider has the request: the upstream's connect
    first delta → log     provider's first delta until the log has it
    log → viewer          until the viewer has it

The cuts in the middle are the times at which Valkey wrote the log's entries: the script listens to
MONITOR, so the application is measured as it is. As in load.py, web process and Valkey share one
core, provider and client another. Beside the parts: how long a question takes that
is answered with 202, and how long the reply's head takes when the reply is the stream.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
import time

import psutil
import uvloop
from load import quantiles, spec
from ours import Ground, write_result
from sse_client import Api, Provider

TTFT_MS = 20.0
WHOLE_S = 240
PARTS = (
    "request → create",
    "create → claim",
    "claim → provider",
    "first delta → log",
    "log → viewer",
)
STAMP = re.compile(r"\[0:(\d+)")
# 1796003480.402107 [0 lua] "XADD" "relay:{0}:resp_0_…:log" "3-0" …
ENTRY = re.compile(
    rb'(\d+\.\d+) \[[^\]]*\] "(?i:xadd)" "[^"]*?(resp_[\w-]+):log"(?: "[^"]*")*? "(\d+)-0"'
)


class Monitor(asyncio.Protocol):
    """Times at which log entries were written, as {response id: {seq: ns}}."""

    def __init__(self):
        self.times = {}
        self._rest = b""
        # MONITOR tells the wall clock in µs; everything else here is CLOCK_MONOTONIC.
        self._offset_ns = min(time.time_ns() - time.monotonic_ns() for _ in range(100))

    def connection_made(self, transport):
        transport.write(b"MONITOR\r\n")

    def data_received(self, data):
        *lines, self._rest = (self._rest + data).split(b"\r\n")
        for line in lines:
            if found := ENTRY.search(line):
                seconds, _, fraction = found[1].partition(b".")
                ns = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, b"0")) - self._offset_ns
                self.times.setdefault(found[2].decode(), {}).setdefault(int(found[3]), ns)


async def one_question(api, provider, monitor, name):
    stream = await api.ask(spec(name, ttft=TTFT_MS, itl=20.0, tokens=3))
    try:
        _, created, _ = await stream.event("created")
        _, delta, received_ns = await stream.event("text.delta")
        await stream.event("ended")
    finally:
        stream.close()
    record = await provider.record(name)
    rid, first_seq = created["response_id"], delta["seq"]
    async with asyncio.timeout(5):
        while first_seq not in monitor.times.get(rid, {}):
            await asyncio.sleep(0.002)
    log = monitor.times.pop(rid)
    made_ns = int(STAMP.search(delta["delta"])[1])
    started_ns = log[2]
    cuts = [stream.sent_ns, log[1], started_ns, record["start_ns"]]
    parts = [b - a for a, b in itertools.pairwise(cuts)]
    parts += [log[first_seq] - made_ns, received_ns - log[first_seq]]
    return {
        **{part: ns / 1e6 for part, ns in zip(PARTS, parts, strict=True)},
        "added time to first token": (received_ns - stream.sent_ns) / 1e6 - TTFT_MS,
        "reply's head": (stream.head_ns - stream.sent_ns) / 1e6,
    }


async def series(api, provider, monitor, count, label):
    rows = []
    for i in range(count):
        rows.append(await one_question(api, provider, monitor, f"{label}{i}"))
        answer, took_ns = await api.create(spec(f"{label}c{i}", ttft=1.0, itl=1.0, tokens=1))
        rows[-1]["request → 202"] = took_ns / 1e6
        while (await api.call("GET", f"/api/responses/{answer['id']}"))[0]["status"] in (
            "queued",
            "in_progress",
        ):
            await asyncio.sleep(0.01)
    return {part: quantiles([row[part] for row in rows]) for part in rows[0]}


async def cpu_per_question(api, pids, count=300, at_once=20):
    """CPU ms that each process spends on a whole answer of one token, 20 asked at a time."""
    processes = {name: psutil.Process(pid) for name, pid in pids.items()}
    spent = lambda: {n: sum(p.cpu_times()[:2]) * 1000 for n, p in processes.items()}  # noqa: E731
    slots = asyncio.Semaphore(at_once)

    async def one(i):
        async with slots:
            stream = await api.ask(spec(f"cost{i}", ttft=1.0, itl=1.0, tokens=1))
            await stream.event("ended", 60)
            stream.close()

    before, began_s = spent(), time.monotonic()
    await asyncio.gather(*(one(i) for i in range(count)))
    per_second = count / (time.monotonic() - began_s)
    await asyncio.sleep(0.5)  # what is written after the end
    cost = {f"{n} CPU ms": round((ms - before[n]) / count, 2) for n, ms in spent().items()}
    return {**cost, "per second": round(per_second, 1)}


async def measure(ground, count, beside):
    port, web_pid = ground.web()
    api, provider = Api(port, ground.site.headers), Provider(ground.upstream_port)
    loop = asyncio.get_running_loop()
    transport, monitor = await loop.create_connection(Monitor, "127.0.0.1", ground.store_port)
    async with asyncio.timeout(WHOLE_S):
        await series(api, provider, monitor, 10, "warm")
        cost = await cpu_per_question(api, {"web": web_pid, "valkey": ground.valkey_pid})
        result = {"alone": await series(api, provider, monitor, count, "alone")}
        # Long enough for the whole series; they end with the ground.
        running = [
            await api.ask(spec(f"beside{i}", ttft=20.0, itl=20.0, tokens=20000))
            for i in range(beside)
        ]
        for stream in running:
            await stream.event("text.delta")
        result[f"beside {beside} answers"] = await series(api, provider, monitor, count, "busy")
        for stream in running:
            stream.close()
    transport.close()
    return result, cost


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument(
        "--beside", type=int, default=20, help="running answers in the second series"
    )
    parser.add_argument("--json", help="where the figures go")
    args = parser.parse_args()
    with Ground("ttft", pinned=True) as ground:
        result, cost = uvloop.run(measure(ground, args.count, args.beside))
    print("| ms | " + " | ".join(f"{name}: p50 | p95" for name in result) + " |")
    print("|---" * (1 + 2 * len(result)) + "|")
    for part in next(iter(result.values())):
        cells = [f"{found[part][q]:.2f}" for found in result.values() for q in ("p50", "p95")]
        print(f"| {part} | {' | '.join(cells)} |")
    for name, found in result.items():
        total = sum(found[part]["p50"] for part in PARTS)
        print(f"{name}: the parts' medians add up to {total:.2f} ms")
    print("a whole answer of one token:", ", ".join(f"{v} {k}" for k, v in cost.items()))
    write_result("ttft-parts", {**result, "cost of a whole answer": cost}, args.json)


if __name__ == "__main__":
    main()
