"""One POST of a question: reserve, row, log. Two of them carry the same Idempotency-Key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.quota import RESPONSE, Reserved

if TYPE_CHECKING:
    from tests.model.world import World


class Poster:
    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._key = RESPONSE if world.rules.reserve_by_response else f"post {number}"
        self._next = "look"
        self._granted = False
        # The second is a repeat: because a reply was lost, or by a client that asks twice at once.
        self.done = number == 1 and world.dice.random() < 0.5

    def _insert(self) -> None:
        """A failure is told as one; the client asks again with the same key."""
        world = self._world
        if world.record.insert():
            self._next = "create"
            return
        self._next = "look"
        if self._granted and not world.rules.unknown_holds:
            world.store.quota.release(self._key)

    def give_up(self) -> None:
        """The client is gone, or the process that served it."""
        self.done = True

    def step(self) -> None:
        world = self._world
        if self.done:
            return
        if self._next == "look":
            # Known keys are answered before any limit is asked.
            self.done = world.record.rows > 0 and world.rules.one_id
            self._next = "reserve"
        elif self._next == "reserve":
            if world.unlucky(0.05):
                return
            reserved = world.store.quota.reserve(self._key)
            self._granted = reserved is Reserved.GRANTED
            if reserved is not Reserved.UNKNOWN:
                self._next = "insert"
        elif self._next == "insert":
            self._insert()
        else:
            if not world.unlucky(0.1):
                world.store.create()
            self.done = True
