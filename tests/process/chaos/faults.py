"""How each kind of fault is done to the ground, and undone."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from tests.process.chaos.clock import JUMP_S
from tests.process.chaos.ledger import Happened
from tests.process.chaos.schedule import FAULTS, Kind

if TYPE_CHECKING:
    from tests.process.chaos.ground import Ground
    from tests.process.chaos.ledger import Ledger
    from tests.process.chaos.schedule import Step
    from tests.process.chaos.slot import Slot

LEAVE_S = 15.0
"""A process that was sent SIGTERM has 1 s to drain, a lease for what is in the way, and must be
gone well before anybody would kill it."""


async def play(ground: Ground, ledger: Ledger, steps: list[Step]) -> None:
    """All of the schedule; returns when the last fault is over."""
    start_s = asyncio.get_running_loop().time()
    alone: defaultdict[tuple[str, int], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def one(step: Step) -> None:
        await asyncio.sleep(step.at_s - (asyncio.get_running_loop().time() - start_s))
        # The schedule keeps them apart, but leaving after a SIGTERM takes as long as it takes.
        async with alone[FAULTS[step.kind].on, step.target]:
            happened = Happened(step, time.time())
            ledger.happened.append(happened)
            await _do(ground, ledger, happened)
            happened.end_s = time.time()

    async with asyncio.TaskGroup() as group:
        for step in steps:
            group.create_task(one(step))


async def _do(ground: Ground, ledger: Ledger, happened: Happened) -> None:
    step = happened.step
    match step.kind:
        case Kind.WORKER_KILL | Kind.WORKER_PAUSE | Kind.WORKER_TERM:
            slot = ground.workers[step.target]
            held = await ground.held_by(slot.pid)
            happened.held = dict.fromkeys(held, time.time())
            await _process(ledger, step, slot, leaves_with=0)
        case Kind.WEB_KILL | Kind.WEB_PAUSE | Kind.WEB_TERM:
            # uvicorn ends by the signal once all is shut down; Daphne (Twisted) with 0.
            await _process(ledger, step, ground.webs[step.target], leaves_with=None)
        case Kind.WORKER_CLOCK | Kind.WEB_CLOCK:
            slots = ground.workers if step.kind is Kind.WORKER_CLOCK else ground.webs
            clock = slots[step.target].clock
            assert clock is not None
            clock.set(-JUMP_S if _even(step) else JUMP_S)
            await asyncio.sleep(step.lasts_s)
            clock.set(0)
        case Kind.REDIS_RESTART | Kind.REDIS_EMPTY:
            server = ground.servers.primary
            if step.kind is Kind.REDIS_EMPTY:
                server.forget()
            server.kill()
            await asyncio.sleep(step.lasts_s)
            server.start()
        case Kind.REDIS_FAILOVER:
            await ground.servers.fail_over(step.lasts_s, killed=_even(step))
        case Kind.REDIS_PAUSE:
            with suppress(RedisError):
                await ground.direct.client_pause(round(step.lasts_s * 1000))
            await asyncio.sleep(step.lasts_s)
        case Kind.REDIS_FULL:
            with suppress(RedisError):
                await ground.direct.config_set("maxmemory-policy", "noeviction")
                await ground.direct.config_set("maxmemory", "100kb")
            await asyncio.sleep(step.lasts_s)
            with suppress(RedisError):
                await ground.direct.config_set("maxmemory", 0)
        case Kind.REDIS_KICK:
            with suppress(RedisError):
                await ground.direct.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        case Kind.NET_SLOW:
            ground.servers.slow(0.2)
            await asyncio.sleep(step.lasts_s)
            ground.servers.heal()
        case Kind.NET_CUT:
            ground.servers.cut_soon()
            await asyncio.sleep(step.lasts_s)
            ground.servers.heal()
        case Kind.DB_AWAY:
            await ground.database.go_away()
            await asyncio.sleep(step.lasts_s)
            await ground.database.heal()
        case Kind.PROVIDER_PAUSE:
            ground.provider.send(signal.SIGSTOP)
            await asyncio.sleep(step.lasts_s)
            ground.provider.send(signal.SIGCONT)


def _even(step: Step) -> bool:
    """One of two ways, by the seed."""
    return round(step.lasts_s * 100) % 2 == 0


async def _process(ledger: Ledger, step: Step, slot: Slot, *, leaves_with: int | None) -> None:
    match step.kind:
        case Kind.WORKER_KILL | Kind.WEB_KILL:
            slot.kill()
            await asyncio.sleep(step.lasts_s)
            slot.start()
        case Kind.WORKER_PAUSE | Kind.WEB_PAUSE:
            slot.send(signal.SIGSTOP)
            await asyncio.sleep(step.lasts_s)
            slot.send(signal.SIGCONT)
        case _:
            await slot.speaks()
            slot.send(signal.SIGTERM)
            status = await slot.left(LEAVE_S)
            if status is None:
                sentence = f"{slot.name} did not leave within {LEAVE_S:g} s of SIGTERM"
                ledger.complaints.append(("wrong exits", sentence))
                slot.kill()
            elif leaves_with is not None and status != leaves_with:
                sentence = f"{slot.name} left with status {status} after SIGTERM"
                ledger.complaints.append(("wrong exits", sentence))
            await asyncio.sleep(step.lasts_s)
            slot.start()
