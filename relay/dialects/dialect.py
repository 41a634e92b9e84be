"""What a dialect is: how to ask a provider, and how to understand its answer, without any I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from relay.config import ModelConfig
    from relay.errors import UpstreamError
    from relay.events import Event
    from relay.request import GenerationRequest
    from relay.states import FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How an upstream's answer ended."""

    events: list[Event] = field(default_factory=list)
    """What only the end could tell: held back text, closed tool calls, the last usage."""
    finish_reason: FinishReason | None = None
    """Why the model stopped; None when it failed or said nothing."""
    error: UpstreamError | None = None
    """Set: the answer failed, whatever was received of it."""


class Decoder(Protocol):
    """One answer's bytes in, events out. Events carry seq 0."""

    @property
    def over(self) -> bool:
        """The answer has ended or failed; nothing that follows will be used."""

    @property
    def finishing(self) -> bool:
        """The model has stopped: whatever happens to the connection now, the answer is whole."""

    def feed(self, data: bytes) -> list[Event]:
        """Never raises: what cannot be understood fails the answer, see `finish`."""

    def finish(self, clean: bool) -> Finish:
        """No more bytes. `clean` is False when the connection broke instead of ending."""

    def abandon(self) -> list[Event]:
        """We stop reading by ourselves: what was held back, calls left open, the last usage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way of talking to providers. All functions are pure."""

    name: str
    path: str
    """Appended to the model's `base_url`."""
    build: Callable[[GenerationRequest, ModelConfig], dict[str, Any]]
    """The body of the request."""
    headers: Callable[[ModelConfig], Mapping[str, str]]
    decoder: Callable[[GenerationRequest, ModelConfig], Decoder]
    error_of_body: Callable[[int, bytes, ModelConfig], UpstreamError]
    """The failure behind an HTTP status that is not 2xx, and its body."""
