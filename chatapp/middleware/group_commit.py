"""Transactions of many tasks share one commit: what arrives while one is written makes up the next.

A commit costs about as much as everything else that a question writes (on SQLite 38 % of the time
of the database's threads; on PostgreSQL a flush of its log). An idle process commits each piece of
work alone and at once; a busy one puts dozens into a transaction, and if one of them fails they run
again one by one, so that what one raises is its own affair.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.db import IntegrityError, connection, transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager

T = TypeVar("T")
Work = tuple["Callable[[], Any]", "asyncio.Future[Any]"]

MAX_WORKS: Final = 64
"""Per transaction: others wait for its end, and a failure at its commit repeats them one by one."""


class GroupCommit:
    """One database thread and the queue before it. Belongs to one event loop."""

    def __init__(self, thread: Executor) -> None:
        self.loop = asyncio.get_running_loop()
        self._thread = thread
        self._queue: list[Work] = []
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<GroupCommit {len(self._queue)} waiting>"

    async def run(self, work: Callable[[], T]) -> T:
        """Call `work` on the thread, inside a transaction; returns when that is committed.

        Raises what `work` raises; then nothing of it was written. It is called again after an
        IntegrityError, once, and after a commit that failed.
        """
        done: asyncio.Future[T] = self.loop.create_future()
        self._queue.append((work, done))
        if self._task is None or self._task.done():
            self._task = self.loop.create_task(
                self._drain(), name="group commit", context=Context()
            )
        return await done

    async def _drain(self) -> None:
        while self._queue:
            batch, self._queue = self._queue[:MAX_WORKS], self._queue[MAX_WORKS:]
            works = [work for work, _ in batch]
            try:
                results = await self.loop.run_in_executor(self._thread, commit, works)
            except RuntimeError as error:  # the thread has ended: the process is going away
                results = [error] * len(works)
            for (_, done), result in zip(batch, results, strict=True):
                if done.done():
                    continue
                if isinstance(result, BaseException):
                    done.set_exception(result)
                else:
                    done.set_result(result)


def commit(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """Each one's result, or the exception that it raised. On a database thread.

    Together without savepoints first, which would be half of all statements; if one of them fails,
    or the commit itself, nothing was written and each runs for itself. A transaction that could not
    even begin is everybody's failure: behind a lock each would wait as long, one after the other.
    """
    with write_turn():
        if len(works) > 1:
            begun = False
            try:
                with transaction.atomic():
                    begun = True
                    return [work() for work in works]
            except Exception as error:  # noqa: BLE001 - each raises its own, to whoever waits for it
                if not begun:
                    return [error] * len(works)
        return [_outcome(work) for work in works]


def write_turn() -> AbstractContextManager[object]:
    """Enter before a transaction that writes: the threads of this process take turns by themselves.

    SQLite has one writer and lets others wait in its busy handler, which sleeps 1, 2, 5 … 25 ms
    between two looks while the lock has long been free. Other databases need no turns.
    """
    return _TURN if connection.vendor == "sqlite" else nullcontext()


_TURN: Final = threading.Lock()


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        try:
            with transaction.atomic():
                return work()
        except IntegrityError:
            # Somebody else's row came between a look and a write of this work: it looks again.
            with transaction.atomic():
                return work()
    except Exception as error:  # noqa: BLE001 - handed to whoever waits for it
        return error
