"""Waiting for something to become true, instead of sleeping and hoping.

A test that waits says what it waits for; when the time is up that sentence is the failure.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

POLL_S = 0.01  # short against every limit we test, long enough to leave two cores alone


@overload
async def wait_until(
    predicate: Callable[[], Awaitable[T | None]], description: str, timeout: float = ...
) -> T: ...
@overload
async def wait_until(
    predicate: Callable[[], T | None], description: str, timeout: float = ...
) -> T: ...
async def wait_until(predicate: Callable[[], Any], description: str, timeout: float = 5.0) -> Any:
    """Return the predicate's first true value; it may be a function or a coroutine function.

    Raises AssertionError with `description` and the last value after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        _give_up_after(deadline, description, timeout, value)
        await asyncio.sleep(POLL_S)


def wait_until_sync(predicate: Callable[[], T | None], description: str, timeout: float = 5.0) -> T:
    """The same for tests of processes, which have no event loop."""
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        _give_up_after(deadline, description, timeout, value)
        time.sleep(POLL_S)


def _give_up_after(deadline: float, description: str, timeout: float, last: object) -> None:
    if time.monotonic() > deadline:
        raise AssertionError(f"waited {timeout:g} s for: {description} (last value: {last!r})")
