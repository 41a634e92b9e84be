"""What a dialect is: how to ask a provider, and how to understand its answer, without any I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from relay.config import ModelConfig
    from relay.errors import UpstreamError
    from relay.events import Event
    from relay.request import GenerationRequest
    from relay.states import FinishReason
    from relay.wire.detok import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How an upstream's answer ended."""

    events: list[Event] = field(default_factory=list)
    """What only the end could tell: held back text, closed tool calls, the last usage."""
    finish_reason: FinishReason | None = None
    """Why the model stopped; None when it failed or said nothing."""
    error: UpstreamError | None = None
    """Set: the answer failed, whatever was received of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of whom."""

    request: GenerationRequest
    model: ModelConfig
    stream: bool = True
    """False: the whole answer in one piece, the last resort after failures to stream."""
    prompt: str | Sequence[int] | None = None
    """The conversation as the engine reads it, for dialects that want it so."""
    vocabulary: Vocabulary | None = None
    """What the engine's token ids mean, for dialects whose answers are ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """How an engine is asked to turn a conversation into the prompt that its model reads."""

    path: str
    """Appended to the model's `base_url`."""
    build: Callable[[Asked], dict[str, Any]]
    """The body of the request. Raises like `Dialect.build`."""
    prompt_in: Callable[[object], str]
    """The prompt in what came back. Raises UpstreamError protocol."""


class Decoder(Protocol):
    """One answer's bytes in, events out. Events carry seq 0."""

    @property
    def over(self) -> bool:
        """The answer has ended or failed; nothing that follows will be used."""

    @property
    def finishing(self) -> bool:
        """The model has stopped: whatever happens to the connection now, the answer is whole."""

    @property
    def counted_output_ids(self) -> int | None:
        """Tokens the model made, where they come as ids; None where they come as text."""

    def feed(self, data: bytes) -> list[Event]:
        """Never raises: what cannot be understood fails the answer, see `finish`."""

    def finish(self, clean: bool) -> Finish:
        """No more bytes. `clean` is False when the connection broke instead of ending."""

    def abandon(self) -> list[Event]:
        """We stop reading by ourselves: what was held back, calls left open, the last usage."""


class DecoderAround:
    """A decoder that does something to what another one says; its state is that one's."""

    def __init__(self, inner: Decoder) -> None:
        self._inner = inner

    @property
    def over(self) -> bool:
        return self._inner.over

    @property
    def finishing(self) -> bool:
        return self._inner.finishing

    @property
    def counted_output_ids(self) -> int | None:
        return self._inner.counted_output_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way of talking to providers. All functions are pure."""

    name: str
    path: str
    """Appended to the model's `base_url`."""
    build: Callable[[Asked], dict[str, Any]]
    """The body of the request. Raises UpstreamError invalid_request for what it cannot say."""
    headers: Callable[[ModelConfig], Mapping[str, str]]
    decoder: Callable[[Asked], Decoder]
    error_of_body: Callable[[int, bytes, ModelConfig], UpstreamError]
    """The failure behind an HTTP status that is not 2xx, and its body."""
    path_for: Callable[[ModelConfig], str] | None = None
    """Instead of `path`, where it depends on the model."""
    template: Template | None = None
    """Set: the engine is asked for the prompt first, and the request carries that text."""
    prefills: bool = False
    """A last message of the assistant is written on, not answered."""
    prompt_ids: bool = False
    """The request carries token ids: the model's `chat_template` makes the text, its `tokenizer`
    the ids."""

    @property
    def by_prompt(self) -> bool:
        """The engine is given a prompt, not a conversation: no pictures, no tools."""
        return self.prompt_ids or self.template is not None

    def path_of(self, model: ModelConfig) -> str:
        return self.path_for(model) if self.path_for is not None else self.path
