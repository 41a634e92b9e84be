"""What is known of a model's tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relay.wire.detok import Vocabulary


class TokenizerUnusable(Exception):
    """A tokenizer's file that cannot be read, or is of a kind that we do not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    vocabulary: Vocabulary
    encode: Callable[[str], list[int]] | None
    """Text to ids, special tokens in the text recognised and none added. None: ids can only be
    read."""
    names: Mapping[str, str] = field(default_factory=dict)
    """`bos_token` and the like, as chat templates ask for them."""
