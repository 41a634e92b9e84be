"""The arguments of a tool call: text that a model wrote, read once it is whole and not before.

Strict RFC 8259: a model that writes NaN or a trailing brace is told so and may try again, instead
of a tool being run with what somebody guessed.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

from relay.wire.surrogates import sanitized

MAX_DEPTH: Final = 128
"""Deeper nesting is refused: readers in other languages, and our own, recurse."""


class BadArguments(Exception):
    """Text that cannot be used as arguments. `error` is the word that goes into the event."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


def parse_arguments(raw: str) -> dict[str, Any]:
    """Return the object that `raw` is; empty and `null` are the empty one.

    Raises BadArguments: `truncated`, `invalid`, `multiple_values`, `not_object`, `out_of_range` or
    `too_deep`.
    """
    text = raw.strip(" \t\r\n")
    if text in ("", "null"):
        return {}
    try:
        value, end = _decoder.raw_decode(text)
        rest = text[end:].lstrip(" \t\r\n")
        if rest:
            raise BadArguments("multiple_values" if _begins_with_value(rest) else "invalid")
        if not isinstance(value, dict):
            raise BadArguments("not_object")
        if text.count("{") + text.count("[") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
            raise BadArguments("too_deep")
        # Only an escape can have brought half a character in.
        return sanitized(value) if "\\u" in text else value  # type: ignore[return-value]
    except json.JSONDecodeError as error:
        cut_off = error.pos >= len(text) or error.msg.startswith("Unterminated string")
        raise BadArguments("truncated" if cut_off else "invalid") from error
    except RecursionError as error:
        raise BadArguments("too_deep") from error


def arguments_in(value: object) -> str | dict[str, Any] | None:
    """Arguments as a provider's JSON holds them: text, or an object in its place (rule 6).

    Another value is told as its text, which then is found to be no object.
    """
    if value is None or isinstance(value, (str, dict)):
        return value
    return json.dumps(value, ensure_ascii=False)


def _constant(name: str) -> NoReturn:
    raise BadArguments("invalid")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise BadArguments("out_of_range")
    return value


def _int(text: str) -> int:
    # Beyond this no reader keeps the digits; Python's own limit, a plain ValueError, is far higher.
    if len(text) > 300:
        raise BadArguments("out_of_range")
    return int(text)


_decoder: Final = json.JSONDecoder(parse_constant=_constant, parse_float=_float, parse_int=_int)


def _begins_with_value(text: str) -> bool:
    try:
        _decoder.raw_decode(text)
    except (json.JSONDecodeError, BadArguments):
        return False
    return True


def _deeper_than(value: object, limit: int) -> bool:
    """Whether containers are nested deeper than `limit`, found without recursion."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            child
            for container in level
            if isinstance(container, (dict, list))
            for child in (container.values() if isinstance(container, dict) else container)
        ]
        if not level:
            return False
    return True
