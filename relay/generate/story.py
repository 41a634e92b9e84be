"""What is worth telling of one answer afterwards, besides what its log means: who claimed it, how
often it was begun, what was said on the way, and how its tokens came over time.

For whoever looks into one answer a week later. No content, ever: codes, names, numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from relay import events as ev

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_POINTS: Final = 64
"""Of a chart some hundred pixels wide. When they are full every second one goes."""
STEP_MS: Final = 50
"""Between two points at first; doubled each time that points are thinned out."""
MAX_NOTICES: Final = 32


class Timeline:
    """How many tokens there were when, as of the batches that were made for the log.

    Told once a batch and never per event: what it costs is part of a round trip (DECISIONS 1).
    Kept as plain numbers, since every open answer has one: as pairs of objects they were 5 KB.
    """

    __slots__ = ("_began_s", "_gap", "_last", "_ms", "_step_ms", "_tokens")

    def __init__(self, began_s: float) -> None:
        """`began_s` by time.monotonic: the claim."""
        self._began_s = began_s
        self._ms, self._tokens = array("q", [0]), array("q", [0])
        self._last = (0, 0)
        self._step_ms = STEP_MS
        self._gap = (0, 0)

    def note(self, now_s: float, tokens: int) -> None:
        now_ms = round((now_s - self._began_s) * 1000)
        before_ms, before = self._last
        silent_ms = now_ms - before_ms
        if before and silent_ms > self._gap[1]:
            self._gap = (before_ms, silent_ms)
        if now_ms - self._ms[-1] >= self._step_ms:
            if silent_ms >= self._step_ms and before_ms != self._ms[-1]:
                self._keep(self._last)  # a silence begins where it began, not one step earlier
            self._keep((now_ms, tokens))
        self._last = (now_ms, tokens)

    def _keep(self, point: tuple[int, int]) -> None:
        if len(self._ms) >= MAX_POINTS - 1:
            del self._ms[1::2], self._tokens[1::2]
            self._step_ms *= 2
        self._ms.append(point[0])
        self._tokens.append(point[1])

    @property
    def points(self) -> list[tuple[int, int]]:
        """(ms since the claim, output tokens so far), in order; at most `MAX_POINTS`."""
        kept = list(zip(self._ms, self._tokens, strict=True))
        return kept if kept[-1] == self._last else [*kept, self._last]

    @property
    def longest_gap(self) -> tuple[int, int]:
        """(ms since the claim, ms) of the longest silence after the first token; (0, 0): none."""
        return self._gap


class Run(Struct, frozen=True, kw_only=True):
    """One `started` of the log."""

    seq: int
    attempt: int
    epoch: int
    at: str
    """RFC 3339."""
    upstream_model: str


class Said(Struct, frozen=True, kw_only=True):
    """One notice of the log, without its words: they may be a provider's, and name content."""

    seq: int
    code: str
    model: str | None = None


class Story(Struct, frozen=True, kw_only=True):
    claims: Sequence[tuple[int, str]] = ()
    """(epoch, worker) in order, the first ones. An epoch is the store's time in ms, nearly."""
    runs: Sequence[Run] = ()
    said: Sequence[Said] = ()
    points: Sequence[tuple[int, int]] = ()
    """`Timeline.points` of the last writer; none where that one died."""
    longest_gap: tuple[int, int] = (0, 0)

    @classmethod
    def of(
        cls,
        events: Iterable[ev.Event],
        claims: Sequence[tuple[int, str]],
        timeline: Timeline | None,
    ) -> Story:
        """From those events of a log that are `NOTABLE`."""
        runs: list[Run] = []
        said: list[Said] = []
        for event in events:
            if isinstance(event, ev.Started):
                run = Run(
                    seq=event.seq,
                    attempt=event.attempt,
                    epoch=event.epoch,
                    at=event.at,
                    upstream_model=event.upstream_model,
                )
                runs.append(run)
            elif isinstance(event, ev.Notice) and len(said) < MAX_NOTICES:
                goes_on = event.done is not None and said and said[-1].code == event.code
                if not goes_on:
                    said.append(Said(seq=event.seq, code=event.code, model=event.model))
        return cls(
            claims=claims,
            runs=runs,
            said=said,
            points=timeline.points if timeline is not None else (),
            longest_gap=timeline.longest_gap if timeline is not None else (0, 0),
        )

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Story:
        """Raises msgspec.ValidationError for what is none."""
        return msgspec.json.decode(data, type=cls)
