"""The logs of a memory store, and who came before there was one: both are forgotten in time."""

from __future__ import annotations

import copy
import heapq
from typing import TYPE_CHECKING, Self

from relay.store.memory_presence import Presence

if TYPE_CHECKING:
    from collections.abc import Callable

    from relay.store.memory_log import MemoryLog


class MemoryLogs:
    """By response id.

    Args:
        now_ms: the store's clock.
    """

    def __init__(self, now_ms: Callable[[], int], *, heartbeat_s: float) -> None:
        self._now_ms = now_ms
        self._heartbeat_s = heartbeat_s
        self._logs: dict[str, MemoryLog] = {}
        self._early: dict[str, Presence] = {}
        self._expiries: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, response_id: str) -> MemoryLog | None:
        log = self._logs.get(response_id)
        if log is not None and log.expires_ms <= self._now_ms():
            del self._logs[response_id]
            return None
        return log

    def put(self, response_id: str, log: MemoryLog) -> None:
        self._logs[response_id] = log
        self.note_expiry(response_id, log)

    def pop(self, response_id: str) -> MemoryLog | None:
        self._early.pop(response_id, None)
        return self._logs.pop(response_id, None)

    def note_expiry(self, response_id: str, log: MemoryLog) -> None:
        """It has changed. Drops logs that nobody asked for since they expired."""
        heapq.heappush(self._expiries, (log.expires_ms, response_id))
        while self._expiries and self._expiries[0][0] <= self._now_ms():
            _, old = heapq.heappop(self._expiries)
            still = self.get(old)
            if still is not None:  # it was renewed meanwhile
                heapq.heappush(self._expiries, (still.expires_ms, old))

    # -- presence (PROTOCOL 7) ------------------------------------------------------------------
    def presence(self, response_id: str) -> Presence:
        """Of its log, or what is noted for two heartbeats while there is none."""
        if (log := self.get(response_id)) is not None:
            return log.presence
        now_ms = self._now_ms()
        self._early = {rid: p for rid, p in self._early.items() if p.early_until_ms > now_ms}
        new = Presence(None, heartbeat_s=self._heartbeat_s)
        return self._early.setdefault(response_id, new)

    def take_early(self, response_id: str) -> Presence:
        """Who was noted for the log that is made now."""
        early = self.presence(response_id)
        self._early.pop(response_id, None)
        return early

    # -- losses ---------------------------------------------------------------------------------
    def copy(self) -> Self:
        made = copy.copy(self)
        made._logs, made._early = copy.deepcopy(self._logs), copy.deepcopy(self._early)
        made._expiries = self._expiries.copy()
        return made
