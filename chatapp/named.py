"""Names that people, models and files bring: no name looks like another one.

Marks that turn the direction of reading make `photo[U+202E]gpj.exe` look like a picture. Prose
shows them (rendering/rules.py); a name goes without. The twin of static/chat/names.js. Pure.
"""

from __future__ import annotations

import re
from typing import Final

DIRECTIONS: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Embeddings, overrides, isolates. LRM, RLM and ALM turn no letter, and Arabic names need them."""


def undirected(name: str) -> str:
    return DIRECTIONS.sub("", name)
