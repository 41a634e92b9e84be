"""A schedule as a person can read it: who did what when, what was answered, what is kept now."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.model.state import Kept
    from tests.model.worker import Run
    from tests.model.world import World

LOG = ("create", "claim", "write", "renew", "cancel", "retire", "lose")
JOBS = ("enqueue", "take", "ack")
PRESENCE = ("attend", "leave", "disconnect", "abandoned")
QUOTA = ("reserve", "settle", "release", "refill")
RECORD = ("insert", "finalize", "stop")
WORKER = ("die",)
VIEWER = ("go_away", "reload", "disconnect")


class Trace:
    """Collects lines; `play(seed, rules, watch=trace)` fills it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, world: World) -> None:
        store = world.store
        self._hear(world, "store", store, LOG + JOBS)
        self._hear(world, "store", store.presence, PRESENCE)
        self._hear(world, "store", store.quota, QUOTA)
        self._hear(world, "record", world.record, RECORD)
        for worker in world.workers:
            self._hear(world, worker.name, worker, WORKER)
        for number, viewer in enumerate(world.viewers):
            self._hear(world, f"v{number}", viewer, VIEWER)

    def _hear(self, world: World, who: str, actor: object, names: tuple[str, ...]) -> None:
        for name in names:
            setattr(actor, name, self._heard(world, f"{who}.{name}", getattr(actor, name)))

    def _heard(self, world: World, what: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def heard(*args: Any, **named: Any) -> Any:
            before, broken = world.store.kept, world.broken.copy()
            at = len(self.lines)
            answer = method(*args, **named)
            after = world.store.kept
            if after is not before or answer:
                said = ", ".join(map(_short, args))
                phase = "fair " if world.fair else ""
                told = "" if answer is None else f" → {_short(answer)}"
                self.lines.insert(at, f"{phase}{world.now:4d}  {what}({said}){told}")
                if after is not before:
                    self.lines.insert(at + 1, f"            {_line(after)}")
            for law, _ in (world.broken - broken).elements():
                self.lines.append(f"     !!!!  {law}")
            return answer

        return heard


def _short(value: object) -> str:
    if hasattr(value, "serial"):
        return _of_run(value)  # type: ignore[arg-type]  # only a Run has one; importing it is a cycle
    if isinstance(value, tuple) and not isinstance(value, Enum):
        return "(" + " ".join(map(_short, value)) + ")"
    return value.name if isinstance(value, Enum) else str(value)


def _of_run(run: Run) -> str:
    upstream = "open" if run.upstream_open else "closed"
    return f"{run.worker} epoch {run.epoch} lease {run.lease} {run.name} {upstream}"


def _line(kept: Kept) -> str:
    log = " ".join(f"{entry.epoch}:{entry.data or entry.kind}" for entry in kept.log)
    jobs = " ".join(f"{job.number}@{job.owner or '-'}/{job.touched}" for job in kept.jobs)
    people = " ".join(f"{name}≤{until}" for name, until in kept.viewers.items())
    return (
        f"{kept.state or 'no log'} epoch {kept.epoch} lease {kept.lease_until}"
        f"{' stop' if kept.stop else ''} [{log}] jobs [{jobs}] viewers [{people}]"
        f" reserved {dict(kept.reserved)} used {kept.total}"
    )
