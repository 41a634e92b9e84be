"""Usage while it comes: a snapshot, never a sum (corpus rule 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relay.events import Event, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class UsageSnapshot:
    """The latest value of every counter, in our names."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.unsent = False
        """Something has changed since the last event."""

    def take(self, counts: Mapping[str, int]) -> None:
        """Later values replace earlier ones; a later zero is a server that forgot, no refund."""
        for name, value in counts.items():
            if self._counts.get(name) != value and (value or name not in self._counts):
                self._counts[name] = value
                self.unsent = True

    def event(self) -> Iterator[Event]:
        """What has changed, as one event; nothing if nothing has."""
        if self.unsent:
            self.unsent = False
            yield Usage(
                input_tokens=self._counts.get("input_tokens"),
                output_tokens=self._counts.get("output_tokens"),
                cached_input_tokens=self._counts.get("cached_input_tokens"),
                reasoning_tokens=self._counts.get("reasoning_tokens"),
            )


def count_of(value: object) -> int | None:
    """A counter as providers write it. None for null, negative numbers and what is no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < 1e15 else None
