"""`python -m tests.process.chaos --seed 7 --minutes 5`; see the head of the package."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys

from tests.process.chaos.run import Plan, run
from tests.process.chaos.schedule import Kind, schedule

parser = argparse.ArgumentParser(description="Break a running installation, by a seed.")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--minutes", type=float, default=5.0, help="of faults; settling comes on top")
parser.add_argument("--webs", type=int, default=2, help="the last of several is Daphne")
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--at-once", type=int, default=8, help="answers running side by side")
parser.add_argument("--viewers", type=int, default=4, help="at most, of one answer")
parser.add_argument("--words", type=int, default=400, help="at most, of one answer")
parser.add_argument("--db", choices=("sqlite", "postgres"), default="sqlite")
parser.add_argument("--only", nargs="+", type=Kind, choices=list(Kind), default=tuple(Kind))
parser.add_argument("--list", action="store_true", help="print the schedule and do nothing")
parser.add_argument("--keep", action="store_true", help="logs and trace of a clean run, too")
args = parser.parse_args()
plan = Plan(
    seed=args.seed,
    faults_s=args.minutes * 60,
    webs=args.webs,
    workers=args.workers,
    at_once=args.at_once,
    viewers=args.viewers,
    words=args.words,
    postgres=args.db == "postgres",
    kinds=args.only,
    keep=args.keep,
)
if args.list:
    counts = {"worker": plan.workers, "web": plan.webs}
    for step in schedule(plan.seed, plan.faults_s, counts, plan.kinds):
        print(step)
    sys.exit()


async def main() -> int:
    task = asyncio.ensure_future(run(plan))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):  # what was started is ended on the way out
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        outcome = await task
        print(outcome.report)
        return 0 if outcome.clean else 1
    return 130


sys.exit(asyncio.run(main()))
