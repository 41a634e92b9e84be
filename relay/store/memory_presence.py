"""Who watches one response in the memory store: the rules of the Lua scripts, in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from relay.request import Disconnect

CREATOR: Final = "creator"
RESTORED: Final = "restored"
"""Nobody in particular, whom the store may have forgotten: counts as the creator does, and no
attach ends it (PROTOCOL 7.6, 10.1)."""
_LEFT: Final = "left:"


class Presence:
    """Who counts as a viewer, and until when (PROTOCOL 7).

    Args:
        policy: None before there is a log, which would say: then both timers are 0 until `counted`.
    """

    def __init__(self, policy: Disconnect | None, *, heartbeat_s: float) -> None:
        long_s = policy.cancel_after_s if policy is not None else None
        short_s = policy.leave_after_s if policy is not None else None
        self._watched = long_s is not None
        self._grace_ms = 2000 * heartbeat_s
        self._long_ms = 1000 * (long_s or 0)
        # A policy that names no short timer treats a leave like a loss.
        self._short_ms = self._long_ms if short_s is None else 1000 * short_s
        self._until: dict[str, float] = {}
        self._heard_ms = 0.0

    @property
    def early_until_ms(self) -> float:
        """When what was noted before there is a log is forgotten."""
        return self._heard_ms + self._grace_ms

    def count(self, early: Presence) -> Self:
        """Who was noted before there was a log counts from then, now that the timers are known."""
        for member, until in early._until.items():
            left = member.startswith(_LEFT)
            self._until[member] = until + (self._short_ms if left else self._long_ms)
        return self

    def wait_for(self, member: str, now_ms: float) -> Self:
        self._until[member] = now_ms + self._grace_ms + self._long_ms
        return self

    def attend(self, viewer: str, now_ms: int) -> int:
        self._until.pop(_LEFT + viewer, None)
        self._here(viewer, now_ms)
        return self.count_at(now_ms)

    def count_at(self, now_ms: int) -> int:
        """Viewers present, without marks of those that left or may be waited for."""
        nobody = (RESTORED, CREATOR)
        return sum(
            until >= now_ms and member not in nobody and not member.startswith(_LEFT)
            for member, until in self._until.items()
        )

    def beat(self, viewer: str, now_ms: int) -> None:
        # Whoever is not known was forgotten by the store; who left does not come back so.
        if viewer and _LEFT + viewer not in self._until:
            self._here(viewer, now_ms)

    def _here(self, viewer: str, now_ms: int) -> None:
        # The creator is waited for only until somebody came, else no leave would be a short one.
        self._until.pop(CREATOR, None)
        self.wait_for(viewer, now_ms)
        self._heard_ms = now_ms

    def leave(self, viewer: str, now_ms: int) -> None:
        of_login = viewer.endswith("/")
        for member in list(self._until):
            if member == viewer or (of_login and member.startswith(viewer)):
                del self._until[member]
                self._until[_LEFT + member] = now_ms + self._short_ms
                self._heard_ms = now_ms

    def abandoned(self, now_ms: int) -> bool:
        return self._watched and max(self._until.values()) < now_ms
