"""Answers that come as token ids: what vLLM's and SGLang's streams have in common.

`[DONE]` ends both. Ids become text here, with the vocabulary of the model's tokenizer, so that an
engine needs none and no character is ever cut (corpus rules 3, 4 and 12).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from relay.dialects.answer_texts import AnswerTexts
from relay.dialects.finish_reasons import finish_reason
from relay.dialects.provider_errors import error_in
from relay.dialects.stream_decoder import StreamDecoder
from relay.dialects.usage_snapshot import UsageSnapshot
from relay.errors import ErrorKind
from relay.events import TextDelta
from relay.wire.detok import Detokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from relay.events import Event
    from relay.states import FinishReason
    from relay.wire.detok import Vocabulary
    from relay.wire.sse import Frame

_KNOWN_EVENTS: Final = frozenset({"", "message", "error"})


class TokenDecoder(StreamDecoder):
    """One answer. Without a vocabulary, ids fail it: there is nothing to show."""

    def __init__(self, vocabulary: Vocabulary | None, *, secret: str | None = None) -> None:
        super().__init__(secret=secret)
        self.usage = UsageSnapshot()
        self.seen = False
        """Any object of the dialect has come."""
        self._detok = Detokenizer(vocabulary) if vocabulary is not None else None
        self._texts = AnswerTexts()
        self._texts.expect_halves()
        self._done = False
        self._in_one_piece = False
        self._reason: FinishReason | None = None

    @abstractmethod
    def answer(self, value: dict[str, Any], events: list[Event]) -> None:
        """Append what one object of the stream means; it reports no error."""

    @abstractmethod
    def is_answer(self, value: dict[str, Any]) -> bool:
        """Whether an object is one of this dialect."""

    # -- for the dialects -------------------------------------------------------------------------
    @property
    def count(self) -> int:
        """Ids so far."""
        return self._detok.count if self._detok is not None else 0

    def ids(self, ids: Sequence[Any], events: list[Event]) -> None:
        if not ids:
            return
        if self._detok is None:
            self.fail(
                ErrorKind.PROTOCOL,
                "The engine answers in token ids and the model has no tokenizer to read them with.",
            )
        elif not all(type(token) is int for token in ids):
            self.fail(ErrorKind.PROTOCOL, "The engine sent something that is no token id.")
        else:
            self.text(self._detok.feed(ids), events)

    def text(self, text: str, events: list[Event]) -> None:
        self._texts.add_text(TextDelta, text, events)

    def reason(self, word: object) -> None:
        """Why the model stopped, as the engine says it; null does not take it back."""
        reason = finish_reason(word)
        if isinstance(reason, ErrorKind):
            self.fail_with(error_in({"type": reason.value}))
        else:
            self._reason = reason or self._reason

    # -- the life of an answer --------------------------------------------------------------------
    @property
    def counted_output_ids(self) -> int | None:  # type: ignore[override]
        return self._detok.count if self._detok is not None else None

    @property
    def finishing(self) -> bool:
        return self._reason is not None

    @property
    def whole(self) -> bool:
        # `[DONE]` ends the stream, but only the engine's own word ends an answer (rule 4).
        return self._reason is not None or (self._in_one_piece and self._answered)

    @property
    def said_nothing(self) -> bool:
        return not self.seen or (self._done and not self._answered)

    @property
    def _answered(self) -> bool:
        return self._texts.output or self.count > 0

    def frame(self, frame: Frame, events: list[Event]) -> None:
        if frame.data.strip() == "[DONE]" and not frame.field:
            self.over = self._done = True
            return
        value = self.json_of(frame, _KNOWN_EVENTS)
        if not isinstance(value, dict):
            return
        if value.get("error") or value.get("object") == "error":
            self.error_object(value)
        elif self.is_answer(value):
            self.seen = True
            self.answer(value, events)

    def body(self, value: Any, events: list[Event]) -> bool:
        if not self.is_answer(value):
            return False
        self.answer(value, events)
        self._done = self._in_one_piece = self.seen = True
        return True

    def close(self) -> Iterator[Event]:
        events: list[Event] = []
        if self._detok is not None:
            self.text(self._detok.finish(), events)
        yield from events
        yield from self._texts.held_text()
        yield from self.usage.event()

    def break_off(self) -> Iterator[Event]:
        return self.close()

    def finish_reason(self) -> FinishReason | None:
        return self._reason
