"""A circuit breaker per upstream: one that keeps failing is left alone for a while.

closed → open after FAILURES in a row that speak of the upstream's health; open → half-open after
OPEN_S, when one request may try; its end closes or opens the circuit again. Refusals of a request
(a wrong key, too long a text) say that the upstream is there. No clock in here: the caller's
monotonic seconds are handed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from relay.errors import ErrorKind

if TYPE_CHECKING:
    from relay.config import ModelConfig
    from relay.errors import UpstreamError

FAILURES: Final = 5
"""In a row: with three tries a question, the second person to come is the last to wait in vain."""
OPEN_S: Final = 30.0
"""What a person may wait for before trying again by hand; a restart of an engine takes longer."""

UNHEALTHY: Final = frozenset(
    {
        ErrorKind.OVERLOADED,
        ErrorKind.SERVER_ERROR,
        ErrorKind.TIMEOUT,
        ErrorKind.CONNECTION,
        ErrorKind.TRUNCATED,
        ErrorKind.EMPTY_RESPONSE,
        ErrorKind.STALLED,
        ErrorKind.PROTOCOL,
    }
)
"""Not rate_limit: that is about us, and says when to come back."""


class CircuitState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(slots=True)
class Circuit:
    """One upstream, as this process has met it."""

    state: CircuitState = CircuitState.CLOSED
    failures: int = 0
    """In a row."""
    opened_s: float = 0.0
    last_error: UpstreamError | None = None

    def wait_s(self, now_s: float) -> float:
        """0: ask, and say how it went. Else the seconds until somebody may try."""
        if self.state is CircuitState.CLOSED:
            return 0.0
        left_s = self.opened_s + OPEN_S - now_s
        if left_s > 0:
            return left_s
        # This one tries; others wait as if it had failed, so that a trial that is never told of
        # (its process stops it) closes the circuit for OPEN_S and not for ever.
        self.state = CircuitState.HALF_OPEN
        self.opened_s = now_s
        return 0.0

    def succeeded(self) -> None:
        self.state, self.failures = CircuitState.CLOSED, 0

    def failed(self, error: UpstreamError, now_s: float) -> None:
        self.last_error = error
        if error.kind not in UNHEALTHY:
            if error.kind is not ErrorKind.RATE_LIMIT:
                self.succeeded()
            return
        self.failures += 1
        if self.state is CircuitState.HALF_OPEN or self.failures >= FAILURES:
            self.state, self.opened_s = CircuitState.OPEN, now_s


class Circuits:
    """The circuits of a process. Models that share an upstream share its circuit."""

    def __init__(self) -> None:
        self._circuits: dict[tuple[str, str], Circuit] = {}

    def of(self, model: ModelConfig) -> Circuit:
        return self._circuits.setdefault((model.base_url, model.upstream_model), Circuit())
