"""Reasoning that a model writes into its text, between tags (corpus rule 8).

Only a tag at the very start counts: an answer that talks about the tag must not lose text. White
space before that tag is dropped, nothing else is trimmed, and a thought that never ends stays one.
"""

from __future__ import annotations

from typing import Final

_START: Final = "start"
_THOUGHT: Final = "thought"
_TEXT: Final = "text"


class ThinkTagSplitter:
    """Feed text, get (reasoning, text). `starts_inside`: the prompt has opened the tag already."""

    def __init__(self, opening: str, closing: str, *, starts_inside: bool = False) -> None:
        self._opening, self._closing = opening, closing
        self._where = _THOUGHT if starts_inside else _START
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        if self._where == _TEXT:
            return "", text
        text = self._held + text
        self._held = ""
        if self._where == _START:
            begun = text.lstrip()
            if self._opening.startswith(begun):  # also when nothing but white space has come
                if begun != self._opening:
                    self._held = text
                    return "", ""
            elif not begun.startswith(self._opening):
                self._where = _TEXT
                return "", text
            self._where = _THOUGHT
            text = begun[len(self._opening) :]
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
        return (held, "") if self._where == _THOUGHT else ("", held)
