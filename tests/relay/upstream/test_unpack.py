"""Compressed answers are unpacked in pieces of a fixed size, whatever is in them."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import httpx
import pytest

from relay.errors import ErrorKind
from relay.upstream.unpack import PIECE_BYTES, unpacked
from tests.relay.upstream.hearing import hear
from tests.scripted import Head, Raw, ScriptedUpstream, Status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay.upstream import Upstream

BOMB_BYTES = 200_000_000
MUCH_BYTES = 40_000_000
"""Of memory: an unfinished event may hold 4 MiB, and it is joined, decoded and cited."""


async def several(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("X-GZIP ", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
    ],
)
async def test_any_cut_gives_the_same_bytes(coding: str, pack: object) -> None:
    text = b"data: one\n\n" * 9000
    packed: bytes = pack(text)  # type: ignore[operator]
    for size in (1, 7, 1000, len(packed)):
        cut = [packed[at : at + size] for at in range(0, len(packed), size)]
        pieces = [piece async for piece in unpacked(several(b"", *cut), coding)]
        assert b"".join(pieces) == text
        assert max(map(len, pieces)) <= PIECE_BYTES


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "deflate, gzip", "", "none"])
async def test_other_codings_are_refused(coding: str) -> None:
    """Packed twice, ten bytes are a megabyte; and nobody has asked for any."""
    with pytest.raises(httpx.DecodingError):
        [piece async for piece in unpacked(several(gzip.compress(b"a")), coding)]


@pytest.fixture(scope="module")
def bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    zeros = b"0" * 1_000_000
    parts = [packer.compress(b"data: "), *(packer.compress(zeros) for _ in range(200))]
    return b"".join([*parts, packer.flush()])


async def test_a_bomb_ends_as_a_failure_and_takes_no_memory(
    bomb: bytes, provider: ScriptedUpstream, upstream: Upstream
) -> None:
    assert len(bomb) < BOMB_BYTES / 900
    packed = {"Content-Encoding": "gzip"}
    for script in ([Head(packed), Raw(bomb)], [Status(500, bomb, packed)]):
        provider.script("hi", *script)
        tracemalloc.start()
        try:
            heard = await hear(upstream, "hi", provider.model_config())
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert heard.kind in (ErrorKind.PROTOCOL, ErrorKind.SERVER_ERROR)
        assert peak_bytes < MUCH_BYTES
