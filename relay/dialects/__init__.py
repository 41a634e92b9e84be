"""The wire formats of providers, by the names that models files use."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from relay.dialects.anthropic import ANTHROPIC
from relay.dialects.continuation import JointScan, beginning_of, told, writes_on
from relay.dialects.dialect import Asked, Decoder, Dialect, Finish
from relay.dialects.llamacpp import LLAMACPP
from relay.dialects.openai_chat import OPENAI_CHAT
from relay.dialects.openai_responses import OPENAI_RESPONSES
from relay.dialects.sglang_tokens import SGLANG_TOKENS
from relay.dialects.stop_scan import StopScan
from relay.dialects.think_tags import ThinkTags
from relay.dialects.vllm_tokens import VLLM_TOKENS
from relay.wire.joint import Joint
from relay.wire.think_tags import ThinkTagSplitter

_ALL: Final = (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, LLAMACPP, VLLM_TOKENS, SGLANG_TOKENS)
DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType({d.name: d for d in _ALL})


def decoder_for(dialect: Dialect, asked: Asked) -> Decoder:
    """The decoder of one answer, with what model and request want done to its text."""
    decoder = dialect.decoder(asked)
    model, request = asked.model, asked.request
    if model.think_tags is not None:
        opening, closing = model.think_tags
        inside = model.start_in_reasoning
        decoder = ThinkTags(decoder, ThinkTagSplitter(opening, closing, starts_inside=inside))
    if request.continues:
        repeats = not writes_on(dialect, model)
        decoder = JointScan(decoder, Joint(beginning_of(request), repeats=repeats))
    if request.stop:
        decoder = StopScan(decoder, request.stop)
    return decoder


__all__ = ["DIALECTS", "Asked", "Decoder", "Dialect", "Finish", "decoder_for", "told"]
