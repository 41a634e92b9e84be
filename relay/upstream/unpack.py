"""Compressed answers, unpacked in pieces that cannot grow.

A megabyte of zeros is a kilobyte of gzip, and packed twice it is ten bytes. Unpacking a whole read
at once, as httpx does, lets a provider (or whoever stands in for it) take all memory before any of
our limits has seen a byte. Here a piece has a size, and only what was asked of nobody more than
once is unpacked: one coding, of those that HTTP clients must know.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator
from typing import Final

import httpx

PIECE_BYTES: Final = 64 * 1024
"""Decoders bound events and the log bounds an answer: what they look at must come bit by bit."""
_GZIP: Final = zlib.MAX_WBITS | 16
_RAW: Final = -zlib.MAX_WBITS


async def unpacked(chunks: AsyncIterable[bytes], coding: str) -> AsyncIterator[bytes]:
    """The bytes behind `coding`. Raises httpx.DecodingError for damaged ones and other codings."""
    coding = coding.strip().lower()
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise httpx.DecodingError("a content coding that nobody asked for")
    unpacker = None
    async for chunk in chunks:
        if unpacker is None:
            if not chunk:
                continue
            unpacker = zlib.decompressobj(_GZIP if "gzip" in coding else _deflate(chunk))
        packed = chunk
        while packed and not unpacker.eof:
            try:
                piece = unpacker.decompress(packed, PIECE_BYTES)
            except zlib.error as error:
                raise httpx.DecodingError(str(error)) from error
            packed = unpacker.unconsumed_tail
            if piece:
                yield piece
            if packed:
                await asyncio.sleep(0)  # others get their turn between the pieces of one read


def _deflate(first: bytes) -> int:
    """With zlib's head, as the standard says, or without, as some servers understood it."""
    has_head = first[0] & 0x0F == zlib.DEFLATED and (first[0] >> 4) <= 7
    return zlib.MAX_WBITS if has_head else _RAW
