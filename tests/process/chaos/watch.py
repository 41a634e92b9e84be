"""What one viewer has been told about one answer, over all of its connections."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from relay.fold import text_sha256

if TYPE_CHECKING:
    from relay.wire.sse import Frame


@dataclass
class Watch:
    """Feed it frames; it counts what must not happen and says where."""

    name: str
    cursor: int = 0
    epoch: int | None = None
    text: str = ""
    ended: dict[str, Any] | None = None
    told_status: str | None = None
    """Of the last snapshot."""
    done: bool = False
    """Nothing more is to come: `ended` was read, or the server said 204."""
    events: int = 0
    snapshots: int = 0
    connections: int = 0
    missing: set[int] = field(default_factory=set)
    faults: list[tuple[str, str]] = field(default_factory=list)
    """(column of the table, sentence)."""

    def feed(self, frame: Frame) -> None:
        event = json.loads(frame.data)
        seq = int(frame.id)
        if frame.event == "snapshot":
            if self.ended is not None:
                self._bad("after end", f"snapshot {seq} after the end")
            self.snapshots += 1
            self.cursor, self.epoch, self.text = seq, event["epoch"], event["text"]
            self.told_status = event["status"]
            self.missing.clear()
            return
        self.events += 1
        self._number(seq, frame.event)
        if event["seq"] != seq or event["type"] != frame.event:
            self._bad("reordered", f"frame {seq} {frame.event} carries {event}")
        if frame.event == "text.delta":
            self.text += event["delta"]
        elif frame.event in ("started", "ended"):
            self.epoch = event["epoch"]
        if frame.event == "ended":
            if self.ended is not None:
                self._bad("second ends", f"a second end: {event}")
            self.ended = event
            if event["text_sha256"] != text_sha256(self.text):
                self._bad("lost", f"the text of {len(self.text)} characters is not the end's")

    def _number(self, seq: int, kind: str) -> None:
        if self.ended is not None and kind != "ended":
            self._bad("after end", f"{kind} {seq} after the end")
        elif seq in self.missing:
            self.missing.discard(seq)
            self._bad("reordered", f"{kind} {seq} after {self.cursor}")
        elif seq == self.cursor and kind == "ended":
            pass  # a snapshot of an ended answer carries the number of its end
        elif seq <= self.cursor:
            self._bad("repeated", f"{kind} {seq} after {self.cursor}")
        elif seq > self.cursor + 1:
            self.missing |= set(range(self.cursor + 1, seq))
            self._bad("lost", f"{kind} {seq} after {self.cursor}")
        self.cursor = max(self.cursor, seq)

    def _bad(self, column: str, sentence: str) -> None:
        self.faults.append((column, f"{self.name}: {sentence}"))
