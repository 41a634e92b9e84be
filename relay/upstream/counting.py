"""How many tokens a text is: by the model's tokenizer where its file is known, else an estimate."""

from __future__ import annotations

import logging
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from relay.upstream.tokenizer import TokenizerUnusable
from relay.upstream.vocabulary import tokenizer_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from relay.config import ModelConfig

logger = logging.getLogger(__name__)

BYTES_PER_TOKEN: Final = 3.5
"""Of UTF-8. English has about four, code three; an estimate that is too high leaves out a turn too
many, one that is too low is refused by the provider. Bytes and not characters, because a character
of Chinese or Hindi is a token or more."""


def estimated_tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


def token_counter(model: ModelConfig) -> Callable[[str], int]:
    """Counts the tokens of texts for this model. Reads its tokenizer's file once: for threads.

    A tokenizer that cannot be used is told to the log, and the estimate takes its place.
    """
    return estimated_tokens if model.tokenizer is None else _exact(model.tokenizer)


@lru_cache(maxsize=16)  # as many as tokenizers are remembered
def _exact(path: str) -> Callable[[str], int]:
    try:
        encode = tokenizer_of(path).encode
    except TokenizerUnusable as error:
        logger.error("tokens are estimated: %s", error)
        return estimated_tokens
    if encode is None:
        return estimated_tokens

    @lru_cache(maxsize=2048)  # each turn of a long chat is counted once, not at every question
    def count(text: str) -> int:
        return len(encode(text))

    return count
