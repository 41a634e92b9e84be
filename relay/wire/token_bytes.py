"""A token as tokenizers' files write it, to the bytes that it prints."""

from __future__ import annotations

from typing import Final

WORD_START: Final = "\u2581"
"""How SentencePiece writes a space."""


def word_piece(text: str) -> bytes:
    return text.replace(WORD_START, " ").encode("utf-8", "replace")


def word_piece_with_bytes(text: str) -> bytes:
    """SentencePiece writes the byte tokens of characters it does not know as `<0xE2>`."""
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        try:
            return bytes([int(text[3:5], 16)])
        except ValueError:
            pass
    return word_piece(text)


def byte_level(text: str) -> bytes:
    """A token of a byte-level BPE, whose alphabet is 256 visible characters."""
    try:
        return bytes([_BYTE_OF[char] for char in text])
    except KeyError:  # an added token, written as it is
        return text.encode("utf-8", "replace")


def _alphabet() -> dict[str, int]:
    """GPT-2's: a visible Latin-1 character is its own byte, the others follow from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(0x100) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {
        chr(0x100 + nth): byte for nth, byte in enumerate(hidden)
    }


_BYTE_OF: Final = _alphabet()
