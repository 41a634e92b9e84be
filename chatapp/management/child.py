"""One child process of `manage.py dev`: started, watched, and gone when we are gone.

A child lives in a process group of its own, so that Ctrl-C in a terminal reaches only the parent,
which then stops its children in the right order. On Linux the kernel kills a child whose parent
died, even by `kill -9`. Elsewhere nothing does; `embedded` ends a Valkey left behind that way.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1  # prctl(2)
POLL_S = 0.05
LAST_LINES = 12  # what a terminal still shows under the sentence that names the failure

# Loaded here because between fork and exec it is too late to load anything.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class PartFailed(Exception):
    """A part could not start, or stopped. The text is meant for whoever started us."""


class StopAsked(Exception):
    """Ctrl-C or SIGTERM came while a part was starting."""


class Child:
    """A named process with a log file.

    Args:
        command: program and arguments.
        env: the whole environment of the child.
        log_path: gets its output; the log of the run before is kept beside it as `.old`.
        stdin: handed to the child and closed.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log_path: Path,
        stdin: str = "",
    ) -> None:
        self.name = name
        self.log_path = log_path
        self._command = list(command)
        self._env = dict(env)
        self._cwd = cwd
        self._stdin = stdin
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        pid = self._process.pid if self._process else None
        return f"<Child {self.name}, pid {pid}, exit code {self.exit_code}>"

    def start(self) -> None:
        """Raises PartFailed when the program cannot be run at all."""
        if self.log_path.exists():
            self.log_path.replace(self.log_path.with_suffix(".log.old"))
        with self.log_path.open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    self._command,
                    env=self._env,
                    cwd=self._cwd,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=die_with(os.getpid()),
                )
            except OSError as exc:
                raise PartFailed(f"{self.name} cannot be started: {exc}") from exc
        # A child that is already dead is reported by whoever waits for it, with its log.
        if pipe := self._process.stdin:
            with contextlib.suppress(BrokenPipeError), pipe:
                pipe.write(self._stdin.encode())

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and before the start."""
        return self._process.poll() if self._process else None

    def wait_until_ready(
        self, not_ready: Callable[[], str], *, within_s: float, stop_asked: Callable[[], bool]
    ) -> None:
        """Return when `not_ready` has no reason left to give.

        Raises PartFailed if the child ends or the time is over, StopAsked if somebody asks.
        """
        deadline = time.monotonic() + within_s
        while reason := not_ready():
            if stop_asked():
                raise StopAsked
            if self.exit_code is not None:
                raise self.failure("stopped while starting")
            if time.monotonic() > deadline:
                raise self.failure(f"was not ready after {within_s:g} s: {reason}")
            time.sleep(POLL_S)

    def wait_until_done(self, *, within_s: float, stop_asked: Callable[[], bool]) -> None:
        """The same for a child that does one thing and exits with 0."""
        deadline = time.monotonic() + within_s
        while self.exit_code is None:
            if stop_asked():
                raise StopAsked
            if time.monotonic() > deadline:
                raise self.failure(f"was not done after {within_s:g} s")
            time.sleep(POLL_S)
        if self.exit_code:
            raise self.failure("failed")

    def failure(self, what: str) -> PartFailed:
        """A sentence with the part's name, how it ended, and the end of its log."""
        lines = self.log_path.read_text(errors="replace").splitlines()[-LAST_LINES:]
        log = "".join(f"\n    {line}" for line in lines) or "\n    (it is empty)"
        return PartFailed(f"{self.name} {what}{self._ended()}. End of {self.log_path}:{log}")

    def stop(self, *, grace_s: float, hurry: Callable[[], bool]) -> None:
        """End the whole process group: SIGTERM, and SIGKILL after the grace or in a hurry."""
        if self._process is None:
            return
        group = self._process.pid
        _signal(group, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while self.exit_code is None and time.monotonic() < deadline and not hurry():
            time.sleep(POLL_S)
        _signal(group, signal.SIGKILL)  # also for what the child itself started and left behind
        self._process.wait()

    def _ended(self) -> str:
        code = self.exit_code
        if code is None:
            return ""
        if code < 0:
            return f" (killed by {signal.Signals(-code).name})"
        return f" (exit code {code})"


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def die_with(parent: int) -> Callable[[], None] | None:
    """A `preexec_fn` that ties a child's life to its parent's, where the kernel can do that."""
    if _libc is None:
        return None

    def before_exec() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died between fork and prctl
            os._exit(1)

    return before_exec
