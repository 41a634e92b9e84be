"""The chain without a database: whatever one change is made to rows, it is found, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp import chain
from chatapp.chain import BEGINNING, LINK_BYTES, Entry, Head, Seal, link, pack_ids, unpack_ids
from chatapp.verification import STRIDE, Finding, Verification

if TYPE_CHECKING:
    from collections.abc import Sequence

FIELDS = Entry._fields


@dataclass
class Trail:
    entries: list[Entry]
    """By id."""
    seals: list[Seal]
    head: Head

    def check(self, *, noted: bytes = b"") -> tuple[Verification, list[Finding]]:
        def by_id(ids: Sequence[int]) -> list[Entry]:
            return [entry for entry in self.entries if entry.id in ids]

        check = Verification(self.seals, self.entries, by_id, self.head, noted=noted)
        return check, list(check.findings())

    def sealed(self) -> list[tuple[int, int]]:
        """Position and id of each sealed entry."""
        return [
            (position, entry_id)
            for one in self.seals
            for position, entry_id in enumerate(one.entry_ids, start=one.first)
        ]


def entry(number: int, text: bytes = b"x") -> Entry:
    return Entry(number, b"%d" % number, text, b"created", b"r", b"ann", b"fast", b"", b"{}")


def trail(batches: Sequence[Sequence[int]], *, unsealed: int = 0, text: bytes = b"x") -> Trail:
    """Entries with these ids, sealed in these batches; the ids that are no id come later."""
    head, seals = Head(), []
    entries = [entry(number, text) for batch in batches for number in batch]
    for batch in batches:
        rows = [entry(number, text) for number in batch]
        one = chain.seal(head, rows, 1_000_000 * (head.number + 1))
        seals.append(one)
        highest = max(head.entry_id, one.highest)
        head = Head(one.number, head.position + len(rows), one.last_link, highest)
    entries += [entry(head.entry_id + n) for n in range(1, unsealed + 1)]
    return Trail(sorted(entries), seals, head)


@st.composite
def trails(draw: st.DrawFn) -> Trail:
    """Ids with gaps, some of which are filled by entries that were committed late."""
    count = draw(st.integers(1, 24))
    steps = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    ids = [sum(steps[: n + 1]) for n in range(count)]
    batches: list[list[int]] = []
    while ids:
        size = draw(st.integers(1, 6))
        batches.append(ids[:size])
        ids = ids[size:]
    late = [
        i
        for i in draw(st.sets(st.integers(1, 60)))
        if i < max(batches[-1]) and all(i not in batch for batch in batches)
    ]
    if late:
        batches.insert(draw(st.integers(1, len(batches))), late)
        known = 0  # a late batch comes behind those that are beyond it
        ordered = [batch for batch in batches if batch is not late]
        for where, batch in enumerate(ordered):
            known = max(known, *batch)
            if known > max(late):
                ordered.insert(where + 1, late)
                break
        batches = ordered
    return trail(batches, unsealed=draw(st.integers(0, 3)), text=draw(st.binary(max_size=5)))


@given(trails())
def test_what_was_sealed_is_found_to_be_so(rows: Trail) -> None:
    check, findings = rows.check(noted=rows.seals[0].last_link)
    assert findings == []
    assert check.verified == len(rows.sealed()) == check.position
    assert check.unsealed == len(rows.entries) - check.verified
    assert check.link == rows.head.link
    assert check.noted_at == len(rows.seals[0].entry_ids)


@given(trails(), st.data())
def test_an_edit_is_found_at_its_entry(rows: Trail, data: st.DataObject) -> None:
    position, entry_id = data.draw(st.sampled_from(rows.sealed()))
    at = next(n for n, one in enumerate(rows.entries) if one.id == entry_id)
    field = data.draw(st.sampled_from(FIELDS[1:]))
    value: bytes = getattr(rows.entries[at], field)
    other = data.draw(st.binary(max_size=6).filter(lambda given: given != value))
    change: Any = {field: other}
    rows.entries[at] = rows.entries[at]._replace(**change)
    _, findings = rows.check()
    assert [(one.position, one.entry_id) for one in findings] == [(position, entry_id)]
    assert "changed" in findings[0].what


@given(trails(), st.data())
def test_a_removal_is_found_at_its_entry(rows: Trail, data: st.DataObject) -> None:
    position, entry_id = data.draw(st.sampled_from(rows.sealed()))
    rows.entries = [one for one in rows.entries if one.id != entry_id]
    _, findings = rows.check()
    assert [(one.position, one.entry_id) for one in findings] == [(position, entry_id)]
    assert "removed" in findings[0].what


@given(trails(), st.data())
def test_two_entries_that_changed_places_are_both_found(rows: Trail, data: st.DataObject) -> None:
    sealed = rows.sealed()
    if len(sealed) < 2:
        return
    pair = data.draw(st.lists(st.sampled_from(sealed), min_size=2, max_size=2, unique=True))
    a, b = ([one.id for one in rows.entries].index(entry_id) for _, entry_id in pair)
    one, other = rows.entries[a], rows.entries[b]
    rows.entries[a] = other._replace(id=one.id)
    rows.entries[b] = one._replace(id=other.id)
    _, findings = rows.check()
    assert sorted((one.position or 0, one.entry_id or 0) for one in findings) == sorted(pair)


@given(trails(), st.data())
def test_an_id_that_was_changed_is_a_removal_and_an_insertion(
    rows: Trail, data: st.DataObject
) -> None:
    position, entry_id = data.draw(st.sampled_from(rows.sealed()))
    there = {one.id for one in rows.entries}
    free = st.integers(-5, rows.head.entry_id).filter(
        lambda given: given > 0 and given not in there
    )
    if there >= set(range(1, rows.head.entry_id + 1)):
        return
    other = data.draw(free)
    rows.entries = sorted(
        one._replace(id=other) if one.id == entry_id else one for one in rows.entries
    )
    _, findings = rows.check()
    assert {(one.position, one.entry_id) for one in findings} == {
        (position, entry_id),
        (None, other),
    }


@given(trails(), st.data())
def test_an_insertion_is_found_unless_its_place_is_awaited(
    rows: Trail, data: st.DataObject
) -> None:
    there = {one.id for one in rows.entries}
    gaps = sorted(set(range(1, rows.head.entry_id)) - there)
    if not gaps:
        return
    number = data.draw(st.sampled_from(gaps))
    rows.entries = sorted([*rows.entries, entry(number)])
    _, findings = rows.check()
    assert [(one.position, one.entry_id) for one in findings] == [(None, number)]
    rows.head = rows.head._replace(missing=((number, number),))
    check, findings = rows.check()
    assert findings == []
    assert check.unsealed == len(rows.entries) - len(rows.sealed())


@given(trails(), st.data())
def test_an_entry_that_is_there_twice_is_found(rows: Trail, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(range(len(rows.entries))))
    rows.entries.insert(at, rows.entries[at])
    _, findings = rows.check()
    assert [one.entry_id for one in findings] == [rows.entries[at].id]
    assert "twice" in findings[0].what


@given(trails(), st.data())
def test_a_byte_of_a_link_is_found_and_told_from_an_edit(rows: Trail, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(range(len(rows.seals))))
    one = rows.seals[at]
    byte = data.draw(st.integers(0, len(one.links) - 1))
    changed = bytearray(one.links)
    changed[byte] ^= data.draw(st.integers(1, 255))
    rows.seals[at] = one._replace(links=bytes(changed))
    _, findings = rows.check()
    which = byte // LINK_BYTES
    entry_id = one.entry_ids[which - 1] if which else None
    assert [(one.seal, one.entry_id) for one in findings[:1]] == [(one.number, entry_id)]
    assert "link was changed" in findings[0].what
    # The head has the last link as well.
    last = at == len(rows.seals) - 1 and which == len(one.entry_ids)
    assert len(findings) == 1 + last


@given(trails(), st.data())
def test_a_change_of_a_seal_is_found_at_it(rows: Trail, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(range(len(rows.seals))))
    one = rows.seals[at]
    field = data.draw(st.sampled_from(("first", "sealed_us", "lowest", "highest", "entry_ids")))
    if field == "entry_ids":
        ids = list(one.entry_ids)
        ids[data.draw(st.integers(0, len(ids) - 1))] ^= 1 << data.draw(st.integers(0, 62))
        rows.seals[at] = one._replace(entry_ids=tuple(ids))
    else:
        value = getattr(one, field) + data.draw(st.integers(1, 1000))
        rows.seals[at] = one._replace(**{field: value})
    _, findings = rows.check()
    assert one.number in {found.seal for found in findings}


@given(trails(), st.data())
def test_a_removed_seal_is_found_and_so_are_its_entries(rows: Trail, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(range(len(rows.seals))))
    gone = rows.seals.pop(at)
    _, findings = rows.check()
    assert (gone.first, gone.number) in {(one.position, one.seal) for one in findings}


@given(trails(), st.data())
def test_seals_in_another_order_are_found(rows: Trail, data: st.DataObject) -> None:
    if len(rows.seals) < 2:
        return
    a = data.draw(st.integers(0, len(rows.seals) - 2))
    one, other = rows.seals[a : a + 2]
    rows.seals[a] = other._replace(number=one.number)
    rows.seals[a + 1] = one._replace(number=other.number)
    _, findings = rows.check()
    assert one.number in {found.seal for found in findings}


@given(trails())
def test_an_end_that_was_cut_off_with_its_head_is_seen_by_a_noted_link_alone(rows: Trail) -> None:
    noted = rows.head.link
    gone = rows.seals.pop()
    last = rows.seals[-1].last_link if rows.seals else BEGINNING
    highest = max((one.highest for one in rows.seals), default=0)
    rows.head = Head(gone.number - 1, gone.first - 1, last, highest)
    rows.entries = [
        one for one in rows.entries if one.id <= highest and one.id not in gone.entry_ids
    ]
    _, findings = rows.check()
    assert findings == []
    _, findings = rows.check(noted=noted)
    assert len(findings) == 1
    assert "not in the chain" in findings[0].what


def test_an_end_that_was_cut_off_without_its_head_is_seen() -> None:
    rows = trail([[1, 2], [3]])
    rows.seals.pop()
    _, findings = rows.check()
    assert findings[0].position == 3
    assert "sealed up to 3" in findings[0].what


def test_one_wild_id_does_not_hide_the_others() -> None:
    rows = trail([[1, 2, 3], [4, 5, 6 + 2 * STRIDE], [7 + 2 * STRIDE]])
    check, findings = rows.check()
    assert (findings, check.verified) == ([], 7)
    rows.seals[0] = rows.seals[0]._replace(entry_ids=(1, 2**60, 3), highest=2**60)
    check, findings = rows.check()
    assert {(one.position, one.entry_id) for one in findings} == {(2, 2**60), (None, 2)}
    assert check.verified == 6


def test_no_text_can_be_taken_for_another() -> None:
    a = entry(1)._replace(actor=b"ab", action=b"c")
    assert link(BEGINNING, 1, a) != link(BEGINNING, 1, a._replace(actor=b"a", action=b"bc"))
    with_nul = a._replace(actor=b"a\0", action=b"c")
    assert link(BEGINNING, 1, with_nul) != link(BEGINNING, 1, a._replace(actor=b"a", action=b"\0c"))


def test_the_encoding_of_version_1_stays_as_it_is() -> None:
    """Changed by mistake, it would make every chain wrong that there is."""
    one = Entry(7, b"1", b"ann", b"ended", b"r", b"ann", b"m", b"completed", b'{"a":1}')
    assert link(BEGINNING, 1, one).hex() == (
        "71d27fde8120d98f0dd853862b2d0492d74ff462930f5ca6e6f44b819024cfaf"
    )
    assert chain.seal_link(BEGINNING, 1, 1, 1, 5).hex() == (
        "2465c41bf75b012b8a835bb24e59f23c1bc8663a950504912b9f331496d4f6fd"
    )


@pytest.mark.parametrize("ids", [(), (1,), (3, 1, -(2**63), 2**63 - 1)])
def test_ids_are_packed_and_unpacked(ids: tuple[int, ...]) -> None:
    assert unpack_ids(pack_ids(ids)) == ids
