"""Who counts as present, and when nobody does any more (PROTOCOL 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.laws import Law
from tests.model.state import HEARTBEAT, PRESENCE_GRACE

if TYPE_CHECKING:
    from tests.model.store import Store
    from tests.model.world import World


class Presence:
    def __init__(self, world: World, store: Store) -> None:
        self._world = world
        self._store = store

    def _until(self) -> int:
        patience = self._world.patience
        return self._world.now + 2 * HEARTBEAT + (patience.cancel_after if patience else 0)

    def of_creator(self) -> dict[str, int]:
        """Whoever asked counts as a viewer that was just lost."""
        return {"creator": self._until()}

    def of_lost(self) -> dict[str, int]:
        """A store that forgot who is here gives them time; unlike `creator` no attach ends it."""
        return {"restored": self._until()} if self._world.rules.restored_presence else {}

    def attend(self, viewer: str) -> None:
        if self._store.kept.state is None:
            return
        viewers = {**self._store.kept.viewers, viewer: self._until()}
        viewers.pop("creator", None)
        self._store.put(viewers=viewers)

    def heartbeat(self, viewer: str) -> None:
        rules, viewers = self._world.rules, self._store.kept.viewers
        if self._store.kept.state is None:
            return
        if viewer not in viewers:
            left = f"left:{viewer}" in viewers
            if (left and rules.late_heartbeat) or (not left and not rules.lost_presence):
                return
        self._store.put(viewers={**viewers, viewer: self._until()})

    def leave(self, viewer: str) -> None:
        if viewer not in self._store.kept.viewers or self._world.patience is None:
            return
        viewers = dict(self._store.kept.viewers)
        del viewers[viewer]
        if self._world.rules.left_mark:
            viewers[f"left:{viewer}"] = self._world.now + self._world.patience.leave_after
        self._store.put(viewers=viewers)

    def disconnect(self, viewer: str) -> None:
        if self._world.rules.silent_disconnect or viewer not in self._store.kept.viewers:
            return
        viewers = dict(self._store.kept.viewers)
        del viewers[viewer]
        self._store.put(viewers=viewers)

    def abandoned(self) -> bool:
        """Does the highest score lie in the past? Whoever asks acts on it, so it is judged here."""
        world, viewers = self._world, self._store.kept.viewers
        if world.patience is None:
            return False
        if world.rules.presence_grace and world.now < self._store.restarted_at + PRESENCE_GRACE:
            return False
        if viewers and max(viewers.values()) >= world.now:
            return False
        if not world.attendance.may_be_judged():
            world.broken.note(Law.TOO_SOON)
        return True
