"""Quotas of one process: the same promises without a server (PROTOCOL 11)."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from relay.store.quota import Grant, Refill, Reservation, Reserved, day_before

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from relay.store.memory_server import MemoryServer


@dataclass
class _Day:
    """Tokens by response, and in which run of the server the records brought what was missing."""

    tokens: dict[str, int] = field(default_factory=dict)
    whole: str = ""


@dataclass
class _Person:
    running: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By response: until when, and how many tokens are set aside."""
    days: defaultdict[str, _Day] = field(default_factory=lambda: defaultdict(_Day))


People = Mapping[str, _Person]


class MemoryQuotas:
    """Implements `Quotas`.

    Args:
        call: what each call of the store goes through, with its name: its pauses and faults.
        now_ms: the store's clock.
        server: names the run that it is in.
    """

    def __init__(
        self,
        call: Callable[[str], AbstractAsyncContextManager[None]],
        now_ms: Callable[[], float],
        server: MemoryServer,
    ) -> None:
        self._call = call
        self._now_ms = now_ms
        self._server = server
        self._people: defaultdict[str, _Person] = defaultdict(_Person)

    async def reserve(self, user: str, wanted: Reservation) -> Grant:
        async with self._call("reserve"):
            person, rid = self._people[user], wanted.response_id
            day, now_ms = person.days[wanted.day], self._now_ms()
            for other, (until_ms, _) in list(person.running.items()):
                if until_ms <= now_ms:
                    del person.running[other]
            if rid in person.running:
                return Grant(Reserved.HELD)
            if rid in day.tokens:
                return Grant(Reserved.SETTLED)
            if day.whole != self._server.run:
                return Grant(Reserved.UNKNOWN, run=self._server.run)
            used, running = sum(day.tokens.values()), tuple(person.running)
            if wanted.max_running and len(running) >= wanted.max_running:
                return Grant(Reserved.RUNNING, used, running[:200])
            held = sum(tokens for _, tokens in person.running.values())
            if wanted.max_tokens and used + held >= wanted.max_tokens:
                return Grant(Reserved.TOKENS, used, running[:200])
            person.running[rid] = (wanted.until_ms, wanted.hold)
            return Grant(Reserved.GRANTED, used)

    async def settle(self, user: str, response_id: str, *, day: str, tokens: int) -> bool:
        async with self._call("settle"):
            person = self._people[user]
            person.running.pop(response_id, None)
            counted = person.days[day].tokens
            first = response_id not in counted
            counted.setdefault(response_id, tokens)
            return first

    async def release(self, user: str, response_ids: Sequence[str]) -> None:
        async with self._call("release"):
            for response_id in response_ids:
                self._people[user].running.pop(response_id, None)

    async def refill(self, user: str, found: Refill) -> None:
        async with self._call("refill"):
            person = self._people[user]
            today, before = person.days[found.day], person.days[day_before(found.day)]
            for rid, tokens in found.ended:
                today.tokens.setdefault(rid, tokens)
                person.running.pop(rid, None)
            for rid, until_ms, hold in found.running:
                if rid not in today.tokens and rid not in before.tokens:
                    person.running[rid] = (until_ms, hold)
            today.whole = found.run

    def copy(self) -> People:
        return copy.deepcopy(self._people)

    def become(self, people: People) -> None:
        """What another server knows, or nothing."""
        self._people.clear()
        self._people.update(people)
