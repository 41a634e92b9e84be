"""What can be shown of a JSON text that is still being written.

For display only: a tool is run with arguments that were whole (`dialects.tool_arguments`), never
with these. Nothing is taken back but a guess that says so (`complete`): an unfinished string is
what is there of it, a key without a value is not there yet, `t` can only become true.

jiter reads what is whole. Of what is not, it hides mistakes (`[1}` is `[1]` to it) and drops what a
person could be shown (`12.`, `tru`), so that is read here: one pass, no recursion.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from typing import Any, Final, Literal

import jiter
from msgspec import Struct

from relay.wire.surrogates import joined

MAX_DEPTH: Final = 512
"""Containers in containers. No tool's schema comes near it, and whatever shows the value recurses:
Python at 1,000 levels, browsers at a few thousand."""

Mistake = Literal["invalid", "trailing_data", "too_deep", "out_of_range"]


class Partial(Struct, frozen=True, kw_only=True):
    """The value of a text as far as it goes."""

    has_value: bool = False
    """False: no value has begun, or the text is wrong and there is none to be trusted."""
    value: Any = None
    complete: bool = False
    """The text is valid JSON as it stands. A number may still grow."""
    error: Mistake | None = None
    """None: the text is the beginning of some valid JSON text. `trailing_data`: a whole value, and
    then more; `value` is that first one. Otherwise there is no value."""


class _Wrong(Exception):
    def __init__(self, error: Mistake) -> None:
        super().__init__(error)
        self.error: Mistake = error


_WHITE: Final = re.compile(r"[ \t\n\r]*+")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_NUMBER_BEGUN: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.|(?:\.[0-9]++)?[eE][+-]?)")
_NUMBER_GOES_WRONG: Final = re.compile(r"[0-9.eE]")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
_ESCAPE_BEGUN: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_LITERALS: Final = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
# jiter makes Infinity of a number that is too large; only such a text can hold one.
_PERHAPS_TOO_LARGE: Final = re.compile(r"[0-9][eE]|[0-9]{300}")


def parse_partial(data: str | bytes) -> Partial:
    """Read a JSON text, or the beginning of one. Bytes may end inside a character. Never raises.

    Halves of characters that stay alone become U+FFFD; of keys that come twice the last one counts.
    Corpus: `json_vectors.json` and its README.
    """
    try:
        text = (
            data if isinstance(data, str) else codecs.getincrementaldecoder("utf-8")().decode(data)
        )
        if not _PERHAPS_TOO_LARGE.search(text):
            try:
                value = jiter.from_json(text.encode(), allow_inf_nan=False)
            except ValueError:  # not whole, or half a character: looked at more closely
                pass
            else:
                return Partial(has_value=True, value=value, complete=True)
        return _Reader(joined(text)).read()
    except UnicodeDecodeError:
        return Partial(error="invalid")
    except _Wrong as wrong:
        return Partial(error=wrong.error)


class _Reader:
    """One text. `_open` are the containers around `_at`, each filled as its values come."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._cut = False  # the text ended inside a value, or in front of one
        self._open: list[list[Any] | dict[str, Any]] = []
        self._keys: list[str] = []  # of the objects in `_open` that wait for a value
        self._opened = False  # the last thing read was the opening of a container
        self._has_root = False
        self._root: Any = None

    def read(self) -> Partial:
        while self._begin_value():
            if not self._after_value():
                break
        complete = self._has_root and not self._open and not self._cut
        trailing = complete and self._at < len(self._text)
        return Partial(
            has_value=self._has_root,
            value=self._root,
            complete=complete and not trailing,
            error="trailing_data" if trailing else None,
        )

    def _next(self) -> str:
        """The next character that is not white space; empty at the end."""
        match = _WHITE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._text[self._at : self._at + 1]

    def _begin_value(self) -> bool:
        """Take a value, or the opening of one. False when the text ends before there is one."""
        char = self._next()
        self._opened = char in ("[", "{")
        if self._opened:
            if len(self._open) == MAX_DEPTH:
                raise _Wrong("too_deep")
            container: list[Any] | dict[str, Any] = [] if char == "[" else {}
            self._at += 1
            self._put(container)
            self._open.append(container)
        elif char == '"':
            self._put(self._string())
        elif char in _LITERALS:
            self._put(self._literal(*_LITERALS[char]))
        elif char:
            return self._number()
        else:
            self._cut = True
            return False
        return True

    def _after_value(self) -> bool:
        """Close what closes here and go to where the next value begins. False: there is none."""
        while self._open and not self._cut:
            inside = self._open[-1]
            char = self._next()
            if not char:
                self._cut = True
            elif char == ("]" if isinstance(inside, list) else "}"):
                self._at += 1
                self._open.pop()
                self._opened = False
                continue
            elif not self._opened:
                if char != ",":
                    raise _Wrong("invalid")
                self._at += 1
            return not self._cut and (isinstance(inside, list) or self._key())
        self._next()
        return False

    def _key(self) -> bool:
        """Take a key and its colon. False when the text ends before that."""
        char = self._next()
        if char and char != '"':
            raise _Wrong("invalid")
        if char:
            key = self._string()
            if not self._cut:
                char = self._next()
                if char and char != ":":
                    raise _Wrong("invalid")
                if char:
                    self._at += 1
                    self._keys.append(key)
                    return True
        self._cut = True
        return False

    def _put(self, value: Any) -> None:
        if not self._open:
            self._root, self._has_root = value, True
            return
        inside = self._open[-1]
        if isinstance(inside, list):
            inside.append(value)
        else:
            inside[self._keys.pop()] = value

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        end = match.end() if match else self._at
        content = self._text[self._at + 1 : end]
        self._at = end
        if self._text[end : end + 1] == '"':
            self._at += 1
        elif end == len(self._text) or _ESCAPE_BEGUN.fullmatch(self._text, end):
            self._at = len(self._text)
            self._cut = True
        else:
            raise _Wrong("invalid")
        string: str = json.loads(f'"{content}"')  # jiter refuses halves of characters
        if self._cut and "\ud800" <= string[-1:] <= "\udbff":
            string = string[:-1]  # its other half is still to come
        return joined(string) if "\\u" in content else string

    def _literal(self, word: str, value: bool | None) -> bool | None:
        there = self._text[self._at : self._at + len(word)]
        self._at += len(there)
        if there != word:
            if self._at < len(self._text) or not word.startswith(there):
                raise _Wrong("invalid")
            self._cut = True
        return value

    def _number(self) -> bool:
        text = self._text
        match = _NUMBER.match(text, self._at)
        if match is None:
            if text[self._at :] != "-":
                raise _Wrong("invalid")
            self._cut = True
            return False
        end = match.end()
        if _NUMBER_BEGUN.fullmatch(text, self._at):
            self._cut = True
            self._at = len(text)
        elif _NUMBER_GOES_WRONG.match(text, end):
            raise _Wrong("invalid")
        else:
            self._at = end
        self._put(_number(match.group()))
        return True


def _number(text: str) -> int | float:
    try:
        number = int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError as error:  # more digits than Python converts
        raise _Wrong("out_of_range") from error
    if isinstance(number, float) and math.isinf(number):  # an int of 400 digits is no float
        raise _Wrong("out_of_range")
    return number
