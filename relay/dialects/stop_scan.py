"""Stop strings of the request, found by us, in front of a decoder of any dialect.

Providers know four stop strings, or sixteen, or none; engines that answer in token ids have no text
to look in. So they are looked for here in any case, in the visible text and not in the reasoning.
An answer that matched has ended as it should, whatever the upstream would have gone on to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from relay.dialects.dialect import DecoderAround, Finish
from relay.events import Event, RefusalDelta, TextDelta
from relay.states import FinishReason
from relay.wire.stops import StopScanner

if TYPE_CHECKING:
    from relay.dialects.dialect import Decoder

# Where one event ends and the next may begin: two line ends in a row, the first of them perhaps in
# the bytes before.
_BORDER: Final = re.compile(rb"\A[\r\n]+|(?>\r\n?|\n)(?>\r\n?|\n)")


class StopScan(DecoderAround):
    """A decoder whose text ends before the first of `stops`.

    Text of different parts is shown apart, so a stop string never spans two of them.
    """

    def __init__(self, inner: Decoder, stops: Sequence[str]) -> None:
        super().__init__(inner)
        self._scanner = StopScanner(stops)
        self._part = 0
        self._left: list[Event] = []  # what is still to be told after a match

    @property
    def match(self) -> str | None:
        """The stop string that ended the answer."""
        return self._scanner.match

    @property
    def over(self) -> bool:
        return self.match is not None or self._inner.over

    @property
    def finishing(self) -> bool:
        return self.match is not None or self._inner.finishing

    def feed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        # One upstream event at a time: the usage, or the failure, that shares a read with the match
        # must count as little as one that would have come a moment later.
        for piece in _pieces(data):
            if self.over:
                break
            events += self._scan(self._inner.feed(piece))
            if self.match is not None:
                # Calls that were begun are closed, and what was counted so far counts. Nothing that
                # the upstream says from now on does.
                self._left = self._inner.abandon()
        return events

    def finish(self, clean: bool) -> Finish:
        if self.match is None:
            finish = self._inner.finish(clean)
            events = self._last(finish.events)
            if self.match is None:
                return replace(finish, events=events)
        else:
            events = []
        return Finish(events=events + self._rest(), finish_reason=FinishReason.STOP)

    def abandon(self) -> list[Event]:
        events = self._last(self._inner.abandon()) if self.match is None else []
        return events + self._rest()

    def _scan(self, events: list[Event]) -> list[Event]:
        shown: list[Event] = []
        for event in events:
            if not isinstance(event, TextDelta):
                shown.append(event)
            elif self.match is None:
                self._text(event, shown)
        return shown

    def _text(self, event: TextDelta, shown: list[Event]) -> None:
        if event.part != self._part:
            shown += self._held()
            self._part = event.part
        text = self._scanner.feed(event.delta)
        if text == event.delta:
            shown.append(event)
        elif text:
            shown.append(msgspec.structs.replace(event, delta=text))

    def _held(self) -> list[Event]:
        text = self._scanner.finish()
        return [TextDelta(delta=text, part=self._part)] if text else []

    def _last(self, events: list[Event]) -> list[Event]:
        """The last events, with what was held back behind the last of the texts."""
        shown = self._scan(events)
        texts = sum(1 for event in events if isinstance(event, TextDelta))
        if not texts:
            return self._held() + shown
        at = max((n for n, e in enumerate(shown, 1) if isinstance(e, TextDelta)), default=0)
        return shown[:at] + self._held() + shown[at:]

    def _rest(self) -> list[Event]:
        left, self._left = self._left, []
        return [event for event in left if not isinstance(event, (TextDelta, RefusalDelta))]


def _pieces(data: bytes) -> Iterator[bytes]:
    start = 0
    for border in _BORDER.finditer(data):
        yield data[start : border.end()]
        start = border.end()
    if start < len(data):
        yield data[start:]
