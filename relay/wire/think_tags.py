"""Reasoning that a model writes into its text, between tags (corpus rule 8).

Only a tag at the very start counts: an answer that talks about the tag must not lose text. White
space before that tag is dropped, nothing else is trimmed, and a thought that never ends stays one.
"""

from __future__ import annotations

from typing import Final

MAX_SPACE_CHARS: Final = 4096
"""White space that may stand before a tag. More of it is an answer of white space, and shown: what
waits for a tag is in no log and counts against no limit."""

_START: Final = "start"
_THOUGHT: Final = "thought"
_TEXT: Final = "text"


class ThinkTagSplitter:
    """Feed text, get (reasoning, text). `starts_inside`: the prompt has opened the tag already.

    A model that opens it once more all the same, as some do, means nothing by that.
    """

    def __init__(self, opening: str, closing: str, *, starts_inside: bool = False) -> None:
        self._opening, self._closing = opening, closing
        self._where = _START
        self._else = _THOUGHT if starts_inside else _TEXT  # where it begins without a tag
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        if self._where == _TEXT:
            return "", text
        text = self._held + text
        self._held = ""
        if self._where == _START:
            begun = text.lstrip()
            if len(begun) < len(self._opening) and self._opening.startswith(begun):
                # Perhaps a tag, also when nothing but white space has come.
                if len(text) - len(begun) <= MAX_SPACE_CHARS:
                    self._held = text
                    return "", ""
            elif begun.startswith(self._opening):
                self._else = _THOUGHT
                text = begun[len(self._opening) :]
            self._where = self._else
            if self._where == _TEXT:
                return "", text
        thought, closing, rest = text.partition(self._closing)
        if closing:
            self._where = _TEXT
            return thought, rest
        for length in range(min(len(self._closing) - 1, len(text)), 0, -1):
            if self._closing.startswith(text[-length:]):
                self._held = text[-length:]
                return text[:-length], ""
        return text, ""

    def finish(self) -> tuple[str, str]:
        """No more text: a tag that is not whole is none."""
        held, self._held = self._held, ""
        is_thought = self._where == _THOUGHT or (self._where, self._else) == (_START, _THOUGHT)
        return (held, "") if is_thought else ("", held)
