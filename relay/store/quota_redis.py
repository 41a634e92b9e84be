"""Quotas on Redis: one script each, on the store's lane of scripts (PROTOCOL 11).

A person's keys share a hash tag of their own: another slot than any response's, so these scripts
are never part of one that writes a log.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from relay.errors import StoreUnavailable
from relay.store import keys, scripts
from relay.store.quota import Grant, Refill, Reservation, Reserved, day_before, kept_until_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relay.store.lane import Carrier, Command
    from relay.store.room import Room

PATIENCE_S: Final = 1.0
"""As for a PING, whose place a reservation takes: a person waits for it before anything is kept."""
TTL_MS: Final = 8 * 86_400_000
"""Of a person's reservations after the last one was made: longer than any wall clock."""
REFILL_BATCH: Final = 1000
"""Responses per script, which runs alone on the server: about a millisecond."""


class RedisQuotas:
    """Implements `Quotas` on the lane it is given."""

    def __init__(self, lane: Carrier, room: Room) -> None:
        self._lane = lane
        self._room = room

    async def reserve(self, user: str, wanted: Reservation) -> Grant:
        names = [keys.running(user), keys.held(user), keys.used(user, wanted.day)]
        args: Command = [
            wanted.response_id,
            wanted.until_ms,
            wanted.hold,
            wanted.max_running,
            wanted.max_tokens,
            TTL_MS,
        ]
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._room.check()
                reply = await scripts.shielded(self._lane, scripts.RESERVE, names, args)
        except TimeoutError as error:
            raise StoreUnavailable("the store does not answer") from error
        outcome, used, *rest = reply
        told = tuple(text.decode() for text in rest)
        if outcome == b"unknown":
            return Grant(Reserved.UNKNOWN, run=told[0])
        return Grant(Reserved(outcome.decode()), used, told)

    async def settle(self, user: str, response_id: str, *, day: str, tokens: int) -> bool:
        names = [keys.running(user), keys.held(user), keys.used(user, day)]
        args: Command = [response_id, tokens, kept_until_ms(day)]
        return bool(await scripts.call(self._lane, scripts.SETTLE, names, args))

    async def release(self, user: str, response_ids: Sequence[str]) -> None:
        if response_ids:
            names = [keys.running(user), keys.held(user)]
            await scripts.call(self._lane, scripts.UNRESERVE, names, list(response_ids))

    async def refill(self, user: str, found: Refill) -> None:
        parts = [
            Refill(run="", day=found.day, ended=found.ended[at : at + REFILL_BATCH])
            for at in range(0, len(found.ended), REFILL_BATCH)
        ]
        parts += [
            Refill(run="", day=found.day, running=found.running[at : at + REFILL_BATCH])
            for at in range(0, len(found.running), REFILL_BATCH)
        ]
        for part in parts:
            await self._refill(user, part)
        await self._refill(user, Refill(run=found.run, day=found.day))

    async def _refill(self, user: str, part: Refill) -> None:
        names = [
            keys.running(user),
            keys.held(user),
            keys.used(user, part.day),
            keys.used(user, day_before(part.day)),
        ]
        args: list[str | int] = [part.run, kept_until_ms(part.day), TTL_MS, len(part.ended)]
        for ended in part.ended:
            args += ended
        for running in part.running:
            args += running
        await scripts.call(self._lane, scripts.REFILL, names, args)
