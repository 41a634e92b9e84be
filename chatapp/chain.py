"""The hash chain over the audit trail: what the bytes of an entry are, and what seals them.

A link is the SHA-256 of the link before it, a position (1, 2, 3 …, the chain's own order) and the
entry. Entries are sealed in batches; a *seal* keeps the ids of its entries and every link, so that
a mistake is found at its entry, and the entries behind it are judged by themselves. A link over the
seal's own numbers comes first. Pure (PROTOCOL 16).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

BEGINNING: Final = sha256(b"unbroken audit chain 1").digest()
"""What stands before the first link."""
LINK_BYTES: Final = 32
_ENTRY: Final = struct.Struct(">BQq8I")
_SEAL: Final = struct.Struct(">BQQQq")
_IS_ENTRY, _IS_SEAL = 1, 2
"""First byte of what is hashed: a version of the encoding, and never one for the other."""


class Entry(NamedTuple):
    """An entry as the chain sees it: its id, and eight texts in UTF-8."""

    id: int
    at: bytes
    """Microseconds since 1970, in decimal."""
    actor: bytes
    action: bytes
    response_id: bytes
    username: bytes
    model: bytes
    status: bytes
    detail: bytes
    """JSON with sorted keys, without spaces."""


class Seal(NamedTuple):
    number: int
    """1, 2, 3 … without gaps."""
    first: int
    """Position of its first entry."""
    sealed_us: int
    """Microseconds since 1970."""
    entry_ids: tuple[int, ...]
    """In the order of the chain."""
    links: bytes
    """Its own, and then one for each entry."""
    lowest: int
    highest: int
    """Of its entries' ids: what finds the seal of an entry."""

    @property
    def last_link(self) -> bytes:
        return self.links[-LINK_BYTES:]


class Head(NamedTuple):
    """Where the chain ends, as whoever sealed last has noted it."""

    number: int = 0
    position: int = 0
    link: bytes = BEGINNING
    entry_id: int = 0
    """Highest id sealed so far. Higher ones are not sealed yet."""
    missing: tuple[tuple[int, int], ...] = ()
    """Ranges of lower ids that were not there: their transactions may still commit."""

    def awaits(self, entry_id: int) -> bool:
        """It may be there without a seal."""
        return entry_id > self.entry_id or any(lo <= entry_id <= hi for lo, hi in self.missing)


def link(before: bytes, position: int, entry: Entry) -> bytes:
    """All lengths come first, so no text can be taken for another, whatever is in it."""
    number, a, b, c, d, e, f, g, h = entry
    lengths = _ENTRY.pack(
        *(_IS_ENTRY, position, number),
        *(len(a), len(b), len(c), len(d), len(e), len(f), len(g), len(h)),
    )
    return sha256(b"".join((before, lengths, a, b, c, d, e, f, g, h))).digest()


def seal_link(before: bytes, number: int, first: int, count: int, sealed_us: int) -> bytes:
    return sha256(before + _SEAL.pack(_IS_SEAL, number, first, count, sealed_us)).digest()


def seal(head: Head, entries: Sequence[Entry], sealed_us: int) -> Seal:
    """The next seal behind `head`, over at least one entry."""
    number, first = head.number + 1, head.position + 1
    links = [seal_link(head.link, number, first, len(entries), sealed_us)]
    for position, entry in enumerate(entries, start=first):
        links.append(link(links[-1], position, entry))
    ids = tuple(entry.id for entry in entries)
    return Seal(number, first, sealed_us, ids, b"".join(links), min(ids), max(ids))


def pack_ids(entry_ids: Sequence[int]) -> bytes:
    return struct.pack(f">{len(entry_ids)}q", *entry_ids)


def unpack_ids(data: bytes) -> tuple[int, ...]:
    """What is left over at the end is ignored here; the number of links tells."""
    return struct.unpack_from(f">{len(data) // 8}q", data)
