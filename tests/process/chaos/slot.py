"""A place for a process that is killed and started again at the same address."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.site import Proc
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.process.chaos.clock import Clock

READY_S = 40.0
LIMITED = ("/bin/sh", "-c", 'ulimit -v "$0" && exec "$@"')


class Slot:
    """Args:
    argv: arguments of Python.
    env: as it is when a process is started.
    max_bytes: of address space; what wants more gets a MemoryError. 0 = no limit.
    clock: the process's own, which may be wrong.
    """

    def __init__(
        self,
        name: str,
        argv: list[str],
        env: Mapping[str, str],
        log: Path,
        *,
        max_bytes: int = 0,
        clock: Clock | None = None,
    ) -> None:
        limit = [*LIMITED, str(max_bytes // 1024)] if max_bytes else []
        self.name, self.log, self.clock = name, log, clock
        self._env = env
        self._argv = [*limit, sys.executable, *argv]
        self.proc: Proc | None = None
        self._log_bytes = 0
        self._may_be_gone = True

    @property
    def pid(self) -> int:
        return self.proc.popen.pid if self.proc else 0

    def start(self) -> None:
        if self.proc is None or not self.proc.alive:
            self._log_bytes = self.log.stat().st_size if self.log.exists() else 0
            self._may_be_gone = False
            if self.clock is not None:
                self.clock.sweep_up(self.pid)  # of the one that was here before
            env = {**self._env, **self.clock.env} if self.clock else self._env
            self.proc = Proc(self.name, self._argv, env, self.log)

    async def speaks(self) -> None:
        """Return when it has said something: then it hears signals, too. Bounded."""
        with suppress(AssertionError):
            begun = lambda: self.log.stat().st_size > self._log_bytes  # noqa: E731
            await wait_until(begun, f"{self.name} to say something", timeout=READY_S)

    def send(self, sig: signal.Signals) -> None:
        if self.proc is not None:
            self._may_be_gone |= sig is signal.SIGTERM
            self.proc.send(sig)

    def kill(self) -> None:
        if self.proc is not None:
            self._may_be_gone = True
            self.proc.kill()
            if self.clock is not None:
                self.clock.sweep_up(self.pid)

    async def left(self, within_s: float) -> int | None:
        """Its exit status; None if it is still there."""
        proc = self.proc
        assert proc is not None
        with suppress(AssertionError):
            await wait_until(lambda: not proc.alive, f"{self.name} to leave", timeout=within_s)
        return proc.popen.poll()

    def fell(self) -> int | None:
        """The status of a process that ended though nobody ended it; told once."""
        if self._may_be_gone or self.proc is None or self.proc.alive:
            return None
        self._may_be_gone = True
        return self.proc.popen.poll()
