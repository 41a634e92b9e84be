"""The database of a run and how it is made to be away."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path
from typing import Protocol

from tests.site import free_port


class Database(Protocol):
    @property
    def url(self) -> str: ...
    def start(self) -> None: ...
    async def go_away(self) -> None:
        """Until `heal`. Returns when it has."""

    async def heal(self) -> None:
        """Safe to repeat."""

    def close(self) -> None: ...


class Sqlite:
    """Away means: somebody else holds the write lock."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "db.sqlite3"
        self._lock: sqlite3.Connection | None = None

    @property
    def url(self) -> str:
        return f"sqlite:///{self._path}"

    def start(self) -> None:
        pass

    async def go_away(self) -> None:
        self._lock = await asyncio.to_thread(self._take)

    def _take(self) -> sqlite3.Connection:
        lock = sqlite3.connect(
            self._path, timeout=10, isolation_level=None, check_same_thread=False
        )
        lock.execute("BEGIN IMMEDIATE")
        return lock

    async def heal(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.execute("ROLLBACK")
            lock.close()

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()


class Postgres:
    """A cluster of its own; away means stopped (`pg_ctl stop -m immediate`, as in a crash)."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        # Not below the run's folder: PostgreSQL refuses root, and nobody else may look in there.
        self._data = Path(tempfile.mkdtemp(prefix="unbroken-pg-"))
        self._log = folder / "postgres.log"

    @property
    def url(self) -> str:
        return f"postgres://relay@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        if os.geteuid() == 0:
            shutil.chown(self._data, "postgres")
        self._run("initdb", "-D", self._data, "-U", "relay", "-A", "trust", "--no-sync")
        self._up()

    def _up(self) -> None:
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
        self._run("pg_ctl", "start", "-w", "-D", self._data, "-o", options)

    async def go_away(self) -> None:
        stop = ("pg_ctl", "stop", "-m", "immediate", "-D", self._data)
        await asyncio.to_thread(self._run, *stop)

    async def heal(self) -> None:
        if not (self._data / "postmaster.pid").exists():
            await asyncio.to_thread(self._up)

    def close(self) -> None:
        if (self._data / "postmaster.pid").exists():
            self._run("pg_ctl", "stop", "-m", "immediate", "-D", self._data)
        shutil.rmtree(self._data, ignore_errors=True)

    def _run(self, program: str, *argv: object) -> None:
        versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        path = f"{versions[0]}:" if versions else ""
        command = [*(("runuser", "-u", "postgres", "--") if os.geteuid() == 0 else ()), program]
        with self._log.open("ab") as log:
            subprocess.run(
                [*command, *map(str, argv)],
                env={"PATH": f"{path}{os.environ.get('PATH', '')}", "LC_ALL": "C.UTF-8"},
                cwd="/",
                stdout=log,
                stderr=log,
                check=True,
                timeout=60,
            )
