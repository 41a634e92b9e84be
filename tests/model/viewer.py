"""Somebody who watches: a cursor, a subscription, and what is on the screen (PROTOCOL 4, 5, 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.state import HEARTBEAT, HEARTBEAT_LATE, Entry, text_of

if TYPE_CHECKING:
    from tests.model.world import World


class Viewer:
    """A browser's page and the process that serves it, as one."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number
        self._page = 0
        self.epoch, self.seq = 0, 0
        """the cursor: of the last event that was shown"""
        self.after = 0
        """?after= of the page's address, from when it was rendered: an EventSource keeps it"""
        self.text: tuple[str, ...] = ()
        self.end: str | None = None
        self.done = False
        self.away = False
        """gone for good: nobody waits here any more"""
        self.comes_at = world.dice.choice((0, 0, 0, 0, 60, 120))
        self._restless = world.dice.random() < 0.15
        """its network comes and goes"""
        self.connected = False
        self.subscribed = False
        self.inbox: list[tuple[int, int, tuple[Entry, ...]]] = []
        self._heartbeat_due = 0
        self._heartbeats: list[tuple[int, str]] = []
        """on their way: when each arrives, and of whom"""

    @property
    def name(self) -> str:
        """A viewer id lasts as long as a page."""
        return f"v{self._number}.{self._page}"

    # -- presence ---------------------------------------------------------------------------------
    def tick(self) -> None:
        """Heartbeats are the process's, which is not held up by what the page does."""
        world = self._world
        if self.connected and world.now >= self._heartbeat_due:
            self._heartbeat_due = world.now + HEARTBEAT
            late = 0 if world.fair else world.dice.randint(0, HEARTBEAT_LATE)
            self._heartbeats.append((world.now + late, self.name))
        if self._heartbeats and self._heartbeats[0][0] <= world.now:
            world.store.presence.heartbeat(self._heartbeats.pop(0)[1])

    def disconnect(self) -> None:
        """A tunnel, a sleeping phone, a web process that died."""
        if self.connected:
            self._world.attendance.lost(self.name)
            self._world.store.presence.disconnect(self.name)
        self.connected = self.subscribed = False

    def leave(self) -> None:
        """The page is closed on purpose and says so."""
        if self.connected:
            self._world.attendance.left(self.name)
            self._world.store.presence.leave(self.name)
        self.connected = self.subscribed = False
        self._page += 1

    def go_away(self) -> None:
        """Leave, and never come back."""
        self.leave()
        self.away = True

    def reload(self) -> None:
        """The server renders the page with a snapshot; its cursor is also in the address."""
        if self.done or self.away:
            return
        self.leave()
        if self._world.store.kept.state is not None:
            self._snapshot()
            self.after = self.seq
        self.done = self.end is not None

    # -- following --------------------------------------------------------------------------------
    def step(self) -> None:
        if self.done or self.away or self._world.now < self.comes_at:
            return
        if not self.connected or not self.subscribed:
            self._attach()
        elif not self.inbox:
            if self._world.rules.look_at_tails and self._world.dice.random() < 0.3:
                self._read()
        else:
            self._receive(*self.inbox.pop(0))
        self._hang_up_if_done()
        if self._restless and self._world.unlucky(0.4):
            self.disconnect()

    def _hang_up_if_done(self) -> None:
        if self.done:
            self.disconnect()

    def _attach(self) -> None:
        if not self.connected:
            self.connected = True
            self._heartbeat_due = self._world.now + HEARTBEAT
            self._world.attendance.attached(self.name)
            self._world.store.presence.attend(self.name)
        self.subscribed = True
        self.inbox = []
        self._read(attaching=True)

    def _receive(self, epoch: int, first: int, entries: tuple[Entry, ...]) -> None:
        if self._world.rules.message_epoch and epoch != self.epoch:
            self._read()
            return
        for seq, entry in enumerate(entries, first):
            if seq == self.seq + 1:
                self._show(entry)
            elif seq > self.seq + 1:
                self._read()
                return

    def _read(self, *, attaching: bool = False) -> None:
        """Everything after the cursor, or a snapshot where it names no entry. PROTOCOL 4.1"""
        kept, rules = self._world.store.kept, self._world.rules
        if kept.state is None:
            self._read_record()
            return
        if attaching and not rules.header_wins:
            self.seq = max(self.seq, self.after)
        beyond = self.seq > len(kept.log)
        if beyond and not attaching and not rules.cursor_epoch:
            return
        if beyond or (
            rules.cursor_epoch and self.seq and kept.log[self.seq - 1].epoch != self.epoch
        ):
            self._snapshot()
        elif self.seq == len(kept.log):
            self.done = kept.ended is not None  # 204: nothing will ever follow
        else:
            for entry in kept.log[self.seq :]:
                self._show(entry)

    def _read_record(self) -> None:
        if final := self._world.record.final:
            self.end, self.text, self.done = final.status, final.text, True

    def _show(self, entry: Entry) -> None:
        self.epoch, self.seq = entry.epoch, self.seq + 1
        if entry.kind == "text":
            self.text += (entry.data,)
        elif entry.kind == "ended":
            self.end, self.done = entry.data, True

    def _snapshot(self) -> None:
        kept = self._world.store.kept
        self.text, self.end = text_of(kept.log), kept.ended
        self.epoch, self.seq = kept.log[-1].epoch, len(kept.log)
        self.done = self.end is not None
