"""Long texts beside a message, as they stand in its text: a header line, then the text in a fence.

    Attached: Pasted text 1 (12345 characters)
    ~~~~
    …
    ~~~~

A model reads it as it is, and so do search, exports and the API; a page shows it folded. The twin
of static/chat/attached.js; tests/fixtures/attached.json holds both to it. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from chatapp.named import undirected

HEADER: Final = re.compile(r"Attached: ([^\n]{1,100}) \([0-9]{1,9} characters\)")
_HEADERS: Final = re.compile(r"^Attached: [^\n]{1,100} \([0-9]{1,9} characters\)$", re.MULTILINE)
FENCE: Final = re.compile(r"~{4,}")
PREVIEW_CHARS: Final = 120


@dataclass(frozen=True, slots=True)
class Part:
    """Of a message: what was written, or, with a name, what was attached."""

    text: str
    name: str = ""

    @property
    def preview(self) -> str:
        """Its first words, to tell it from others."""
        return " ".join(self.text[: PREVIEW_CHARS * 4].split())[:PREVIEW_CHARS]

    @property
    def lines(self) -> int:
        """A line feed ends one; none begins behind the last."""
        return self.text.removesuffix("\n").count("\n") + 1


def parts_of(text: str) -> list[Part]:
    """In their order. A header without a fence that is closed is text like any other."""
    lines = text.split("\n")
    fences: defaultdict[str, list[int]] = defaultdict(list)
    for n, line in enumerate(lines):
        if FENCE.fullmatch(line):
            fences[line].append(n)
    parts: list[Part] = []
    begun = n = 0
    while n < len(lines) - 1:
        header, places = HEADER.fullmatch(lines[n]), fences.get(lines[n + 1], [])
        at = bisect_right(places, n + 1)
        if header is None or at == len(places):
            n += 1
            continue
        _add(parts, lines[begun:n])
        name = undirected(header[1]) or "Text"
        parts.append(Part("\n".join(lines[n + 2 : places[at]]), name))
        begun = n = places[at] + 1
    _add(parts, lines[begun:])
    return parts


def named_plainly(text: str) -> str:
    """The same text, where names of what is attached are what a page shows."""
    return _HEADERS.sub(lambda header: undirected(header[0]), text)


def _add(parts: list[Part], lines: list[str]) -> None:
    text = "\n".join(lines).strip("\n")
    if text:
        parts.append(Part(text))
