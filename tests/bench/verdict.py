#!/usr/bin/env python3
"""The bars of this project against a result of load.py: measured ratio, PASS or MISS.

    verdict.py RESULT.json [--ours ours] [--json FILE]

Figures are medians over the rounds, and a ratio is one median over another; the ratios of the
single rounds stand beside it, because they show how noisy the machine was. A bar whose figures are
missing is MISSING, never passed. The exit status is 0 when every bar that was measured passed.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys

from load import dig, open_ended

# (what, path in a row, comparison, limit as a factor of the peer's figure, peers)
AGAINST_PEERS = [
    (
        "CPU ms per 1,000 tokens, largest load held",
        "ladder.full_cpu",
        "<=",
        0.8,
        ("fastapi", "django"),
    ),
    ("CPU ms per 1,000 tokens, largest load held", "ladder.full_cpu", "<=", 0.6, ("nchan-redis",)),
    ("streams per core", "ladder.sustained", ">=", 1.2, ("fastapi",)),
    ("added latency p50 at 20 streams, ms", "light.lag_ms.p50", "<=", 2.0, ("fastapi",)),
    ("added time to first token p50, ms", "light.ttft_added_ms.p50", "<=", 3.0, ("fastapi",)),
    ("memory per open stream, KiB", "memory.kb_per_stream", "<=", 1.0, ("fastapi",)),
]
# (what, path, comparison, limit, which round decides)
ALONE = [
    ("cancel: aborted of 20", "cancel.aborted", ">=", 20, min),
    ("cancel: most zombie tokens of a stream", "cancel.zombie_max", "<=", 1, max),
    ("resume: clean of 20", "resume.clean", ">=", 20, min),
    ("whole text after the end, tokens of 40", "late.tokens", ">=", 40, min),
    (
        "cost along a long response, last fifth / first fifth",
        "growth.last_over_first",
        "<=",
        1.15,
        statistics.median,
    ),
]
JOIN_LIMIT = 12
FLOOR = "floor"


def rows_of(data, target):
    """This target's row of each round; a round without one has none."""
    return [next((r for r in rnd if r["target"] == target), {}) for rnd in data["rounds"]]


def values(rows, path):
    return [dig(row, path) for row in rows]


def median(found):
    found = [v for v in found if v is not None]
    return statistics.median(found) if found else None


def judge(comparison, measured, limit):
    if measured is None:
        return "MISSING"
    passed = measured <= limit if comparison == "<=" else measured >= limit
    return "PASS" if passed else "MISS"


def bar(what, comparison, measured, limit, detail):
    return {
        "bar": what, "measured": measured, "limit": f"{comparison} {limit:g}",
        "verdict": judge(comparison, measured, limit), "detail": detail,
    }  # fmt: skip


def against(data, ours, what, path, comparison, factor, peer):
    mine, theirs = values(rows_of(data, ours), path), values(rows_of(data, peer), path)
    a, b = median(mine), median(theirs)
    ratio = a / b if a is not None and b else None
    rounds = [x / y for x, y in zip(mine, theirs, strict=True) if x is not None and y]
    detail = f"{number(a)} / {number(b)}"
    if len(rounds) > 1:
        detail += f"; rounds {', '.join(f'{r:.2f}' for r in rounds)}"
    if path == "ladder.sustained":
        if any(open_ended(r["ladder"]) for r in rows_of(data, ours) if r.get("ladder")):
            detail += "; ours was not the limit in a round"
        if any(open_ended(r["ladder"]) for r in rows_of(data, peer) if r.get("ladder")):
            detail += "; the peer was not the limit in a round"
    return bar(f"{what}: ours / {peer}", comparison, ratio, factor, detail)


def joining(rows):
    """A reader that joins at token 10,000 over one that joins at 1,000."""
    ratios, details = [], []
    for row in rows:
        took = {h["history"]: h["ms"] for h in row.get("history") or [] if h}
        if took.get(1000) and took.get(10000):
            ratios.append(took[10000] / took[1000])
            details.append(f"{took[10000]} / {took[1000]} ms")
    return bar(
        "joining at token 10,000 / at 1,000", "<=", median(ratios), JOIN_LIMIT, "; ".join(details)
    )


def verdicts(data, ours):
    rows = rows_of(data, ours)
    result = [
        against(data, ours, what, path, comparison, factor, peer)
        for what, path, comparison, factor, peers in AGAINST_PEERS
        for peer in peers
    ]
    for what, path, comparison, limit, decide in ALONE:
        found = [v for v in values(rows, path) if v is not None]
        detail = ", ".join(number(v) for v in found)
        result.append(bar(what, comparison, decide(found) if found else None, limit, detail))
    result.append(joining(rows))
    return result


def to_the_floor(data, ours):
    """How far from what Python can reach: not a bar."""
    for what, path in [
        ("CPU ms per 1,000 tokens, 20 streams", "light.cpu_ms_per_1k"),
        ("CPU ms per 1,000 tokens, largest load held", "ladder.full_cpu"),
        ("streams per core", "ladder.sustained"),
        ("added latency p50, ms", "light.lag_ms.p50"),
        ("added time to first token p50, ms", "light.ttft_added_ms.p50"),
    ]:
        a, b = median(values(rows_of(data, ours), path)), median(values(rows_of(data, FLOOR), path))
        if a is not None and b:
            yield {"what": what, "ours": a, "floor": b, "ratio": round(a / b, 2)}


def number(value):
    return "-" if value is None else f"{value:.4g}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", type=pathlib.Path)
    parser.add_argument("--ours", default="ours", help="name of the target that is judged")
    parser.add_argument("--json", type=pathlib.Path, help="write the verdicts there as well")
    args = parser.parse_args()
    data = json.loads(args.result.read_text())
    found = verdicts(data, args.ours)
    floor = list(to_the_floor(data, args.ours))

    print(f"{len(data['rounds'])} round(s), mode {data['mode']}\n")
    print("| bar | measured | limit | verdict | figures |\n|---|---|---|---|---|")
    for v in found:
        print(
            f"| {v['bar']} | {number(v['measured'])} | {v['limit']} | {v['verdict']} | {v['detail']} |"
        )
    if floor:
        print("\n| distance to the floor | ours | floor | ratio |\n|---|---|---|---|")
        for f in floor:
            print(f"| {f['what']} | {number(f['ours'])} | {number(f['floor'])} | {f['ratio']} |")
    foreign = [
        point["foreign_core"]
        for row in rows_of(data, args.ours)
        for point in [row.get("light") or {}, *((row.get("ladder") or {}).get("trail", []))]
        if point.get("foreign_core", 0) > 0.15
    ]
    if foreign:
        print(
            f"\nOther work took up to {max(foreign):.2f} of the measured core: distrust these figures."
        )
    for rnd in data["rounds"]:
        for row in rnd:
            if row.get("failures"):
                print(f"\n{row['target']}: {row['failures']}")
    if args.json:
        args.json.write_text(json.dumps({"bars": found, "floor": floor}, indent=1))
    sys.exit(any(v["verdict"] == "MISS" for v in found))


if __name__ == "__main__":
    main()
