#!/usr/bin/env python3
"""What viewers cost a web process: idle ones, and one that stops reading.

    viewers.py [--viewers 1000] [--megabytes 48] [--json FILE]

Idle: one web process, one answer that says nothing, many viewers. Operating system threads, and
resident memory per viewer, right after they came and after their first heartbeat.
Bars: fewer than 50 threads, under 40 KiB each.

Stalled: a web process that only serves viewers (another one generates), its address space limited.
A first viewer reads a long answer to its end, so that the process has seen its size before, and a
second one tells how much memory moves by itself (about 2 MB, as much as several viewers may cost);
then another answer of that size is written while ten viewers here read nothing but the head: ten
that came before the text, ten that came in mid-text, both twice, and none of them goes. Resident
memory may grow by less than 1 MB for each viewer, and the answer must be whole for whoever reads it
elsewhere meanwhile, or here later.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import socket

import psutil
import uvloop
from load import spec
from ours import Ground, write_result
from sse_client import Api

WHOLE_S = 280
SETTLE_S = 2.0
HEARTBEAT_S = 15.0
ADDRESS_SPACE_GB = 4
CHUNK_BYTES = 4000
COMES = ("before the text", "in mid-text") * 2
STALLED_AT_ONCE = 10
BARS = {"threads": 50, "kib_per_viewer": 40, "growth_mb_per_viewer": 1.0}


class Memory:
    """Resident memory and threads of one process."""

    def __init__(self, pid):
        self._process = psutil.Process(pid)

    def rss(self):
        return self._process.memory_info().rss

    def threads(self):
        return self._process.num_threads()

    async def settled(self):
        """Resident memory once the process has nothing to do: the same for half a second."""
        last = None
        for _ in range(40):
            now = (self.rss(), self._process.cpu_times().user)
            if now == last:
                break
            last = now
            await asyncio.sleep(0.5)
        return self.rss()


async def idle(ground, count):
    port, pid = ground.web()
    api, memory = Api(port, ground.site.headers), Memory(pid)
    answer, _ = await api.create(spec("idle", ttft=600_000.0, tokens=1))

    async def attach(n):
        streams = []
        for begin in range(0, n, 50):
            batch = [await api.follow(answer["id"]) for _ in range(min(50, n - begin))]
            await asyncio.gather(*(s.event("started", 60) for s in batch))
            streams += batch
        return streams

    warm = await attach(50)
    before, threads_before = await memory.settled(), memory.threads()
    streams = await attach(count)
    await asyncio.sleep(SETTLE_S)
    after, threads = await memory.settled(), memory.threads()
    await asyncio.sleep(HEARTBEAT_S + 1)
    beaten = await memory.settled()
    lost = sum(s.closed for s in streams)
    threads = max(threads, memory.threads())
    await api.cancel(answer["id"])
    ended = await asyncio.gather(*(s.event("ended", 30) for s in streams), return_exceptions=True)
    for stream in [*warm, *streams]:
        stream.close()
    return {
        "viewers": count,
        "lost": lost,
        "told_the_end": sum(not isinstance(e, BaseException) for e in ended),
        "threads_before": threads_before,
        "threads": threads,
        "rss_mb_before": round(before / 2**20, 1),
        "rss_mb_after": round(after / 2**20, 1),
        "kib_per_viewer": round((after - before) / 1024 / count, 2),
        "kib_per_viewer_after_heartbeat": round((beaten - before) / 1024 / count, 2),
    }


async def stall(port, response_id, headers):
    """A viewer with a small receive buffer that reads the reply's head and then nothing more."""
    loop = asyncio.get_running_loop()
    viewer = socket.socket()
    viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    viewer.setblocking(False)
    await loop.sock_connect(viewer, ("127.0.0.1", port))
    lines = [f"GET /api/responses/{response_id}/events HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    await loop.sock_sendall(viewer, ("\r\n".join(lines) + "\r\n\r\n").encode())
    assert b" 200 " in await loop.sock_recv(viewer, 1024)
    return viewer


async def stalled(ground, megabytes):
    generating, _ = ground.web()
    port, pid = ground.web(embedded=False, address_space_gb=ADDRESS_SPACE_GB)
    headers, memory = ground.site.headers, Memory(pid)
    here, elsewhere = Api(port, headers), Api(generating, headers)
    count = megabytes * 2**20 // (CHUNK_BYTES + 20)

    async def ask(name):
        shape = {"ttft": 2000.0, "itl": 0.0, "tokens": count, "bytes": CHUNK_BYTES}
        return (await elsewhere.create(spec(name, **shape)))[0]["id"]

    async def read_all(api, response_id, half=None):
        """(status, characters of text)"""
        stream = await api.follow(response_id)
        characters = 0
        async with asyncio.timeout(90):
            while True:
                await stream.when(lambda: stream.events)
                taken, stream.events = stream.events, []
                for kind, data, _ in taken:
                    characters += len(data["delta"]) if kind == "text.delta" else 0
                    if kind == "ended":
                        stream.close()
                        return data["status"], characters
                if half is not None and characters > megabytes * 2**20 / 2:
                    half.set()

    whole = await read_all(here, await ask("read"))
    before = await memory.settled()
    await read_all(here, await ask("control"))
    control = await memory.settled() - before
    trials, viewers, others = [], [], []
    for i, comes in enumerate(COMES):
        before = await memory.settled()
        peak = Peak(memory)
        response_id = await ask(f"stalled{i}")
        half = asyncio.Event()
        # Somebody else's answer is whole meanwhile: a slow viewer harms nobody.
        reading = asyncio.create_task(read_all(elsewhere, response_id, half))
        if comes == "in mid-text":
            await asyncio.wait(
                [reading, asyncio.create_task(half.wait())], return_when=asyncio.FIRST_COMPLETED
            )
        viewers += [await stall(port, response_id, headers) for _ in range(STALLED_AT_ONCE)]
        others.append(await reading)
        await asyncio.sleep(SETTLE_S)
        growth = await memory.settled() - before
        trials.append(
            {
                "comes": comes,
                "growth_mb_per_viewer": mb(growth / STALLED_AT_ONCE),
                "peak_mb_per_viewer": mb((await peak.stop() - before) / STALLED_AT_ONCE),
            }
        )
    for viewer in viewers:
        viewer.close()
    others.append(await read_all(here, response_id))
    return {
        "megabytes": megabytes,
        "characters": whole[1],
        "growth_mb_of_a_viewer_that_reads": mb(control),
        "growth_mb_per_viewer": max(t["growth_mb_per_viewer"] for t in trials),
        "trials": trials,
        "whole_for_others": whole[0] == "completed" and set(others) == {whole},
    }


class Peak:
    """The largest resident memory until it is stopped."""

    def __init__(self, memory):
        self._memory, self._most = memory, memory.rss()
        self._task = asyncio.create_task(self._watch())

    async def _watch(self):
        while True:
            self._most = max(self._most, self._memory.rss())
            await asyncio.sleep(0.02)

    async def stop(self):
        self._task.cancel()
        await asyncio.wait([self._task])
        return self._most


def mb(size):
    return round(size / 2**20, 2)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--viewers", type=int, default=1000)
    parser.add_argument(
        "--megabytes", type=int, default=48, help="length of the answer nobody reads"
    )
    parser.add_argument("--json", help="where the figures go")
    args = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    result = {}
    show = lambda name: print(f"{name}: {json.dumps(result[name])}", flush=True)  # noqa: E731
    with Ground("viewers-idle") as ground:
        result["idle"] = uvloop.run(bounded(idle(ground, args.viewers)))
    show("idle")
    log_limit = {"RELAY_MAX_LOG_BYTES": str(4 * args.megabytes * 2**20)}
    with Ground("viewers-stalled", **log_limit) as ground:
        result["stalled"] = uvloop.run(bounded(stalled(ground, args.megabytes)))
    show("stalled")

    a, b = result["idle"], result["stalled"]
    result["verdict"] = {
        "threads": verdict(a["threads"] < BARS["threads"]),
        "kib_per_viewer": verdict(a["kib_per_viewer"] < BARS["kib_per_viewer"] and not a["lost"]),
        "growth_mb_per_viewer": verdict(
            b["growth_mb_per_viewer"] < BARS["growth_mb_per_viewer"] and b["whole_for_others"]
        ),
    }
    show("verdict")
    write_result("viewers", result, args.json)


async def bounded(work):
    async with asyncio.timeout(WHOLE_S):
        return await work


def verdict(passed):
    return "PASS" if passed else "MISS"


if __name__ == "__main__":
    main()
