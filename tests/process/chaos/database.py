"""The database of a run and how it is made to be away."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Protocol

from tests.postgres import PrivatePostgres


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
    """A server of its own; away means killed, as in a crash."""

    def __init__(self) -> None:
        self._server = PrivatePostgres()
        self._away = False

    @property
    def url(self) -> str:
        return self._server.url

    def start(self) -> None:
        self._server.start()

    async def go_away(self) -> None:
        self._away = True
        await asyncio.to_thread(self._server.kill)

    async def heal(self) -> None:
        if self._away:
            self._away = False
            await asyncio.to_thread(self._server.start)

    def close(self) -> None:
        self._server.close()
