#!/usr/bin/env python3
"""Tokens made for nobody: a day of people, replayed ten times as fast under each policy.

    abandonment.py [--people 300] [--seed 1] [--json FILE]

Of a hundred people twenty go before the end (half close the page, which says so; half vanish), ten
press Stop, thirty lose their connection for 5 to 60 s and come back with Last-Event-ID, the others
read to the end. Answers take 20 to 80 s. Everything is ten times as fast here, the policies' times
and the heartbeat too. Zombie tokens are those that the provider made and that nobody was shown; the
table gives their share of all that were made, and how many answers were cut for people who came back to read on. Beside it what a relay does that ignores disconnects
and stops: it makes every answer to its end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random

import uvloop
from load import spec
from ours import Ground, write_result
from sse_client import EventStream, Provider
from targets import http

FASTER = 10
DAY_S = 40.0
EVERY_MS = 20.0
SCALED = {
    "RELAY_HEARTBEAT_S": "1.5",
    "RELAY_RENEW_S": "0.3",
    "RELAY_CHECK_S": "0.5",
    "RELAY_SWEEP_S": "1",
}
POLICIES = {
    "continue": "continue",
    "default (left 20 s, lost 300 s)": {"leave_after_s": 2, "cancel_after_s": 30},
    "short (left 5 s, lost 90 s)": {"leave_after_s": 0.5, "cancel_after_s": 9},
    "cancel": "cancel",
}


class Person:
    def __init__(self, number, seed):
        dice = random.Random(f"{seed} {number}")
        self.tokens = dice.randint(100, 400)
        self.comes_s = dice.random() * DAY_S
        kinds = ["leaves", "vanishes", "stops", "drops", "reads"]
        self.kind = dice.choices(kinds, weights=[10, 10, 10, 30, 40])[0]
        self.acts_after = dice.randint(5, self.tokens - 20)
        self.away_s = dice.uniform(5, 60) / FASTER
        self.name = f"p{number}"
        self.shown = 0
        self.cut = False
        """Came back, or stayed, and found a part."""


class Day:
    def __init__(self, port, headers, policy):
        self.port, self.headers, self.policy = port, headers, policy

    async def open(self, method, path, body=None, headers=None):
        request = http(method, path, body, {**self.headers, **(headers or {})})
        loop = asyncio.get_running_loop()
        _, stream = await loop.create_connection(
            lambda: EventStream(request), "127.0.0.1", self.port
        )
        return stream

    async def post(self, path, body=None):
        stream = await self.open("POST", path, body, {"Accept": "application/json"})
        async with asyncio.timeout(30):
            while not stream.closed:
                stream._changed.clear()
                await stream._changed.wait()

    async def live(self, person):
        await asyncio.sleep(person.comes_s)
        shape = {"ttft": 50.0, "itl": EVERY_MS, "tokens": person.tokens}
        body = {"model": "bench", "input": spec(person.name, **shape)}
        body["on_disconnect"] = self.policy
        stream = await self.open("POST", f"/api/responses?viewer={person.name}", body)
        response_id = (await stream.event("created"))[1]["response_id"]
        if person.kind != "reads":
            await stream.when(lambda: shown(stream) >= person.acts_after or stream.find("ended"))
        if person.kind == "stops":
            await self.post(f"/api/responses/{response_id}/cancel")
        elif person.kind in ("leaves", "vanishes"):
            stream.close()
            if person.kind == "leaves":
                await self.post(f"/api/responses/{response_id}/leave", {"viewer": person.name})
            person.shown = shown(stream)
            return
        elif person.kind == "drops":
            last = stream.last_id
            stream.close()
            person.shown = shown(stream)
            await asyncio.sleep(person.away_s)
            path = f"/api/responses/{response_id}/events?viewer={person.name}"
            stream = await self.open("GET", path, headers={"Last-Event-ID": last})
        _, ended, _ = await stream.event("ended", 60)
        person.cut = person.kind != "stops" and ended["status"] != "completed"
        person.shown += shown(stream)
        stream.close()


def shown(stream):
    return sum(data["delta"].count("[") for kind, data, _ in stream.events if kind == "text.delta")


async def measure(ground, policy, people):
    port, _ = ground.web()
    day, provider = Day(port, ground.site.headers, policy), Provider(ground.upstream_port)
    async with asyncio.timeout(DAY_S + 120), asyncio.TaskGroup() as group:
        for person in people:
            group.create_task(day.live(person))
    records = {}
    for person in people:  # what nobody watches any more comes to its end
        records[person.name] = await provider.record_when(
            person.name, lambda record: record["end_ns"], within_s=60
        )
    made = {person.name: records[person.name]["sent"] for person in people}
    return made


def row(made, people):
    generated = sum(made.values())
    zombies = sum(max(0, made[p.name] - p.shown) for p in people)
    return {
        "generated": generated,
        "zombies": zombies,
        "zombie_share": round(zombies / generated, 4),
        "cut_for_those_who_came_back": sum(p.cut for p in people),
        "by_kind": {
            kind: sum(max(0, made[p.name] - p.shown) for p in people if p.kind == kind)
            for kind in ("leaves", "vanishes", "stops", "drops", "reads")
        },
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--people", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="where the figures go")
    args = parser.parse_args()
    result = {}
    for name, policy in POLICIES.items():
        people = [Person(number, args.seed) for number in range(args.people)]
        with Ground("abandonment", **SCALED) as ground:
            made = uvloop.run(measure(ground, policy, people))
        result[name] = row(made, people)
        if name == "continue":
            everything = {person.name: person.tokens for person in people}
            for person in people:
                if person.kind == "stops":  # there is no stop that would reach the provider
                    person.shown = min(person.shown, person.acts_after)
            result["a relay that ignores disconnects"] = row(everything, people)
    print("| policy | tokens made | for nobody | share | left | vanished | stopped | answers cut |")
    print("|---|---|---|---|---|---|---|---|")
    for name, r in result.items():
        kinds = " | ".join(str(r["by_kind"][k]) for k in ("leaves", "vanishes", "stops"))
        print(
            f"| {name} | {r['generated']} | {r['zombies']} | {r['zombie_share']:.1%} "
            f"| {kinds} | {r['cut_for_those_who_came_back']} |",
            flush=True,
        )
    write_result("abandonment", result, args.json)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
