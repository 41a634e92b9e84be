"""The SGLang dialect: `/generate` of a server started with `--skip-tokenizer-init`.

Every event carries `output_ids`: all so far, or, from a server with `--stream-output`, the new
ones. They are all so far when their number is `completion_tokens` (corpus rule 12), and from then
on also when the engine counts one that it does not send, as with tokens behind the end. `text`,
where a server sends it all the same, is not used.

`base_url` is the server's root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from relay.dialects.dialect import Dialect
from relay.dialects.engine_request import bearer_headers, extra_of, limit_of
from relay.dialects.openai_chat_chunk import usage_counts
from relay.dialects.provider_errors import error_in, error_of_body
from relay.dialects.token_answer import TokenDecoder
from relay.dialects.usage_snapshot import count_of
from relay.errors import ErrorKind

if TYPE_CHECKING:
    from relay.dialects.dialect import Asked
    from relay.events import Event


class SglangTokensDecoder(TokenDecoder):
    """One answer."""

    _repeats = False
    """Every event has all ids so far."""

    def is_answer(self, value: dict[str, Any]) -> bool:
        return "output_ids" in value or isinstance(value.get("meta_info"), dict)

    def answer(self, value: dict[str, Any], events: list[Event]) -> None:
        if value.get("index"):  # another answer to the same prompt: we never ask for one
            return
        meta = value.get("meta_info")
        meta = meta if isinstance(meta, dict) else {}
        self.usage.take(usage_counts(meta))
        ids = value.get("output_ids")
        if isinstance(ids, list):
            whole = len(ids) == count_of(meta.get("completion_tokens"))
            # Only a server that repeats itself can be whole after something has come.
            self._repeats |= whole and self.count > 0
            known = whole or (self._repeats and len(ids) >= self.count)
            self.ids(ids[self.count :] if known else ids, events)
        elif value.get("text"):
            self.fail(
                ErrorKind.PROTOCOL,
                "The engine answers in text. Start it with --skip-tokenizer-init, or use"
                " its OpenAI dialect.",
            )
        if not self.over:
            self._reason_in(meta.get("finish_reason"))

    def _reason_in(self, reason: object) -> None:
        if not isinstance(reason, dict):
            self.reason(reason)
        elif str(reason.get("type")).lower() == "abort":
            told = {
                "message": reason.get("message"),
                "type": reason.get("err_type"),
                "code": reason.get("status_code"),
            }
            self.fail_with(error_in(told, secret=self.secret))
        else:
            self.reason(reason.get("type"))


def build(asked: Asked) -> dict[str, Any]:
    """The body to send. `extra_body` wins over everything but the streaming; its
    `sampling_params` are merged into ours."""
    extra = extra_of(asked)
    # Null is "until the context is full"; left out it is 128. No stop strings: a server without a
    # tokenizer has no text to find them in. They are found here.
    sampling: dict[str, Any] = {"max_new_tokens": limit_of(asked)}
    if asked.request.temperature is not None:
        sampling["temperature"] = asked.request.temperature
    sampling |= extra.pop("sampling_params", {})
    return (
        {"input_ids": asked.prompt, "sampling_params": sampling} | extra | {"stream": asked.stream}
    )


SGLANG_TOKENS: Final = Dialect(
    name="sglang-tokens",
    path="/generate",
    build=build,
    headers=bearer_headers,
    decoder=lambda asked: SglangTokensDecoder(asked.vocabulary, secret=asked.model.api_key),
    error_of_body=lambda status, body, model: error_of_body(status, body, secret=model.api_key),
    prompt_ids=True,
)
