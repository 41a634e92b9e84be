"""The language of answers: CommonMark with tables and strikethrough, maths, and no HTML.

The twin of static/chat/markdown/rules.js; tests/fixtures/markdown/ holds both to the same trees.
Everything is bounded: what is nested deeper or is longer than the limits is shown as it was typed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from chatapp.named import DIRECTIONS
from chatapp.rendering.links import is_link

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline

MAX_LEVEL: Final = 40
"""Levels of quotes and lists (a list has two). Nobody reads twenty lists in one another."""
MAX_UNITS: Final = 262_144
"""UTF-16 units of a whole text, as the page counts: 60,000 tokens, far above what models write."""
MAX_INLINE_UNITS: Final = 20_000
"""UTF-16 units of one paragraph or cell: what grows with the square in a parser grows to here."""
MAX_MATH_UNITS: Final = 1_000
MAX_MATH_LINES: Final = 200
"""Of one formula within a line, and of one that stands alone."""

_BLANK: Final = " \t\n"
_ALNUM: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_WORD: Final = re.compile(r"[ (][A-Za-z]{3}")
_TASK: Final = re.compile(r"\[([ xX])\][ \t\n]")
_CLOSINGS: Final = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}


class Parser(MarkdownIt):
    """markdown-it with our rules, and our idea of a link."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False, "maxNesting": MAX_LEVEL + 10})
        self.enable(["table", "strikethrough"])
        interrupts = {"alt": ["paragraph", "reference", "blockquote", "list"]}
        self.block.ruler.before("table", "too_deep", _too_deep)
        self.block.ruler.before("fence", "math_block", _math_block, interrupts)  # type: ignore[arg-type]  # RuleOptionsType
        self.inline.ruler.before("escape", "math_inline", _math_inline)
        self.core.ruler.before("inline", "too_long", _too_long)
        self.core.ruler.before("inline", "tasks", _tasks)

    def validateLink(self, url: str) -> bool:  # noqa: N802 - markdown-it's name
        return is_link(url)

    def normalizeLinkText(self, link: str) -> str:  # noqa: N802 - markdown-it's name
        """As it was typed: decoded again, one alphabet can look like another."""
        return link


def prepared(text: str) -> str:
    """A text as both sides read it.

    Lines end with LF, and marks that turn the direction of reading are to be seen, because they
    can make a program or a name look like another one.
    """
    return DIRECTIONS.sub(lambda mark: f"⟨U+{ord(mark[0]):X}⟩", text.replace("\r", ""))


def parse(text: str) -> list[Token]:
    """Of a prepared text."""
    return _typed(text) if _units(text) > MAX_UNITS else _PARSER.parse(text)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _typed(text: str) -> list[Token]:
    parts = (part.strip(_BLANK) for part in re.split(r"\n{2,}", text.replace("\0", "\ufffd")))
    return [Token("plain", "p", 0, content=part) for part in parts if part]


def _too_deep(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if state.level < MAX_LEVEL:
        return False
    if silent:
        return True
    following = start
    while following < end and (
        state.isEmpty(following) or state.sCount[following] >= state.blkIndent
    ):
        following += 1
    _plain(state, start, max(following, start + 1))
    return True


def _plain(state: StateBlock, start: int, following: int) -> None:
    state.line = following
    token = state.push("plain", "p", 0)
    token.content = state.getLines(start, following, state.blkIndent, False).strip(_BLANK)
    token.map = [start, following]


def _tasks(state: StateCore) -> None:
    """Points that are to be ticked off have a box, as a sign: there is nothing to press."""
    for at, token in enumerate(state.tokens):
        if token.type != "inline" or at < 2 or state.tokens[at - 2].type != "list_item_open":
            continue
        if box := _TASK.match(token.content):
            token.content = ("☐" if box[1] == " " else "☑") + token.content[3:]


def _too_long(state: StateCore) -> None:
    for token in state.tokens:
        if token.type == "inline" and _units(token.content) > MAX_INLINE_UNITS:
            token.type = "plain_inline"


def _math_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    r"""`$$ … $$` and `\[ … \]` on lines of their own.

    Without an empty line in it, as in TeX, so that a pair of signs that was never closed cannot
    swallow an answer. Open at the end: as it was typed.
    """
    if state.is_code_block(start):
        return False
    opening = _line(state, start)
    close = _CLOSINGS.get(opening[:2])
    if close is None or close == "\\)" or opening[2:3] == "$":
        return False
    content: list[str] = []
    closed = False
    following = start
    while following < end and not closed:
        if following > start and state.isEmpty(following):
            return False
        if following > start and state.sCount[following] < state.blkIndent:
            break
        if following - start > MAX_MATH_LINES:
            return False
        text = opening[2:] if following == start else _line(state, following)
        before, sign, after = text.partition(close)
        closed = bool(sign)
        if after.strip(_BLANK):
            return False
        content.append(before)
        following += 1
    tex = "\n".join(content).strip(_BLANK)
    if closed and not tex:
        return False
    if silent:
        return True
    if not closed:
        _plain(state, start, following)
        return True
    state.line = following
    token = state.push("math_block", "div", 0)
    token.content = tex
    token.map = [start, following]
    return True


def _line(state: StateBlock, at: int) -> str:
    return state.src[state.bMarks[at] + state.tShift[at] : state.eMarks[at]]


def _math_inline(state: StateInline, silent: bool) -> bool:
    r"""`$…$`, `$$…$$`, `\(…\)`, `\[…\]` within a line. Money is none: see `_dollars`."""
    src, pos, most = state.src, state.pos, state.posMax
    two = src[pos : pos + 2]
    close = _CLOSINGS.get(two)
    start, end = pos + 2, -1
    if close is not None:
        end = src.find(close, start, min(start + MAX_MATH_UNITS, most))
    elif src[pos] == "$":
        start, end = pos + 1, _dollars(src, pos, most)
    if end < 0:
        return False
    tex = src[start:end].strip(_BLANK)
    if not tex or tex[0] == "$":
        return False
    if not silent:
        token = state.push("math_inline", "span", 0)
        token.content = tex
        token.markup = "$$" if two in ("\\[", "$$") else "$"
    state.pos = end + (2 if close else 1)
    return True


def _dollars(src: str, pos: int, most: int) -> int:
    """Where the formula that `$` at `pos` opens is closed, or -1.

    As in Pandoc a formula touches both of its signs, and no letter or digit follows; one that
    begins with a digit has no words in it.
    """
    before, after = src[pos - 1 : pos], src[pos + 1 : pos + 2]
    if before in _ALNUM or before == "$" or after in ("", " ", "\t", "\n"):
        return -1
    last = min(pos + 1 + MAX_MATH_UNITS, most)
    at = pos + 1
    while at < last:
        if src[at] == "\n":
            return -1
        if src[at] == "\\":
            at += 1
        elif src[at] == "$":
            follows = src[at + 1] if at + 1 < most else ""
            if src[at - 1] in " \t" or follows in _ALNUM or follows == "$":
                return -1
            tex = src[pos + 1 : at]
            return -1 if tex[:1].isdigit() and _WORD.search(tex) else at
        at += 1
    return -1


_PARSER: Final = Parser()
