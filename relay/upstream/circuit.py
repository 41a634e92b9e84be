"""A circuit breaker per upstream: one that keeps failing is left alone for a while.

closed → open after FAILURES in a row that speak of the upstream's health; open → half-open after
OPEN_S, when one request may try; its end closes or opens the circuit again. Refusals of a request
(a wrong key, too long a text) say that the upstream is there. No clock in here: the caller's
monotonic seconds are handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitStatus:
    """How one model's upstream stands, for whoever looks after it."""

    state: CircuitState
    failures: int
    """In a row, as far as they speak of the upstream's health."""
    last_error_kind: str | None = None
    last_error_message: str | None = None
    """Safe to show: secrets were removed."""
    last_error_at: str | None = None
    """RFC 3339, UTC."""


@dataclass(slots=True)
class Circuit:
    """One upstream, as this process has met it."""

    on_change: Callable[[], None] = lambda: None
    state: CircuitState = CircuitState.CLOSED
    failures: int = 0
    """In a row."""
    opened_s: float = 0.0
    last_error: UpstreamError | None = None
    last_error_at: str | None = None

    def status(self) -> CircuitStatus:
        error = self.last_error
        return CircuitStatus(
            state=self.state,
            failures=self.failures,
            last_error_kind=error.kind.value if error else None,
            last_error_message=error.message if error else None,
            last_error_at=self.last_error_at,
        )

    def admit(self, now_s: float) -> float:
        """0: ask, and say how it went. Else the seconds until somebody may try."""
        if self.state is CircuitState.CLOSED:
            return 0.0
        left_s = self.opened_s + OPEN_S - now_s
        if left_s > 0:
            return left_s
        # This one tries; others wait as if it had failed, so that a trial that is never told of
        # (its person stops it) closes the circuit for OPEN_S and not for ever.
        self.opened_s = now_s
        self._become(CircuitState.HALF_OPEN, self.failures)
        return 0.0

    def answering(self) -> None:
        """Content came. Enough for a trial; but failures go on being counted until an answer is
        whole, or an upstream that dies in the middle of each one would never be noticed."""
        if self.state is not CircuitState.CLOSED:
            self._become(CircuitState.CLOSED, 0)

    def succeeded(self) -> None:
        self._become(CircuitState.CLOSED, 0)

    def failed(self, error: UpstreamError, now_s: float, at: str | None = None) -> None:
        """`at` is the same moment for people, RFC 3339."""
        self.last_error, self.last_error_at = error, at
        state, failures = self.state, self.failures
        if error.kind in UNHEALTHY:
            failures += 1
            if state is CircuitState.HALF_OPEN or failures >= FAILURES:
                # Requests that were on their way when it opened do not prolong the wait.
                if state is not CircuitState.OPEN:
                    self.opened_s = now_s
                state = CircuitState.OPEN
        elif error.kind is not ErrorKind.RATE_LIMIT:
            state, failures = CircuitState.CLOSED, 0
        self.state, self.failures = state, failures
        self.on_change()

    def _become(self, state: CircuitState, failures: int) -> None:
        if (state, failures) != (self.state, self.failures):
            self.state, self.failures = state, failures
            self.on_change()


@dataclass(slots=True)
class Circuits:
    """The circuits of a process. Models that share an upstream share its circuit."""

    on_change: Callable[[Mapping[str, CircuitStatus]], None] | None = None
    """Told `states()` after each change and each failure, in the event loop; must not raise."""
    _circuits: dict[tuple[str, str], Circuit] = field(default_factory=dict)
    _upstreams: dict[str, tuple[str, str]] = field(default_factory=dict)

    def of(self, model: ModelConfig) -> Circuit:
        upstream = model.base_url, model.upstream_model
        self._upstreams[model.name] = upstream
        circuit = self._circuits.get(upstream)
        if circuit is None:
            circuit = self._circuits[upstream] = Circuit(self._changed)
        return circuit

    def states(self) -> dict[str, CircuitStatus]:
        """By the names of the models that were asked since this process started."""
        return {name: self._circuits[key].status() for name, key in self._upstreams.items()}

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change(self.states())
