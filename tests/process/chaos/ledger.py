"""What the crowd asked for and what it was told: the run's own books."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from tests.process.chaos.schedule import Step
    from tests.process.chaos.watch import Watch


@dataclass(frozen=True, slots=True)
class Script:
    """How the scripted provider will behave for one answer."""

    behaviour: str
    words: int
    every_ms: int = 0

    @property
    def model(self) -> str:
        """A model, and so a circuit, for each way to fail: one that never works is cut off."""
        return self.behaviour.partition(":")[0] if self.failing else "good"

    @property
    def failing(self) -> bool:
        return self.behaviour not in ("say", "slow-first")

    def ask(self, tag: str) -> str:
        every = f" every:{self.every_ms}" if self.every_ms else ""
        return f"{self.behaviour}:{self.words}{every} as:{tag}"


MODELS = ("good", "stall", "cut", "reset", "fail")


def draw(rng: random.Random, most_words: int) -> Script:
    """Mostly answers of up to ten seconds; some late, some that fail in one of four ways."""
    every_ms = rng.choice((5, 20, 40))
    words = rng.randint(1, 10_000 // every_ms)
    match rng.randrange(20):
        case 0 | 1:
            return Script("slow-first", rng.randint(100, 3000))
        case 2:
            return Script("stall:after", min(words, 60), every_ms)
        case 3:
            return Script("cut:after", min(words, 200), every_ms)
        case 4:
            return Script("reset:after", min(words, 200), every_ms)
        case 5:
            return Script("fail", rng.choice((429, 500)))
        case _:
            return Script("say", min(words, most_words), every_ms)


@dataclass
class Asked:
    """One question."""

    tag: str
    script: Script
    stop_after_s: float | None
    ids: set[str] = field(default_factory=set)
    """Of all 202s; one, however often it was sent."""
    asked_unix_s: float = 0.0
    """When it was sent for the first time; `accepted_unix_s`: when the first 202 came."""
    accepted_unix_s: float | None = None
    stop_sent_unix_s: float | None = None
    stop_told: list[tuple[str, str | None]] = field(default_factory=list)
    """(status, reason) of replies 200 to a stop."""
    watches: list[Watch] = field(default_factory=list)
    faults: list[tuple[str, str]] = field(default_factory=list)

    @property
    def rid(self) -> str:
        (rid,) = self.ids
        return rid


@dataclass
class Happened:
    """A fault as it really went. Times are Unix seconds."""

    step: Step
    start_s: float
    end_s: float = float("inf")
    held: dict[str, float] = field(default_factory=dict)
    """Answers that were in the hands of the process when it was hit."""


@dataclass
class Ledger:
    asked: list[Asked] = field(default_factory=list)
    happened: list[Happened] = field(default_factory=list)
    complaints: list[tuple[str, str]] = field(default_factory=list)
    """What the ground noticed: (column, sentence)."""
    refused: int = 0
    """Posts answered with 503: nothing was promised."""
    posts: int = 0
