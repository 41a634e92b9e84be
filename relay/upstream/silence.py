"""A limit on waiting for bytes that costs one timer per limit, not one per read.

`asyncio.timeout` around every read would make and cancel a timer for each token. Here the timer
rings once per limit, looks how long the present wait has lasted, and sets itself again for the
rest.
"""

from __future__ import annotations

import asyncio


class Silence:
    """Cancels its task when a wait of that task has lasted for `limit_s`.

    It belongs to the task that makes it (asking for the current task per token was 5 % of a token's
    cost). Every wait is put between `begin` and `end`; a CancelledError out of it is ours if
    `ended_wait` says so. Time between waits, when nobody listens, is not silence.
    """

    def __init__(self, limit_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._limit_s = limit_s
        self._since_s = 0.0
        self._waits = False
        # Counted from the beginning: a cancel of somebody else that comes in the same turn of the
        # loop as ours must not be taken for it.
        self._cancelling = 0 if self._task is None else self._task.cancelling()
        self._timer: asyncio.TimerHandle | None = None
        self._rang = False

    @property
    def limit_s(self) -> float:
        return self._limit_s

    def change_limit(self, limit_s: float) -> None:
        """Hold the waits that begin from now on to another limit."""
        self._limit_s = limit_s
        self.close()

    def begin(self, since_s: float | None = None) -> None:
        """A wait begins; `since_s`, of the loop's clock, if it counts from earlier."""
        self._since_s = self._loop.time() if since_s is None else since_s
        self._waits = True
        if self._timer is None:
            self._arm()

    def end(self) -> None:
        self._waits = False

    def ended_wait(self) -> bool:
        """Whether the CancelledError just caught is this limit's, and no one else's besides."""
        if not self._rang or self._task is None:
            return False
        self._rang = False
        return self._task.uncancel() <= self._cancelling

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = self._loop.call_at(self._since_s + self._limit_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if not self._waits or self._task is None:
            return  # nobody waits: the next wait arms again
        if self._loop.time() < self._since_s + self._limit_s:
            self._arm()
            return
        self._rang = True
        self._task.cancel()
