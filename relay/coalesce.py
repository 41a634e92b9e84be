"""Coalescing: what waits to be sent is sent as few, whole events.

Neighbouring deltas of the same kind and place become one, a later notice of the same code and a
later usage replace an earlier one: `fold` of what comes out equals `fold` of what went in. Only
unsent events are touched; what `take` has returned is immutable.

Merging happens in `take`, once, because joining on arrival would copy a growing text per token.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from relay.events import (
    CONTENT,
    Event,
    Notice,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    encode_event,
)

MAX_EVENTS: Final = 64
MAX_BYTES: Final = 128 * 1024
"""Of one batch (design §5): small enough that one response cannot hold up a pipeline of many."""
MAX_DELTA_CHARS: Final = 16 * 1024
"""Longest merged delta. JSON needs at most six bytes a character, so one delta always fits a batch;
longer ones, such as a whole answer in one piece, are cut."""

Delta: TypeAlias = TextDelta | ReasoningDelta | RefusalDelta | ToolCallDelta

_DELTAS: Final = frozenset({TextDelta, ReasoningDelta, RefusalDelta, ToolCallDelta})
_CONTENT: Final = frozenset(CONTENT)


class Taken(Struct, frozen=True, gc=False):
    events: list[bytes]
    """Numbered from `next_seq` on, each one line of JSON."""
    has_content: bool
    text: str
    """All text deltas among them, joined: what the running hash of the answer needs."""


class Coalescer:
    """The unsent events of one response, in order."""

    def __init__(self) -> None:
        self._queue: list[Event | None] = []  # None: replaced by a later one
        self._start = 0  # what lies before was taken
        self._latest: dict[str, int] = {}  # where the replaceable events are

    def __repr__(self) -> str:
        return f"<Coalescer {len(self._queue) - self._start} unsent>"

    def __len__(self) -> int:
        """Events that wait, before merging."""
        return len(self._queue) - self._start

    @property
    def pending(self) -> bool:
        """Whether `take` would return events."""
        return self._start < len(self._queue)

    def add(self, events: Iterable[Event]) -> None:
        queue = self._queue
        for event in events:
            kind = type(event)
            if kind is TextDelta or kind in _DELTAS:
                if len(event.delta) > MAX_DELTA_CHARS:  # type: ignore[attr-defined]
                    queue += _pieces(event)  # type: ignore[arg-type]
                    continue
            elif kind is Notice or kind is Usage:
                self._replace_earlier(event)
            queue.append(event)

    def take(
        self, next_seq: int, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES
    ) -> Taken:
        """Take the next events out, merged, numbered and encoded; at least one if any is pending.

        At most `max_events`, and more than `max_bytes` only if a single event is larger.
        """
        queue = self._queue
        encoded: list[bytes] = []
        texts: list[str] = []
        has_content = False
        room = max_bytes
        at = self._start
        while at < len(queue) and len(encoded) < max_events:
            event = queue[at]
            after = at + 1
            if event is None:
                at = after
                continue
            kind = type(event)
            if kind in _DELTAS:
                event, after = self._merged(event, after)  # type: ignore[arg-type]
            line = encode_event(event, next_seq + len(encoded))
            room -= len(line)
            if room < 0 and encoded:
                break
            encoded.append(line)
            if kind in _CONTENT:
                has_content = True
                if kind is TextDelta:
                    texts.append(event.delta)  # type: ignore[attr-defined]
            at = after
        self._drop(at)
        return Taken(encoded, has_content, "".join(texts))

    def _replace_earlier(self, event: Event) -> None:
        key = f"notice {event.code}" if isinstance(event, Notice) else "usage"
        earlier = self._latest.get(key)
        if earlier is not None:
            self._queue[earlier] = None
        self._latest[key] = len(self._queue)

    def _merged(self, first: Delta, at: int) -> tuple[Delta, int]:
        """`first` with the neighbours from `at` on that continue it, and where these end."""
        queue = self._queue
        kind, place = type(first), _place(first)
        parts = [first.delta]
        chars = len(first.delta)
        while at < len(queue):
            event = queue[at]
            if event is not None:
                if type(event) is not kind or _place(event) != place:
                    break
                chars += len(event.delta)
                if chars > MAX_DELTA_CHARS:
                    break
                parts.append(event.delta)
            at += 1
        if len(parts) == 1:
            return first, at
        return replace(first, delta="".join(parts)), at

    def _drop(self, end: int) -> None:
        """Forget what lies before `end`. Moving the rest is paid for by what was taken."""
        queue = self._queue
        while end < len(queue) and queue[end] is None:
            end += 1
        if end == len(queue):
            queue.clear()
            self._start = 0
            self._latest.clear()
            return
        self._start = end
        self._latest = {key: at for key, at in self._latest.items() if at >= end}
        if end > len(queue) - end:
            del queue[:end]
            self._start = 0
            self._latest = {key: at - end for key, at in self._latest.items()}


def _place(delta: Delta) -> int:
    return delta.index if isinstance(delta, ToolCallDelta) else delta.part


def _pieces(delta: Delta) -> list[Delta]:
    text = delta.delta
    return [
        replace(delta, delta=text[at : at + MAX_DELTA_CHARS])
        for at in range(0, len(text), MAX_DELTA_CHARS)
    ]
