"""The llama.cpp dialect: `/completion` of its server, the prompt made by its `/apply-template`.

`content` is the text. The ids beside it (`return_tokens`) cannot replace it: a token that ends
inside a character is never sent, reading the prompt is reported with a made-up id 0, and the last
event has none (corpus rule 12). They only say that something was generated.

`base_url` is the server's root, without `/v1`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from relay.dialects.answer_texts import AnswerTexts
from relay.dialects.dialect import Dialect, Template
from relay.dialects.engine_request import bearer_headers, extra_of, limit_of, text_messages
from relay.dialects.finish_reasons import finish_reason
from relay.dialects.openai_chat_answer import progress_notice
from relay.dialects.provider_errors import error_of_body
from relay.dialects.stream_decoder import StreamDecoder
from relay.dialects.usage_snapshot import UsageSnapshot, count_of
from relay.errors import ErrorKind, UpstreamError
from relay.events import TextDelta
from relay.states import FinishReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relay.dialects.dialect import Asked
    from relay.events import Event
    from relay.wire.sse import Frame

_KNOWN_EVENTS: Final = frozenset({"", "message", "error"})
_STOP_TYPES: Final = {"limit": "length", "word": "stop", "eos": "stop"}


class LlamaCppDecoder(StreamDecoder):
    """One answer."""

    def __init__(self, *, secret: str | None = None) -> None:
        super().__init__(secret=secret)
        self.counted_output_ids: int | None = 0
        self._texts = AnswerTexts()
        self._texts.expect_halves()
        self._usage = UsageSnapshot()
        self._seen = False
        self._stopped = False
        self._reason: FinishReason | None = None

    @property
    def finishing(self) -> bool:
        return self._stopped

    @property
    def whole(self) -> bool:
        return self._stopped

    @property
    def said_nothing(self) -> bool:
        return not self._seen

    def frame(self, frame: Frame, events: list[Event]) -> None:
        value = self.json_of(frame, _KNOWN_EVENTS)
        if isinstance(value, dict):
            self._object(value, events)

    def body(self, value: Any, events: list[Event]) -> bool:
        if not isinstance(value.get("content"), str):
            return False
        # A whole answer says `stop` as well; one that came in the older form without it is whole.
        self._object({"stop": True, **value}, events)
        return True

    def close(self) -> Iterator[Event]:
        yield from self._texts.held_text()
        yield from self._usage.event()

    def break_off(self) -> Iterator[Event]:
        return self.close()

    def finish_reason(self) -> FinishReason | None:
        return self._reason

    def _object(self, value: dict[str, Any], events: list[Event]) -> None:
        if value.get("error"):
            self.error_object(value)
            return
        if value.get("index"):  # a second answer to the same prompt: we never ask for one
            return
        self._seen |= "content" in value or "prompt_progress" in value
        events.extend(progress_notice(value.get("prompt_progress")))
        self._count(value)
        if isinstance(content := value.get("content"), str):
            self._texts.add_text(TextDelta, content, events)
        if value.get("stop") is True:
            self._stopped = self.over = True
            self._reason = _reason(value)

    def _count(self, value: dict[str, Any]) -> None:
        predicted = count_of(value.get("tokens_predicted"))
        if predicted is not None:
            # By how far the number advanced, not by the ids: those inside characters are missing.
            self.counted_output_ids = max(self.counted_output_ids or 0, predicted)
        counts = {
            "input_tokens": count_of(value.get("tokens_evaluated")),
            "output_tokens": predicted,
        }
        self._usage.take({name: n for name, n in counts.items() if n is not None})


def _reason(value: dict[str, Any]) -> FinishReason | None:
    word = value.get("stop_type")
    if isinstance(word, str) and word not in ("", "none"):
        reason = finish_reason(_STOP_TYPES.get(word, word))
        return reason if isinstance(reason, FinishReason) else None
    # Servers before `stop_type` had one flag for each.
    if value.get("stopped_limit") or value.get("truncated"):
        return FinishReason.LENGTH
    if value.get("stopped_eos") or value.get("stopped_word"):
        return FinishReason.STOP
    return None


def build(asked: Asked) -> dict[str, Any]:
    """The body to send. `extra_body` wins over everything but the streaming."""
    request = asked.request
    body: dict[str, Any] = {"prompt": asked.prompt, "return_tokens": True}
    if (limit := limit_of(asked)) is not None:
        body["n_predict"] = limit
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.stop:
        body["stop"] = request.stop
    return body | extra_of(asked) | {"stream": asked.stream}


def build_template(asked: Asked) -> dict[str, Any]:
    """The conversation, to be rendered by the engine."""
    body: dict[str, Any] = {"messages": text_messages(asked)}
    if options := asked.model.extra_body.get("chat_template_kwargs"):
        body["chat_template_kwargs"] = options
    return body


def prompt_in(value: object) -> str:
    prompt = value.get("prompt") if isinstance(value, dict) else None
    if not isinstance(prompt, str):
        raise UpstreamError(
            ErrorKind.PROTOCOL, "The engine did not turn the conversation into a prompt."
        )
    return prompt


LLAMACPP: Final = Dialect(
    name="llamacpp",
    path="/completion",
    build=build,
    headers=bearer_headers,
    decoder=lambda asked: LlamaCppDecoder(secret=asked.model.api_key),
    error_of_body=lambda status, body, model: error_of_body(status, body, secret=model.api_key),
    template=Template(path="/apply-template", build=build_template, prompt_in=prompt_in),
    prefills=True,
)
