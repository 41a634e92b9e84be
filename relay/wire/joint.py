"""Where an answer goes on: what a model repeats of its beginning is taken off (PROTOCOL 14.3).

Models that are asked to go on start a new message: they say the last words again, asked for or not,
and nothing tells whether the text broke off inside a word. So they are asked to repeat the last
words, and the repetition shows exactly where the new text begins.
"""

from __future__ import annotations

from typing import Final

REPEATED_CHARS: Final = 12
"""A shorter one may be meant: "ha" after "ha", "the" after "the"."""
LOOK_CHARS: Final = 2000
"""How far back a repetition may begin: a model that says a paragraph again, not all of it."""
ANCHOR_CHARS: Final = 60
"""About ten words: enough to be found nowhere else, little enough to be repeated as they are."""
QUOTES: Final = "\"'“”„«»‘’….` "  # noqa: RUF001 - what models put around words they repeat


def anchor_of(before: str) -> str:
    """The last words of a text, within its last line; the text itself if it is short."""
    line = before.rstrip().rsplit("\n", 1)[-1].strip()
    if len(line) <= ANCHOR_CHARS:
        return line
    tail = line[-ANCHOR_CHARS:]
    return tail.partition(" ")[2] or tail


class Joint:
    """The text that follows `before`. `repeats`: the model begins anew, so it may repeat."""

    def __init__(self, before: str, *, repeats: bool) -> None:
        self._end = before[-LOOK_CHARS:]
        self._enough = min(REPEATED_CHARS, len(anchor_of(before)) or REPEATED_CHARS)
        self._repeats = repeats
        self._held = ""
        self._open = True

    def feed(self, text: str) -> str:
        """Return what may be shown; it may be empty."""
        if not self._open:
            return text
        self._held += text
        new = self._held.lstrip()
        if not new or (self._repeats and self._may_repeat(new)):
            return ""
        return self._let_go()

    def finish(self) -> str:
        """No more text: what was held back is judged as it is."""
        return self._let_go() if self._open else ""

    def _may_repeat(self, new: str) -> bool:
        """Whether more text could make it a repetition, or a longer one."""
        said = new.lstrip(QUOTES)
        ends = self._end.rstrip()
        return not said or said in ends

    def _let_go(self) -> str:
        self._open = False
        held, self._held = self._held, ""
        if self._repeats and (rest := self._without_repetition(held)) is not None:
            return rest
        if self._end[-1:].isspace():
            return held.lstrip()
        words = self._end[-1:].isalnum() and held[:1].isalnum()
        return f" {held}" if self._repeats and words else held

    def _without_repetition(self, held: str) -> str | None:
        """What follows the longest repetition; None: nothing is repeated."""
        said, ends = held.lstrip().lstrip(QUOTES), self._end.rstrip()
        for length in range(min(len(said), len(ends)), self._enough - 1, -1):
            if said.startswith(ends[-length:]):
                rest = said[length:]
                if held.lstrip()[:1] in QUOTES and rest[:1] in QUOTES and rest[:1] != " ":
                    rest = rest[1:]  # the quotation ends, the answer goes on
                return rest.lstrip() if self._end[-1:].isspace() else rest
        return None
