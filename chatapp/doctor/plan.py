"""What a probe of the stream door sends: how much, when, and within which bounds.

Sizes grow so that the ways of holding a stream back look different: a hop that waits for 4, 8, 16
or 64 KiB lets go after a constant amount, whatever time that takes; one that waits for its timer
lets go after a constant time, whatever has come meanwhile. Padding is noise, or a hop that packs
would count other bytes than were sent.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Phase = Literal["flow", "quiet"]
Kind = Literal["hello", "frame", "end"]
PHASES: Final = ("flow", "quiet")
LADDER: Final = ((12, 0), (12, 1024), (8, 4096), (8, 16384))
"""Frames and the padding of each, in bytes: together 174 KiB, above two buffers of 64 KiB."""
MARGIN: Final = 1.2
"""A silence is longer than the heartbeat by this much: a ping may be late."""
GAP_MS: Final = (20, 1000)
SILENCE_S: Final = (0.1, 90.0)
_PROBE: Final = re.compile(r"[A-Za-z0-9_-]{8,64}")
_NOISE: Final = base64.b64encode(Random(1).randbytes(96 * 1024)).decode()  # noqa: S311 - padding


class BadPlan(ValueError):
    """`str()` is a sentence about the parameter that is out of bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One stream of a probe. Raises BadPlan for what would cost more than a probe may."""

    probe: str
    """Named by whoever asks, so that it can be asked for afterwards: 8 to 64 characters."""
    phase: Phase = "flow"
    gap_ms: int = 100
    """flow: between two frames."""
    silence_s: float = 18.0
    """quiet: between the first frame and the last."""
    bare: bool = False
    """Without the headers that ask hops to leave a stream alone: shows what they would do to it."""

    def __post_init__(self) -> None:
        if not _PROBE.fullmatch(self.probe):
            raise BadPlan("`probe` must be 8 to 64 letters, digits, hyphens or underscores.")
        if self.phase not in PHASES:
            raise BadPlan("`phase` must be `flow` or `quiet`.")
        if not GAP_MS[0] <= self.gap_ms <= GAP_MS[1]:
            raise BadPlan(f"`gap_ms` must be from {GAP_MS[0]} to {GAP_MS[1]}.")
        if not SILENCE_S[0] <= self.silence_s <= SILENCE_S[1]:
            raise BadPlan(f"`silence_s` must be from {SILENCE_S[0]:g} to {SILENCE_S[1]:g}.")

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Plan:
        """Raises BadPlan."""
        try:
            return cls(
                probe=query.get("probe", ""),
                phase=query.get("phase", "flow"),  # type: ignore[arg-type]  # looked at above
                gap_ms=int(query.get("gap_ms", 100)),
                silence_s=float(query.get("silence_s", 18)),
                bare=query.get("bare", "") == "1",
            )
        except BadPlan:
            raise
        except ValueError as exc:
            raise BadPlan("`gap_ms` and `silence_s` must be numbers.") from exc

    @property
    def query(self) -> dict[str, str]:
        """What `read` reads."""
        return {
            "probe": self.probe,
            "phase": self.phase,
            "gap_ms": str(self.gap_ms),
            "silence_s": f"{self.silence_s:g}",
            **({"bare": "1"} if self.bare else {}),
        }

    @property
    def duration_s(self) -> float:
        return sum(step.pause_s for step in self.steps())

    def steps(self) -> Iterator[Step]:
        """The first is sent at once."""
        if self.phase == "quiet":
            yield Step(1, "hello", 0.0)
            yield Step(2, "end", self.silence_s)
            return
        sizes = [size for count, size in LADDER for _ in range(count)]
        for n, size in enumerate(sizes, 1):
            kind: Kind = "hello" if n == 1 else "end" if n == len(sizes) else "frame"
            yield Step(n, kind, 0.0 if n == 1 else self.gap_ms / 1000, size)


@dataclass(frozen=True, slots=True)
class Step:
    """One frame: it leaves `pause_s` after the one before."""

    n: int
    kind: Kind
    pause_s: float
    padding_bytes: int = 0

    def frame(self, at: float, **more: Any) -> bytes:
        """As it goes over the wire; `at` is the server's wall clock in seconds."""
        start = self.n * 977 % len(_NOISE)
        pad = (_NOISE + _NOISE)[start : start + self.padding_bytes]
        data = {"n": self.n, "kind": self.kind, "at": at, **more, "pad": pad}
        return f"id: {self.n}\nevent: probe\ndata: {json.dumps(data)}\n\n".encode()
