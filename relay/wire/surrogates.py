"""Halves of characters: JSON strings may carry one half of a UTF-16 pair, events never do.

Some upstreams cut text between the two `\\ud83d\\ude00` of an emoji. Halves that meet across deltas
are joined, a half that stays alone becomes U+FFFD: no string that leaves here cannot be encoded.
"""

from __future__ import annotations

REPLACEMENT = "\ufffd"


def joined(text: str) -> str:
    """`text` with pairs of halves joined and lone halves replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class SurrogateJoiner:
    """Holds a high half back until what follows it is known. One per channel of text."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Return what is now complete; it may be empty."""
        if not self._held and text.isascii():  # nearly always
            return text
        if not text:
            return ""
        text = self._held + text
        self._held = ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return joined(text)

    def finish(self) -> str:
        """No more text: what was held back stays half a character."""
        held, self._held = self._held, ""
        return REPLACEMENT if held else ""


def sanitized(value: object) -> object:
    """A JSON value with every string in it, keys included, made possible to encode."""
    if isinstance(value, str):
        return joined(value)
    if isinstance(value, list):
        return [sanitized(item) for item in value]
    if isinstance(value, dict):
        return {joined(key): sanitized(item) for key, item in value.items()}
    return value
