"""Token ids, or the raw bytes of tokens, to text: incrementally, and the same as all at once.

A token is a piece of bytes, and characters do not keep to its borders: an emoji may take four
tokens, and a token may end one character and begin the next. So bytes are joined, never the texts
of single tokens, and what is not yet a character waits. The cost of a token depends on nothing that
came before it: there is no window of earlier tokens to decode again, which is what decoders that
work on text need, and why those show U+FFFD for an emoji in flight or stall on bytes that never
become one.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_new_utf8: Final = codecs.getincrementaldecoder("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """What every token id prints. A value: it may be shared by any number of answers."""

    pieces: Mapping[int, bytes]
    """Id to bytes, for ids that print: leading spaces as spaces, byte tokens as their byte."""
    special: frozenset[int] = frozenset()
    """Ids that print nothing, whatever `pieces` says: ends, roles, padding."""
    leading_space: bool = False
    """The first piece of a text carries a space that is none: SentencePiece puts one before every
    text it encodes, and drops it when it decodes."""


class Utf8Stream:
    """Bytes to text. An incomplete character is held back until it is whole or cannot be.

    What is no UTF-8 becomes U+FFFD, one per maximal subpart (Unicode 16, 3.9, "U+FFFD Substitution
    of Maximal Subparts"; WHATWG Encoding does the same), also at the end.
    """

    def __init__(self) -> None:
        self._decoder = _new_utf8("replace")

    def feed(self, data: bytes) -> str:
        """Return what is now complete; it may be empty."""
        return self._decoder.decode(data)

    def finish(self) -> str:
        """No more bytes: half a character stays half a character."""
        return self._decoder.decode(b"", final=True)


class Detokenizer:
    """The ids of one answer in, its text out.

    An id that the vocabulary does not know prints U+FFFD: an engine whose model has more tokens
    than the tokenizer we were given is noticed by whoever reads, and loses nothing else.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.count = 0
        """Ids so far, special ones too: all of them were generated."""
        self._pieces = vocabulary.pieces
        self._special = vocabulary.special
        self._drop_space = vocabulary.leading_space
        self._text = Utf8Stream()

    def feed(self, ids: Iterable[int]) -> str:
        """Return the text that is now complete; it may be empty."""
        printed: list[bytes] = []
        for token in ids:
            self.count += 1
            if token not in self._special:
                printed.append(self._pieces.get(token, UNKNOWN))
        data = b"".join(printed)
        if self._drop_space and data:
            self._drop_space = False
            data = data.removeprefix(b" ")
        return self._text.feed(data) if data else ""

    def finish(self) -> str:
        """No more ids: what was held back as U+FFFD."""
        return self._text.finish()


UNKNOWN: Final = "\ufffd".encode()
"""Printed for an id that the vocabulary does not have."""
