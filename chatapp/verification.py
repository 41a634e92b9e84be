"""Is the trail what was sealed? Seals and entries come in, findings go out, each with its place.

Pure, and in constant memory: both are read once, side by side. Of an edit, a removal, an insertion
or a swap the entry is named; behind it the stored links are the measure again, so that one wrong
entry does not make all later ones wrong. A link that was changed is told from a changed entry by
the link that follows it.

Whoever can write the whole database can make a new chain: only a link that was noted elsewhere
tells the two apart, and only it shows that the end of the chain was cut off together with the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from chatapp.chain import LINK_BYTES, Entry, Head, Seal, link, seal_link

STRIDE: Final = 100_000
"""Ids further ahead than this are looked up: one wild id must not lead past all the others."""
_LAST_ID: Final = 2**63


class Finding(NamedTuple):
    what: str
    """A sentence."""
    position: int | None = None
    """In the chain."""
    entry_id: int | None = None
    seal: int | None = None


class Verification:
    """One reading of chain and trail. Iterate over `findings`; then the numbers are complete.

    Args:
        seals: from one on, by number.
        entries: by id, those behind `floor`.
        by_id: entries of the trail by their ids, in any order.
        head: what the sealer has noted.
        begin: the chain before the first of `seals`; by default its beginning.
        floor: the highest id that a seal before holds.
        noted: a link that somebody has kept elsewhere, to be looked for.
    """

    def __init__(
        self,
        seals: Iterable[Seal],
        entries: Iterable[Entry],
        by_id: Callable[[Sequence[int]], Iterable[Entry]],
        head: Head,
        *,
        begin: Head | None = None,
        floor: int = 0,
        noted: bytes = b"",
    ) -> None:
        begin = begin or Head()
        self._seals = seals
        self._entries = iter(entries)
        self._by_id = by_id
        self._noted = noted
        self._head = head
        self._number = begin.number
        self._before: bytes | None = begin.link
        self._doubt: tuple[Finding, Finding, bytes] | None = None
        """Of the last link: the finding if what it covers was changed, the one if the link itself
        was, and what the link should be. The next link decides."""
        self._floor = floor
        self._ahead: set[int] = set()
        self._strangers: set[int] = set()
        self._next: Entry | None = None
        self._last_id: int | None = None
        self._twice: list[int] = []
        self.position = begin.position
        """Of the last entry that was looked at."""
        self.link = begin.link
        """The last one that was read."""
        self.verified = 0
        """Entries that are what was sealed."""
        self.unsealed = 0
        """Entries that wait for their seal."""
        self.noted_at: int | None = None
        """The position of `noted`."""

    def findings(self) -> Iterator[Finding]:
        """In the order of the chain; then what stands outside it."""
        self._look(self.link)
        for seal in self._seals:
            yield from self._of(seal)
        yield from self._settle(self._head.link)
        yield from self._end()
        yield from self._outside()

    def _of(self, seal: Seal) -> Iterator[Finding]:
        number, first, _, ids, links, lowest, highest = seal
        if number != self._number + 1:
            yield from self._settle()
            lost = f"seal {self._number + 1}"
            if number > self._number + 2:
                lost = f"seals {self._number + 1} to {number - 1}"
            text = f"{lost}: removed, with positions {self.position + 1} to {first - 1}"
            yield Finding(text, self.position + 1, seal=self._number + 1)
            self._before, self.position = None, first - 1
        self._number = number
        if first != self.position + 1:
            text = f"seal {number}: begins at position {first} instead of {self.position + 1}"
            yield Finding(text, self.position + 1, seal=number)
        if not ids or len(links) != LINK_BYTES * (len(ids) + 1):
            yield from self._settle()
            text = f"seal {number}: changed, it has {len(ids)} entries and {len(links)} bytes"
            yield Finding(text, first, seal=number)
            self._before = None
            self.position = first + max(len(ids), 1) - 1
            return
        if (lowest, highest) != (min(ids), max(ids)):
            text = f"seal {number}: the range of its entries was changed"
            yield Finding(text, first, seal=number)
        self._noted_in(seal)
        if self._before is not None:
            expected = seal_link(self._before, number, first, len(ids), seal.sealed_us)
            yield from self._judge(
                expected,
                links[:LINK_BYTES],
                lambda alt: seal_link(alt, number, first, len(ids), seal.sealed_us),
                Finding(f"seal {number}: its numbers or its time were changed", first, seal=number),
                Finding(f"seal {number}: its own link was changed", first, seal=number),
            )
        yield from self._entries_of(seal)
        self.position = first + len(ids) - 1
        self.link = seal.last_link

    def _entries_of(self, seal: Seal) -> Iterator[Finding]:
        here = self._fetch(seal.entry_ids)
        before, position, links = seal.links[:LINK_BYTES], seal.first, seal.links
        at = LINK_BYTES
        for entry_id in seal.entry_ids:
            stored = links[at : at + LINK_BYTES]
            entry = here.get(entry_id)
            if entry is None:
                yield from self._settle()
                text = f"position {position}: entry {entry_id} was removed"
                yield Finding(text, position, entry_id, seal.number)
            else:
                expected = link(before, position, entry)
                if expected == stored and self._doubt is None:
                    self.verified += 1
                else:
                    yield from self._judge_entry(seal, position, entry, expected, stored)
            before = stored
            position += 1
            at += LINK_BYTES
        self._before = before

    def _judge_entry(
        self, seal: Seal, position: int, entry: Entry, expected: bytes, stored: bytes
    ) -> Iterator[Finding]:
        where = f"position {position}, entry {entry.id}"
        yield from self._judge(
            expected,
            stored,
            lambda alt: link(alt, position, entry),
            Finding(f"{where}: it was changed or moved", position, entry.id, seal.number),
            Finding(f"{where}: its link was changed", position, entry.id, seal.number),
        )
        if self._doubt is None:
            self.verified += 1

    def _judge(
        self,
        expected: bytes,
        stored: bytes,
        anew: Callable[[bytes], bytes],
        changed: Finding,
        link_changed: Finding,
    ) -> Iterator[Finding]:
        if expected == stored:
            yield from self._settle()
        elif self._doubt is not None and anew(self._doubt[2]) == stored:
            yield self._doubt[1]
            self._doubt = None
        else:
            yield from self._settle()
            self._doubt = changed, link_changed, expected

    def _settle(self, actual: bytes | None = None) -> Iterator[Finding]:
        if self._doubt is not None:
            changed, link_changed, expected = self._doubt
            yield link_changed if expected == actual else changed
            self._doubt = None

    def _fetch(self, ids: tuple[int, ...]) -> dict[int, Entry]:
        """What of `ids` is there. What the trail has between them stands outside, so far."""
        reach = self._floor + STRIDE
        above = {i for i in ids if self._floor < i <= reach}
        others = [i for i in ids if i not in above]
        here: dict[int, Entry] = {}
        if above:
            self._floor = max(above)
            for entry in self._up_to(self._floor):
                if entry.id in above:
                    here[entry.id] = entry
                elif entry.id in self._ahead:
                    self._ahead.discard(entry.id)
                else:
                    self._strangers.add(entry.id)
        if others:
            found = {entry.id: entry for entry in self._by_id(others)}
            self._strangers.difference_update(found)
            self._ahead.update(i for i in found if i > self._floor)
            here |= found
        return here

    def _up_to(self, last: int) -> Iterator[Entry]:
        while True:
            entry = self._next or next(self._entries, None)
            self._next = entry
            if entry is None or entry.id > last:
                return
            self._next = None
            if self._last_id is not None and entry.id <= self._last_id:
                self._twice.append(entry.id)
            self._last_id = entry.id
            yield entry

    def _end(self) -> Iterator[Finding]:
        head = self._head
        if (self._number, self.position) != (head.number, head.position):
            text = (
                f"the chain ends at position {self.position} (seal {self._number}), "
                f"but it was sealed up to {head.position} (seal {head.number})"
            )
            yield Finding(text, self.position + 1, seal=self._number + 1)
        elif self.link != head.link:
            yield Finding("the noted end of the chain is not its last link", self.position)
        if self._noted and self.noted_at is None:
            yield Finding("the given link is not in the chain: its end was cut off, or it is new")

    def _outside(self) -> Iterator[Finding]:
        for entry in self._up_to(_LAST_ID):
            if entry.id in self._ahead:
                continue
            if self._head.awaits(entry.id):
                self.unsealed += 1
            else:
                self._strangers.add(entry.id)
        for entry_id in self._twice:
            yield Finding(f"entry {entry_id}: is there twice, or out of order", None, entry_id)
        waiting = {i for i in self._strangers if self._head.awaits(i)}
        self.unsealed += len(waiting)
        for first, last in _runs(sorted(self._strangers - waiting)):
            which = f"entry {first}" if first == last else f"entries {first} to {last}"
            yield Finding(f"{which}: in no seal, put in behind the chain's back", None, first)

    def _noted_in(self, seal: Seal) -> None:
        at = seal.links.find(self._noted) if self._noted else -1
        while at >= 0 and at % LINK_BYTES:
            at = seal.links.find(self._noted, at + 1)
        if at >= 0:
            self.noted_at = seal.first + at // LINK_BYTES - 1

    def _look(self, link: bytes) -> None:
        if self._noted and link == self._noted:
            self.noted_at = self.position


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if last is not None and first is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = number
    if first is not None and last is not None:
        yield first, last
