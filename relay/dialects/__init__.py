"""The wire formats of providers, by the names that models files use."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from relay.dialects.dialect import Decoder, Dialect, Finish
from relay.dialects.openai_chat import OPENAI_CHAT

DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType({OPENAI_CHAT.name: OPENAI_CHAT})

__all__ = ["DIALECTS", "Decoder", "Dialect", "Finish"]
