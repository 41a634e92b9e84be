"""How the text of an answer becomes HTML: the same tree that static/chat/markdown/ builds.

A model's words are never trusted: nothing they contain is HTML, runs, or is fetched by looking at
it. `tests/fixtures/markdown/` holds both sides to the same trees.
"""

from __future__ import annotations

from chatapp.rendering.html import to_html
from chatapp.rendering.kept import html_of

__all__ = ["html_of", "to_html"]
