"""Small pictures of each kind, as cameras and programs write them: with more in it than shows."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

SECRET = b"GPS 52.5N 13.4E by Ann"


def png(width: int = 3, height: int = 2, *, extra: bool = True) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    rows = b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height))
    told = [chunk(kind, SECRET) for kind in (b"tEXt", b"eXIf", b"tIME", b"iTXt")] if extra else []
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
            *told,
            chunk(b"IDAT", zlib.compress(rows)),
            chunk(b"IEND", b""),
            SECRET if extra else b"",
        ]
    )


def exif(orientation: int, order: str = "<") -> bytes:
    mark = b"II*\0" if order == "<" else b"MM\0*"
    entry = struct.pack(f"{order}HHIHH", 0x0112, 3, 1, orientation, 0)
    ifd = struct.pack(f"{order}H", 1) + entry + struct.pack(f"{order}I", 0)
    return b"Exif\0\0" + mark + struct.pack(f"{order}I", 8) + ifd + SECRET


def jpeg(width: int = 3, height: int = 2, *, orientation: int = 1, order: str = "<") -> bytes:
    def segment(marker: int, body: bytes) -> bytes:
        return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body

    frame = struct.pack(">BHHB", 8, height, width, 3) + bytes(9)
    return b"".join(
        [
            b"\xff\xd8",
            segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0"),
            segment(0xE1, exif(orientation, order)),
            segment(0xED, SECRET),
            segment(0xFE, SECRET),
            segment(0xE2, b"ICC_PROFILE\0"),
            segment(0xDB, bytes(65)),
            segment(0xC0, frame),
            segment(0xDA, bytes(10)),
            b"compressed\xff\x00more\xff\xd9",
        ]
    )


def webp(width: int = 3, height: int = 2) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)

    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBP" + b"".join(
        [
            chunk(b"VP8X", bytes([0x1C, 0, 0, 0]) + size),
            chunk(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"x"),
            chunk(b"EXIF", SECRET),
            chunk(b"XMP ", SECRET + b"!"),
        ]
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


def gif(width: int = 3, height: int = 2) -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0) + b";"


KINDS: dict[str, Callable[..., bytes]] = {
    "image/png": png,
    "image/jpeg": jpeg,
    "image/webp": webp,
    "image/gif": gif,
}
