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

    def _of_creator(self) -> dict[str, int]:
        """Whoever asked counts as a viewer that was just lost."""
        return {"creator": self._until()} if self._world.rules.creator_counts else {}

    def of_lost(self) -> dict[str, int]:
        """A store that forgot who is here gives them time; unlike `creator` no attach ends it."""
        return {"restored": self._until()} if self._world.rules.restored_presence else {}

    # -- before there is a log: noted for two heartbeats, with timers of 0 ------------------------
    @property
    def _early(self) -> bool:
        return self._store.kept.state is None

    def _noted(self) -> dict[str, int]:
        """One key with one life: it is gone when nothing was noted for two heartbeats."""
        viewers = self._store.kept.viewers
        life = [until + (2 * HEARTBEAT if _left(name) else 0) for name, until in viewers.items()]
        return dict(viewers) if max(life, default=0) >= self._world.now else {}

    def at_create(self, *, again: bool) -> dict[str, int]:
        """Who waited for the log, with the timers that they have now, and who asked."""
        viewers = self._timed(self._noted()) if self._early else {}
        return {**viewers, **(self.of_lost() if again else self._of_creator())}

    def at_restore(self) -> dict[str, int]:
        viewers = self._timed(self._noted()) if self._early else self._store.kept.viewers
        return {**viewers, **self.of_lost()}

    def _timed(self, noted: dict[str, int]) -> dict[str, int]:
        if (patience := self._world.patience) is None:
            return noted
        long, short = patience.cancel_after, patience.leave_after
        return {name: until + (short if _left(name) else long) for name, until in noted.items()}

    # -- scripts ----------------------------------------------------------------------------------
    def attend(self, viewer: str) -> None:
        self._note(viewer)

    def heartbeat(self, viewer: str) -> None:
        rules, viewers = self._world.rules, self._store.kept.viewers
        if viewer not in viewers:
            left = f"left:{viewer}" in viewers
            if (left and rules.late_heartbeat) or (not left and not rules.lost_presence):
                return
        self._note(viewer)

    def _note(self, viewer: str) -> None:
        self._world.attendance.heard(viewer)
        if not self._early:
            viewers = {**self._store.kept.viewers, viewer: self._until()}
            viewers.pop("creator", None)
            self._store.put(viewers=viewers)
        elif self._world.rules.early_presence:
            until = self._world.now + 2 * HEARTBEAT
            self._store.put(viewers={**self._noted(), viewer: until})

    def leave(self, viewer: str) -> None:
        if viewer not in self._store.kept.viewers or self._world.patience is None:
            return
        viewers = dict(self._store.kept.viewers)
        del viewers[viewer]
        if self._world.rules.left_mark:
            after = 0 if self._early else self._world.patience.leave_after
            viewers[f"left:{viewer}"] = self._world.now + after
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


def _left(member: str) -> bool:
    return member.startswith("left:")
