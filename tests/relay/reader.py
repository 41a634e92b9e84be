"""A client for tests: reads a view's bytes as a browser would, and checks every number."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from relay.fold import text_sha256
from relay.wire.sse import SseDecoder

if TYPE_CHECKING:
    from relay.follow import View


@dataclass
class Reader:
    """What one person has seen over any number of connections."""

    seqs: list[int] = field(default_factory=list)
    text: str = ""
    epoch: int | None = None
    ended: dict[str, Any] | None = None
    snapshots: int = 0
    decoder: SseDecoder = field(default_factory=SseDecoder)

    @property
    def cursor(self) -> int:
        return self.seqs[-1] if self.seqs else 0

    def feed(self, data: bytes) -> None:
        for frame in self.decoder.feed(data):
            event = json.loads(frame.data)
            seq = int(frame.id)
            if frame.event == "snapshot":
                self.snapshots += 1
                self.text, self.epoch = event["text"], event["epoch"]
                self.seqs = list(range(1, seq + 1))
                continue
            if frame.event != "ended" or seq != self.cursor:
                assert event["seq"] == seq == self.cursor + 1, (self.cursor, event)
                self.seqs.append(seq)
            if frame.event == "text.delta":
                self.text += event["delta"]
            elif frame.event in ("started", "ended"):
                self.epoch = event["epoch"]
                if frame.event == "ended":
                    self.ended = event

    async def read(self, view: View, *, until_seq: int | None = None) -> None:
        """Read to the end, or until `until_seq` was seen; a new connection is a new decoder."""
        self.decoder = SseDecoder()
        async with view:
            async for chunk in view:
                self.feed(chunk)
                if until_seq is not None and self.cursor >= until_seq:
                    return

    def check_whole(self, text: str) -> None:
        """0 lost, 0 repeated, 0 out of order, and the hash of the log's own end."""
        assert self.ended is not None
        assert self.text == text
        assert self.ended["text_sha256"] == text_sha256(self.text)
