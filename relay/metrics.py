"""What a process counts of itself: plain integers and bounded histograms, cheap enough for the hot
path. The application shows them; nothing here knows how.

An addition per flush, per response or per second, never per token. Words of outside become labels
only if they are on a list: anything else is `other`, so what is counted stays as small as the code.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from relay.errors import ErrorKind
from relay.states import Interruption, Shortfall, Status, StopReason

OTHER: Final = "other"
MAX_MODELS: Final = 100
"""Names of the models file that are told apart in the life of a process; it may be read anew."""

TTFT_S: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
GAP_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
WHOLE_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
SHORT_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
CANCEL_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)


class Histogram:
    """How many values were at most each of `bounds`, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Of each interval, the last one open; not summed up yet."""
        self.total = 0.0

    def __repr__(self) -> str:
        return f"<Histogram {self.count} values, {self.total:g} in all>"

    @property
    def count(self) -> int:
        return sum(self.counts)

    def observe(self, value: float, times: int = 1) -> None:
        """A clock that is set back must not take from a sum that only grows."""
        value = max(0.0, value)
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


class Gaps:
    """Times between the tokens of one answer, told once a batch.

    Apart from the writer, whose attributes must stay below thirty: with more of them each writer
    has a dictionary of its own, and an open stream costs kilobytes more.
    """

    __slots__ = ("_histogram", "_tokens", "_told_s")

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._tokens = 0
        self._told_s = 0.0

    def note(self, now_s: float, tokens: int) -> None:
        """Tokens that leave together have shared the time since those before them."""
        more = tokens - self._tokens
        if self._told_s and more > 0:
            self._histogram.observe((now_s - self._told_s) / more, more)
        self._tokens, self._told_s = tokens, now_s


class Tally:
    """Counts by a closed list of words; any other word counts as `other`."""

    __slots__ = ("counts",)

    def __init__(self, words: Iterable[str]) -> None:
        self.counts = dict.fromkeys((*words, OTHER), 0)

    def __repr__(self) -> str:
        return f"<Tally { ({word: n for word, n in self.counts.items() if n}) }>"

    def add(self, word: str) -> None:
        self.counts[word if word in self.counts else OTHER] += 1


ENDS: Final = (
    (Status.COMPLETED.value, ""),
    *((Status.INCOMPLETE.value, reason.value) for reason in Shortfall),
    *((Status.FAILED.value, kind.value) for kind in ErrorKind),
    *((Status.CANCELLED.value, reason.value) for reason in StopReason),
    *((Status.INTERRUPTED.value, reason.value) for reason in Interruption),
)
"""Status and reason. All are there from the start: a counter that begins with 1 is no increase."""
REFUSALS: Final = (
    *("running", "tokens", "plan", "chat_busy", "queue_full", "viewers"),
    *("store_full", "store_away", "database_away", "not_checked"),
    *("requests_of_address", "requests_of_person", "streams_of_address", "streams_of_person"),
)
REPAIRS: Final = ("remake", "give_up", "record", "stop", "expire")
LEFT_ALONE: Final = "left_alone"
"""Of upstream errors: the circuit was open, nobody was asked."""


class ModelFigures:
    """Of one name of the models file."""

    __slots__ = (
        *("first_token", "inter_token", "whole", "input_tokens", "output_tokens"),
        *("ended", "asked", "errors"),
    )

    def __init__(self) -> None:
        self.first_token = Histogram(TTFT_S)
        """From `created` until the first content is in the log, in seconds."""
        self.inter_token = Histogram(GAP_S)
        """Between tokens as they leave for the log, in seconds; one value a token, one look a
        flush."""
        self.whole = Histogram(WHOLE_S)
        """From `created` to `ended`, in seconds."""
        self.input_tokens = 0
        self.output_tokens = 0
        self.ended = dict.fromkeys((*ENDS, (OTHER, OTHER)), 0)
        """By status and reason."""
        self.asked = 0
        """Requests to its upstream, retries included."""
        self.errors = Tally((*(kind.value for kind in ErrorKind), LEFT_ALONE))

    def end(self, status: str, reason: str) -> None:
        self.ended[(status, reason) if (status, reason) in self.ended else (OTHER, OTHER)] += 1


@dataclass(slots=True)
class Counters:
    """Since the process started."""

    events_appended: int = 0
    appends: int = 0
    """Append scripts sent; events_appended / appends is how much coalescing gave."""
    flushes: int = 0
    """Pipelines sent; appends / flushes is how many responses shared a round trip."""
    append: Histogram = field(default_factory=lambda: Histogram(SHORT_S))
    """Round trips of pipelines, in seconds."""
    append_wait_s: float = 0.0
    """The same, times the responses in each: what answers spent with an append on its way."""
    stream_s: float = 0.0
    """What upstreams were read for; append_wait_s / stream_s is the share of appends."""
    events_delivered: int = 0
    """Handed to the live viewers of this process; once, however many they are."""
    gap_fills: int = 0
    """Reads of the log because a wake-up was lost or late."""
    gap_events: int = 0
    """Events that those reads delivered, because no message had."""
    viewers_lagged: int = 0
    """Times a viewer fell behind its buffer and went back to paged reads."""
    viewers_lagging: int = 0
    """At the last tick: viewers that took nothing of what waits for them for a second or more."""
    viewer_lag_s: float = 0.0
    """At the last tick: the longest of them has waited for so long."""
    resumes: int = 0
    replay: Histogram = field(default_factory=lambda: Histogram(SHORT_S))
    """From a resume until it had caught up, in seconds."""
    loop_lag: Histogram = field(default_factory=lambda: Histogram(SHORT_S))
    """How late the event loop came back from a sleep of a second, in seconds."""
    fenced: int = 0
    take_overs: int = 0
    leases_lapsed: int = 0
    """Jobs whose worker fell silent, as found by whoever took them."""
    finalize_failures: int = 0
    cancel: Histogram = field(default_factory=lambda: Histogram(CANCEL_S))
    """From a person's stop to `cancelled`, in seconds."""
    delivered_tokens: int = 0
    zombie_tokens: int = 0
    refusals: Tally = field(default_factory=lambda: Tally(REFUSALS))
    repairs: Tally = field(default_factory=lambda: Tally(REPAIRS))
    overdue: int = 0
    """At the last sweep: responses without an end though their time has passed."""
    _models: dict[str, ModelFigures] = field(default_factory=dict)

    def model(self, name: str) -> ModelFigures:
        """`name` must be of the models file, or `other`."""
        figures = self._models.get(name)
        if figures is None:
            if len(self._models) >= MAX_MODELS:
                name = OTHER
            figures = self._models.setdefault(name, ModelFigures())
        return figures

    @property
    def models(self) -> dict[str, ModelFigures]:
        return dict(self._models)


COUNTERS = Counters()
