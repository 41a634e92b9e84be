"""A process whose clock is wrong: libfaketime (Debian's `faketime`) stands before its system calls.

Only its wall clock: jumps of the monotonic one do not happen, and nobody could live with them.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

JUMP_S: Final = 3600
"""Longer than any limit of a run; less than what sessions and keys live for."""
CACHE_S: Final = 1
"""The library looks into its file when more than so many whole seconds have passed: after two."""
SHARED: Final = Path("/dev/shm")  # noqa: S108 - that is where the library puts it


def library() -> Path | None:
    """None where it is not installed."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


class Clock:
    """How far off one process's clock is, in a file that the library in it reads."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._library = library()
        self.set(0)

    @property
    def env(self) -> Mapping[str, str]:
        if self._library is None:
            return {}
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": str(CACHE_S),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Else waits on a condition of the monotonic clock are bent: a hop to a thread and back
            # takes 30 ms instead of 0.3, since Python's lock of all threads is such a wait.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }

    def set(self, ahead_s: int) -> None:
        # By a rename: a process that read half of it would end itself.
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{ahead_s:+d}\n")
        fresh.replace(self._file)

    def sweep_up(self, pid: int) -> None:
        """What the library has left of a process that was killed."""
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
            with suppress(FileNotFoundError):
                (SHARED / name).unlink()
