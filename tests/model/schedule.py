"""One schedule: first anything may happen to anybody, then everybody gets the time to finish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.laws import Broken, judge_end
from tests.model.rules import ALL, Rules
from tests.model.state import LEASE
from tests.model.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

FAIR_STEPS = 500
"""Long enough for two leases, a late log, and an answer that speaks until it is stopped."""


def play(seed: int, rules: Rules = ALL, watch: Callable[[World], None] | None = None) -> Broken:
    """Which laws the schedule of this seed breaks. `watch` is called before its first step."""
    world = World(seed, rules)
    if watch is not None:
        watch(world)
    _chaos(world)
    _fairness(world)
    judge_end(world)
    return world.broken


def _chaos(world: World) -> None:
    dice = world.dice
    faults = dice.choice((0.02, 0.06, 0.12))
    losses = dice.choice((0, 1, 1, 2))
    # Most questions are written at once; the races around them need the others.
    for _ in range(dice.choice((0, 4, 4, 4))):
        world.posters[0].step()
    for _ in range(dice.randint(20, 250)):
        world.now += dice.choice((0, 1, 1, 2))
        for viewer in world.viewers:
            viewer.tick()
        x = dice.random()
        if x < faults:
            _fault(world, losses)
        elif x < 0.72:
            worker = dice.choice(world.workers)
            if not worker.alive:
                worker.alive = dice.random() < 0.2
            elif worker.can_act:
                worker.step()
        elif x < 0.92:
            dice.choice(world.viewers).step()
        elif x < 0.96:
            dice.choice(world.posters).step()
        else:
            world.record.sweep()


def _fault(world: World, losses: int) -> None:
    dice = world.dice
    worker, viewer = dice.choice(world.workers), dice.choice(world.viewers)
    x = dice.random()
    if x < 0.18:
        worker.die()
    elif x < 0.45:
        # The last one wakes in the very instant in which its lease ends.
        lease_ends = worker.run.lease if worker.run is not None else world.now
        until = dice.choice((world.now + 5, world.now + LEASE, world.now + 3 * LEASE, lease_ends))
        worker.paused_until = until
    elif x < 0.58:
        if world.store.losses < losses:
            world.store.lose()
    elif x < 0.66:
        if world.record.rows and not world.record.wish:
            world.record.stop()
    elif x < 0.78:
        viewer.disconnect()
    elif x < 0.86:
        viewer.reload()
    elif x < 0.89:
        viewer.go_away()
    elif x < 0.95:
        if world.store.kept.jobs:
            world.store.enqueue()
    else:
        dice.choice(world.posters).give_up()


def _fairness(world: World) -> None:
    world.fair, world.fair_since = True, world.now
    for worker in world.workers:
        worker.alive, worker.paused_until = True, 0
        run = worker.run
        world.done_in_time |= run is not None and run.name is not None and not run.left
    for viewer in world.viewers:
        viewer.comes_at = 0
        if not viewer.connected and world.dice.random() < 0.3:
            viewer.away = True
    actors = (*world.workers, *world.viewers)
    for step in range(FAIR_STEPS):
        world.fair_steps = step
        world.now += 1
        for viewer in world.viewers:
            viewer.tick()
        actors[step % 4].step()
        if step < 40:
            world.posters[step % 2].step()
        if step % 9 == 0:
            world.record.sweep()
            if world.at_rest():
                break
    world.now = world.fair_since + FAIR_STEPS
