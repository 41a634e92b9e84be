"""Asking again, and asking somebody else, as long as nothing of an answer is there (law 11).

Before the first content event a failure that may pass is tried again after a pause, then the
model's fallbacks are asked in their order, and at last the same request without streaming. Each
step is a notice, handed out before its pause, so that whoever waits knows why. After the first
content event nothing is repeated: what came is kept, and the person decides.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol, Self

from relay.errors import ErrorKind, UpstreamError
from relay.events import CONTENT, Event, Notice, Usage
from relay.metrics import COUNTERS, LEFT_ALONE
from relay.upstream.circuit import Circuit, Circuits

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from relay.config import ModelConfig
    from relay.request import GenerationRequest

BACKOFF_S: Final = 0.5
"""First pause, doubled each time: a hiccup of a load balancer is over by then."""
BACKOFF_MAX_S: Final = 8.0
PATIENCE_S: Final = 20.0
"""A provider that asks for a longer pause is not waited for: the person is told at once."""

_MOVE_ON: Final = frozenset(ErrorKind) - {ErrorKind.INVALID_REQUEST, ErrorKind.CONTENT_FILTER}
"""Failures that another model may not share: a lost key or an empty account is this provider's, a
longer context may fit. What one provider refused to answer is not carried to the next."""
_PERHAPS_STREAMING: Final = frozenset(
    {ErrorKind.EMPTY_RESPONSE, ErrorKind.TRUNCATED, ErrorKind.PROTOCOL}
)
"""Failures that a proxy which spoils streams would cause."""


class Finish(Protocol):
    @property
    def finish_reason(self) -> str | None: ...


class Call(Protocol):
    """An opened upstream: its events, then why it finished."""

    @property
    def finish(self) -> Finish | None: ...

    @property
    def counted_output_ids(self) -> int | None:
        """Tokens that came so far, from an upstream that sends ids; else None."""

    def __aiter__(self) -> AsyncIterator[list[Event]]: ...

    def abandon(self) -> list[Event]:
        """What is left to be told when we stop reading: calls left open, the last usage."""


class Upstream(Protocol):
    """One request to one provider."""

    def open(
        self, request: GenerationRequest, model: ModelConfig, *, stream: bool = True
    ) -> AbstractAsyncContextManager[Call]: ...


class Attempts:
    """All requests of a process. `retries`: how often one model is asked again; 0 turns it off."""

    def __init__(self, upstream: Upstream, *, retries: int) -> None:
        self.circuits = Circuits()
        self._upstream = upstream
        self._retries = retries

    def open(self, request: GenerationRequest, models: Sequence[ModelConfig]) -> AttemptedCall:
        """The first of `models` is asked, the others are its fallbacks. Asks when iterated.

        Leaving the context closes the connection that is open then.
        """
        return AttemptedCall(self._upstream, self.circuits, request, models, self._retries)


class AttemptedCall:
    """One answer, iterated by the task that opened it, from whoever gives it.

    A context of its own kind: those that are made of a generator are 1 KB of every running answer.
    Iterating raises UpstreamError: the failure that nothing could be done about.
    """

    def __init__(
        self,
        upstream: Upstream,
        circuits: Circuits,
        request: GenerationRequest,
        models: Sequence[ModelConfig],
        retries: int,
    ) -> None:
        self._upstream = upstream
        self._circuits = circuits
        self._request = request
        self._models = models
        self._retries = retries
        self._at = 0
        self._tries = 0
        """Of the present model."""
        self._stream = True
        self._doubts_streaming = False
        self._pause_s = 0.0
        self._committed = False
        """Content was handed out: nothing is asked any more, whatever happens."""
        self._held: list[Event] = []
        """Usage that came before content: it counts only for the attempt that answers."""
        self._failure: UpstreamError | None = None
        self._may_pass = False
        """Somebody failed in a way that may be over when a person tries again."""
        self._opened: AbstractAsyncContextManager[Call] | None = None
        """What is open at this moment. No exit stack, which is 1 KB of every running answer."""
        self._call: Call | None = None
        self._events: AsyncIterator[list[Event]] | None = None

    @property
    def finish(self) -> Finish | None:
        return self._call.finish if self._call is not None else None

    @property
    def counted_output_ids(self) -> int | None:
        """Of the attempt that answers."""
        return self._call.counted_output_ids if self._call is not None else None

    async def aclose(self, error: BaseException | None = None) -> None:
        """Close what is open, telling it why. Safe to repeat."""
        opened, self._opened = self._opened, None
        if opened is not None:
            trace = error.__traceback__ if error is not None else None
            await opened.__aexit__(type(error) if error is not None else None, error, trace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self.aclose(error)

    def abandon(self) -> list[Event]:
        return [*self._held, *self._call.abandon()] if self._call is not None else []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Event]:
        if self._failure is not None:
            raise self._failure
        try:
            events = self._events if self._events is not None else await self._ask()
            while True:
                batch = self._sorted(await anext(events))
                if batch:
                    return batch
        except StopAsyncIteration:
            self._circuit.succeeded()
            if self._held:
                return self._release()
            raise
        except UpstreamError as error:
            return await self._after(error)

    def _sorted(self, batch: list[Event]) -> list[Event]:
        """What may be handed out now."""
        if self._committed:
            return batch
        if any(isinstance(event, CONTENT) for event in batch):
            self._committed = True
            self._circuit.answering()
            return self._release() + batch
        self._held += [event for event in batch if isinstance(event, Usage)]
        return [event for event in batch if not isinstance(event, Usage)]

    def _release(self) -> list[Event]:
        held, self._held = self._held, []
        return held

    async def _after(self, error: UpstreamError) -> list[Event]:
        """The notice of the next attempt; else what is left to be told, or the failure."""
        alone = isinstance(error, _LeftAlone)
        COUNTERS.model(self._model.name).errors.add(LEFT_ALONE if alone else error.kind.value)
        if not alone:
            now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            self._circuit.failed(error, time.monotonic(), now)
        self._may_pass |= error.retryable
        notice = None if self._committed else self._next_step(error)
        if notice is not None:
            self._held, self._call, self._events = [], None, None
            await self.aclose()
            return [notice]
        self._failure = self._final(error)
        if self._held:
            return self._release()
        raise self._failure

    @property
    def _model(self) -> ModelConfig:
        return self._models[self._at]

    @property
    def _circuit(self) -> Circuit:
        return self._circuits.of(self._model)

    async def _ask(self) -> AsyncIterator[list[Event]]:
        if self._pause_s:
            await asyncio.sleep(self._pause_s)
        self._tries += 1
        if self._model.resting:
            raise _Resting
        wait_s = self._circuit.admit(time.monotonic())
        if wait_s:
            raise _LeftAlone(wait_s)
        COUNTERS.model(self._model.name).asked += 1
        opened = self._upstream.open(self._request, self._model, stream=self._stream)
        self._call = await opened.__aenter__()
        self._opened = opened
        self._events = aiter(self._call)
        return self._events

    # -- what to do about a failure ---------------------------------------------------------------
    def _next_step(self, error: UpstreamError) -> Notice | None:
        """Prepare the next attempt and say so; None if there is none."""
        self._doubts_streaming |= self._at == 0 and error.kind in _PERHAPS_STREAMING
        asked_s = error.retry_after_s or 0.0
        left = self._retries - self._tries + 1 if self._stream else 0
        if (
            error.retryable
            and left > 0
            and asked_s <= PATIENCE_S
            and not isinstance(error, _LeftAlone)
        ):
            backoff_s = min(BACKOFF_MAX_S, BACKOFF_S * 2 ** (self._tries - 1))
            jittered_s = backoff_s * random.uniform(0.5, 1.0)  # noqa: S311 - against stampedes
            self._pause_s = max(asked_s, jittered_s)
            return _notice("retrying", f"{_sentence(error.message)} Trying again.", self._model)
        if self._stream and error.kind in _MOVE_ON and self._at + 1 < len(self._models):
            self._at += 1
            self._tries, self._pause_s = 0, 0.0
            message = f"{_sentence(error.message)} {self._model.name} answers instead."
            return _notice("fallback", message, self._model)
        if self._stream and self._doubts_streaming and self._retries:
            self._at, self._stream, self._tries, self._pause_s = 0, False, 0, 0.0
            what = f"{self._model.name} is asked again, without streaming."
            message = f"{_sentence(error.message)} {what}"
            return _notice("retrying", message, self._model)
        return None

    def _final(self, error: UpstreamError) -> UpstreamError:
        """The last failure, as a person should hear of it."""
        message, wait_s = error.message, error.retry_after_s or 0.0
        if not self._committed and wait_s > PATIENCE_S:
            message = f"{_sentence(message)} Try again in {_words(wait_s)}."
        if (message, self._may_pass) == (error.message, error.retryable):
            return error
        return UpstreamError(
            error.kind, message, retryable=self._may_pass, retry_after_s=error.retry_after_s
        )


class _LeftAlone(UpstreamError):
    """The circuit is open: nobody was asked."""

    def __init__(self, wait_s: float) -> None:
        message = "The provider has failed several times in a row and is left alone for now."
        super().__init__(ErrorKind.OVERLOADED, message, retry_after_s=wait_s)


class _Resting(_LeftAlone):
    """An operator took the model out of use: nobody was asked, and nothing is wrong with it."""

    def __init__(self) -> None:
        UpstreamError.__init__(
            self, ErrorKind.OVERLOADED, "The operators have switched this model off for now."
        )


def _notice(code: str, message: str, model: ModelConfig) -> Notice:
    return Notice(code=code, message=message, model=model.name)


def _sentence(message: str) -> str:
    """What providers say may stop without a mark, and more is said after it."""
    return message if message.endswith((".", "!", "?", "…", "。")) else f"{message}."


def _words(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
