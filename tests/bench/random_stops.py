#!/usr/bin/env python3
"""Stops at random moments of short answers: before the job is taken, at every token, after the end.

    random_stops.py [--count 10000] [--seed 1] [--json FILE]

Two web processes share one Valkey and one database; only the first generates. Each answer is
followed in both and stopped from one of them, by chance. What must hold (PROTOCOL 6): both viewers,
the reply to the stop if it names an end, and the record tell one end; it is `cancelled/user` or,
when the answer was over before the stop came, `completed` with its whole text; a stop that was asked
for after a viewer had seen the end changes nothing; the provider sent nothing into an open
connection after a viewer had received `cancelled`. Bars: no answer that breaks any of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections import Counter

import uvloop
from load import quantiles, spec
from ours import Ground, write_result
from sse_client import Api, Provider, now_ns

AT_ONCE = 8
TTFT_MS, EVERY_MS, TOKENS = 30.0, 5.0, 80
LATEST_S = 0.45
"""An answer takes 0.43 s."""
END_S = 20


async def one(name, generating, other, provider, chance):
    """(the end, what is wrong with it, ms from the stop to the provider's end)"""
    shape = {"ttft": TTFT_MS, "itl": EVERY_MS, "tokens": TOKENS, "watch": 1}
    stopping, wait_s = chance.choice([generating, other]), chance.random() * LATEST_S
    stream = await generating.ask(spec(name, **shape))
    response_id = (await stream.event("created"))[1]["response_id"]
    elsewhere = await other.follow(response_id)
    await asyncio.sleep(wait_s)
    seen, asked_ns = stream.find("ended"), now_ns()
    answer, _ = await stopping.cancel(response_id)
    _, ended, ended_ns = await stream.event("ended", END_S)
    ends = [ended, (await elsewhere.event("ended", END_S))[1]]
    kept, _ = await other.call("GET", f"/api/responses/{response_id}")
    record = await provider.record(name)
    texts = [
        "".join(data["delta"] for kind, data, _ in s.events if kind == "text.delta")
        for s in (stream, elsewhere)
    ]
    for s in (stream, elsewhere):
        s.close()
    wrong = []
    told = {(e["status"], e["reason"]) for e in ends}
    told.add((kept["status"], kept["reason"]))
    if not answer.get("cancelling"):
        told.add((answer["status"], answer["reason"]))
    if len(told) != 1:
        wrong.append(f"several ends: {sorted(map(str, told))}")
    end = ended["status"]
    if (end, ended["reason"]) not in {("cancelled", "user"), ("completed", None)}:
        wrong.append(f"ended as {end}/{ended['reason']}")
    if len({*texts, kept["text"]}) != 1:
        wrong.append("several texts")
    if seen is not None and end != "completed":
        wrong.append("an end was changed")
    if end == "completed" and texts[0].count("[") != TOKENS:
        wrong.append("completed without its whole text")
    if end == "cancelled" and record and not record["end_ns"]:
        wrong.append("cancelled while the provider generates")
    if end == "cancelled" and record and (record["last_ns"] or 0) > ended_ns:
        wrong.append("the provider sent after cancelled")
    aborted = bool(record) and record["state"] == "aborted"
    return end, wrong, (record["end_ns"] - asked_ns) / 1e6 if aborted else None


async def measure(ground, count, seed):
    port, _ = ground.web()
    other_port, _ = ground.web(embedded=False)
    generating, other = Api(port, ground.site.headers), Api(other_port, ground.site.headers)
    provider = Provider(ground.upstream_port)
    slots, results = asyncio.Semaphore(AT_ONCE), []

    async def run(serial):
        async with slots:
            dice = random.Random(f"{seed} {serial}")
            results.append((serial, *await one(f"r{serial}", generating, other, provider, dice)))

    for begin in range(0, count, 500):
        async with asyncio.timeout(300), asyncio.TaskGroup() as group:
            for serial in range(begin, min(begin + 500, count)):
                group.create_task(run(serial))
    return results


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="where the figures go")
    args = parser.parse_args()
    with Ground("random-stops") as ground:
        results = uvloop.run(measure(ground, args.count, args.seed))
    wrong = [(serial, what) for serial, _, what, _ in results if what]
    result = {
        "stops": len(results),
        "seed": args.seed,
        "ends": Counter(end for _, end, _, _ in results),
        "wrong": len(wrong),
        "first_wrong": wrong[:10],
        "upstream_closed_ms": quantiles([ms for *_, ms in results if ms is not None]),
        "verdict": "MISS" if wrong or len(results) != args.count else "PASS",
    }
    print(json.dumps(result))
    write_result("random-stops", result, args.json)


if __name__ == "__main__":
    main()
