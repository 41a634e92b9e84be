"""Colours of code: spans with the few classes that static/chat/prose.css knows.

The page's own scripts colour with the same classes (static/chat/markdown/code.js), by grammars of
their own: the colours of a word may differ, its letters never do.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, Operator, String
from pygments.util import ClassNotFound

MAX_CODE_UNITS: Final = 50_000
"""Longer code stays without colours: 0.3 s."""

_CLASSES: Final[tuple[tuple[Any, str], ...]] = (
    (Comment, "c"),
    (Keyword.Type, "t"),
    (Keyword, "k"),
    (Operator.Word, "k"),
    (String, "s"),
    (Number, "n"),
    (Literal, "n"),
    (Name.Function, "f"),
    (Name.Class, "t"),
    (Name.Builtin, "b"),
    (Name.Decorator, "m"),
    (Name.Attribute, "m"),
    (Name.Tag, "k"),
    (Generic.Inserted, "a"),
    (Generic.Deleted, "d"),
)


def coloured(language: str, text: str) -> str:
    """HTML of a piece of code, letter by letter what it was."""
    if not language or len(text) > MAX_CODE_UNITS:
        return escape(text)
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return escape(text)
    runs: list[tuple[str, str]] = []
    for kind, value in lexer.get_tokens(text):
        name = next((name for parent, name in _CLASSES if kind in parent), "")
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1] + value)
        else:
            runs.append((name, value))
    if "".join(value for _, value in runs) != text:
        return escape(text)
    return "".join(
        f'<span class="{name}">{escape(value)}</span>' if name else escape(value)
        for name, value in runs
    )
