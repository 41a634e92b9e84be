"""What a picture is: read from its bytes, never from its name, and rid of what is no picture.

Of each of the four formats the containers are walked, and what tells of place, camera, time and
author is left out; the way it was held (EXIF orientation) stays, or it would lie on its side. What
is compressed is not unpacked: models do that, and a stranger's bytes meet no decoder here. Pure.
"""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SIDE: Final = 16_384
"""Pixels. WebP's and many decoders' own bound; more is a bomb or a mistake."""
MOST_TOKENS: Final = 1_600
"""What Anthropic and OpenAI count for the largest picture, which they make smaller."""
PIXELS_PER_TOKEN: Final = 750


class NotAPicture(ValueError):
    """The bytes are no PNG, JPEG, WebP or GIF, or are broken."""


@dataclass(frozen=True, slots=True)
class Drawing:
    media_type: str
    width: int
    height: int
    """In pixels, as it is shown."""
    data: bytes


def read_picture(data: bytes) -> Drawing:
    """Raises NotAPicture."""
    try:
        drawing = _read(data)
    except (struct.error, IndexError) as exc:
        raise NotAPicture("it ends too soon") from exc
    if not (0 < drawing.width <= MAX_SIDE and 0 < drawing.height <= MAX_SIDE):
        raise NotAPicture("it has no size, or too much of it")
    return drawing


def from_data_url(url: str) -> bytes:
    """Of `data:…;base64,…`. Its type is not believed. Raises NotAPicture."""
    head, comma, data = url.partition(",")
    if not (head.startswith("data:") and head.endswith(";base64") and comma):
        raise NotAPicture("it is no data URL")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise NotAPicture("its data URL cannot be read") from exc


def data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def estimated_tokens(width: int, height: int) -> int:
    return min(MOST_TOKENS, width * height // PIXELS_PER_TOKEN + 1)


def _read(data: bytes) -> Drawing:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _png(data)
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    if data[:6] in (b"GIF87a", b"GIF89a"):
        # Its comments tell of programs at most, and to find them each frame would have to be read.
        width, height = struct.unpack_from("<HH", data, 6)
        return Drawing("image/gif", width, height, data)
    raise NotAPicture("it is no PNG, JPEG, WebP or GIF")


def _png(data: bytes) -> Drawing:
    kept, at, width, height = [data[:8]], 8, 0, 0
    while True:
        size, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + size
        if end > len(data):
            raise NotAPicture("it ends too soon")
        if kind == b"IHDR":
            width, height = struct.unpack_from(">II", data, at + 8)
        if kind not in (b"tEXt", b"zTXt", b"iTXt", b"eXIf", b"tIME"):
            kept.append(data[at:end])
        if kind == b"IEND":  # what comes behind it is no picture
            return Drawing("image/png", width, height, b"".join(kept))
        at = end


_TELLING: Final = frozenset({*range(0xE1, 0xF0), 0xFE}) - {0xE2, 0xEE}
"""Segments APP1 to APP15 and comments; APP2 has the colours' profile, APP14 how to read them."""
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def _jpeg(data: bytes) -> Drawing:
    kept, held, width, height = [b"\xff\xd8"], 1, 0, 0
    for marker, start, end in _segments(data):
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, start + 5)
        if marker == 0xE1:
            held = _orientation(data[start + 4 : end]) or held
        if marker not in _TELLING:
            kept.append(data[start:end])
    if held != 1:
        kept.insert(1, _ORIENTED + bytes([held]) + bytes(6))
    if held >= 5:  # it lies on its side
        width, height = height, width
    return Drawing("image/jpeg", width, height, b"".join(kept))


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(marker, from, to) of each; the last one is the scan with all that follows."""
    at = 2
    while True:
        if data[at] != 0xFF:
            raise NotAPicture("its parts do not follow each other")
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if marker == 0xDA:
            yield marker, at, len(data)
            return
        (size,) = struct.unpack_from(">H", data, at + 2)
        if size < 2 or at + 2 + size > len(data):
            raise NotAPicture("it ends too soon")
        yield marker, at, at + 2 + size
        at += 2 + size


_ORIENTED: Final = bytes.fromhex(
    "ffe1 0022 457869660000 4d4d002a00000008 0001 0112 0003 00000001 00"
)
"""An EXIF segment that tells the orientation (next byte) and nothing else."""


def _orientation(exif: bytes) -> int | None:
    """1 to 8 (EXIF 2.32, 4.6.4); None where it says nothing."""
    order = {b"Exif\0\0II*\0": "<", b"Exif\0\0MM\0*": ">"}.get(exif[:10])
    if order is None:
        return None
    tiff = exif[6:]
    (first,) = struct.unpack_from(f"{order}I", tiff, 4)
    (count,) = struct.unpack_from(f"{order}H", tiff, first)
    for n in range(min(count, 64)):
        tag, _, _, value = struct.unpack_from(f"{order}HHIH", tiff, first + 2 + 12 * n)
        if tag == 0x0112:
            return value if 1 <= value <= 8 else None
    return None


def _webp(data: bytes) -> Drawing:
    kept, at, size = [], 12, (0, 0)
    end = min(len(data), 8 + struct.unpack_from("<I", data, 4)[0])
    while at + 8 <= end:
        kind, length = struct.unpack_from("<4sI", data, at)
        body, after = at + 8, at + 8 + length + length % 2
        if body + length > len(data):
            raise NotAPicture("it ends too soon")
        chunk = data[at:after]
        if kind == b"VP8X":
            wide = int.from_bytes(data[body + 4 : body + 7], "little") + 1
            size = wide, int.from_bytes(data[body + 7 : body + 10], "little") + 1
            chunk = chunk[:8] + bytes([chunk[8] & ~0x0C]) + chunk[9:]  # no EXIF, no XMP
        elif kind == b"VP8 " and size == (0, 0):
            wide, high = struct.unpack_from("<HH", data, body + 6)
            size = wide & 0x3FFF, high & 0x3FFF
        elif kind == b"VP8L" and size == (0, 0):
            (bits,) = struct.unpack_from("<I", data, body + 1)
            size = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        if kind not in (b"EXIF", b"XMP "):
            kept.append(chunk)
        at = after
    whole = b"WEBP" + b"".join(kept)
    return Drawing("image/webp", *size, b"RIFF" + struct.pack("<I", len(whole)) + whole)
