"""The vLLM dialects that tell token ids: ids in, ids out, and text only by the way.

Two addresses speak nearly the same: `/inference/v1/generate`, which knows no text at all, and
`/v1/completions` with `return_token_ids`. A `base_url` that ends in `/v1` means the latter, the
server's root the former. Text that stands beside ids is not used: it lags behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from relay.dialects.dialect import Dialect
from relay.dialects.engine_request import bearer_headers, extra_of, limit_of
from relay.dialects.openai_chat_chunk import usage_counts
from relay.dialects.provider_errors import error_of_body
from relay.dialects.token_answer import TokenDecoder

if TYPE_CHECKING:
    from relay.config import ModelConfig
    from relay.dialects.dialect import Asked
    from relay.events import Event


class VllmTokensDecoder(TokenDecoder):
    """One answer, from either address."""

    def is_answer(self, value: dict[str, Any]) -> bool:
        return isinstance(value.get("choices"), list) or "usage" in value

    def answer(self, value: dict[str, Any], events: list[Event]) -> None:
        choices = value.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and not choice.get("index"):
                self._choice(choice, events)
        if value.get("usage") is not None:
            self.usage.take(usage_counts(value["usage"]))

    def _choice(self, choice: dict[str, Any], events: list[Event]) -> None:
        ids, text = choice.get("token_ids"), choice.get("text")
        if isinstance(ids, list):
            self.ids(ids, events)
        elif isinstance(text, str) and not self.count:
            # A server too old for `return_token_ids`.
            self.text(text, events)
        if not self.over:
            self.reason(choice.get("finish_reason"))


def speaks_completions(model: ModelConfig) -> bool:
    return model.base_url.rstrip("/").endswith("/v1")


def build(asked: Asked) -> dict[str, Any]:
    """The body to send. `extra_body` wins over everything but the streaming; in the body of
    `/inference/v1/generate` its `sampling_params` are merged into ours."""
    request, model = asked.request, asked.model
    # Null is "until the context is full"; left out it is 16.
    sampling: dict[str, Any] = {"max_tokens": limit_of(asked)}
    if request.temperature is not None:
        sampling["temperature"] = request.temperature
    extra = extra_of(asked)
    body: dict[str, Any] = {"model": model.upstream_model}
    if speaks_completions(model):
        if request.stop:
            sampling["stop"] = request.stop
        body |= {"prompt": asked.prompt, "return_token_ids": True, **sampling}
    else:
        # No stop strings: that door has no text to find them in. They are found here.
        named = extra.pop("sampling_params", {})
        body |= {
            "token_ids": asked.prompt,
            "sampling_params": {**sampling, "detokenize": False, **named},
        }
    if asked.stream:
        body["stream_options"] = {"include_usage": True}
    else:
        extra.pop("stream_options", None)
    return body | extra | {"stream": asked.stream}


VLLM_TOKENS: Final = Dialect(
    name="vllm-tokens",
    path="/inference/v1/generate",
    path_for=lambda model: (
        "/completions" if speaks_completions(model) else "/inference/v1/generate"
    ),
    build=build,
    headers=bearer_headers,
    decoder=lambda asked: VllmTokensDecoder(asked.vocabulary, secret=asked.model.api_key),
    error_of_body=lambda status, body, model: error_of_body(status, body, secret=model.api_key),
    prompt_ids=True,
)
