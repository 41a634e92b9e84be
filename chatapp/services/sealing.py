"""Sealing: entries of the trail become part of its chain, in batches, outside requests.

Every process sweeps, and the one that gets the head's lock seals. What an entry costs a question is
its insert, as before. Ids are given before commits are made, so a lower id may be seen later than a
higher one: ids that were passed over are kept with the head and asked for again (PROTOCOL 16).
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db import transaction
from django.utils import timezone

from chatapp import chain
from chatapp.entries import entries_between, microseconds, next_entries
from chatapp.finalize import database_errors
from chatapp.middleware.group_commit import write_turn
from chatapp.middleware.threads import on_database_thread
from chatapp.models import AuditEvent, AuditHead, AuditSeal
from chatapp.statements import insert

if TYPE_CHECKING:
    from chatapp.chain import Entry

logger = logging.getLogger(__name__)

BATCH: Final = 1_000
"""Entries of a seal: 10 ms of SQLite's one writer, and 40 bytes each."""
BATCHES_PER_SWEEP: Final = 20
MISSED_FOR_US: Final = 24 * 3600 * 1_000_000
"""How long an id that was passed over is asked for. No transaction here lives for a day; an entry
that comes later was put in, and `audit_verify` says so."""
MOST_MISSING: Final = 500
"""Ranges. A database that leaves more of them in a day is looked at by `audit_verify`."""
NOTED_EVERY_S: Final = 3600.0
"""How often the head goes into the log, which is kept elsewhere than the database."""

Missing = list[list[int]]


class Backlog(NamedTuple):
    """What waits for its seal, and where the chain ends."""

    unsealed: int
    oldest_age_s: float
    """Of the oldest entry that waits; 0 where none does."""
    position: int
    head: str
    """The last link, in hex: note it elsewhere, and `audit_verify --head` looks for it."""


class Sealing:
    """For the sweep; one per process, which remembers when it noted the head last."""

    def __init__(self) -> None:
        self._noted_s = -NOTED_EVERY_S
        self._noted = 0

    async def __call__(self) -> int:
        """Seal what is there, a bounded number of batches; how many entries. Safe to repeat.

        Raises RecordUnavailable.
        """
        sealed = 0
        for _ in range(BATCHES_PER_SWEEP):
            count = await seal_batch()
            sealed += count
            if not count:
                break
        if time.monotonic() - self._noted_s > NOTED_EVERY_S:
            await self._note()
        return sealed

    async def _note(self) -> None:
        self._noted_s = time.monotonic()
        now = await backlog()
        if now.position > self._noted:
            logger.info("audit trail: sealed to position %s, head %s", now.position, now.head)
            self._noted = now.position


@on_database_thread
def seal_batch() -> int:
    """One seal, if there is anything to seal and nobody else is at it; how many entries."""
    with database_errors(), write_turn(), transaction.atomic():
        row = _lock()
        return _seal(row) if row is not None else 0


@on_database_thread
def backlog() -> Backlog:
    """For metrics, health and pages. Cheap, unless millions wait. Raises RecordUnavailable."""
    with database_errors():
        row = AuditHead.objects.first() or AuditHead()
        waiting = AuditEvent.objects.filter(pk__gt=row.entry_id)
        count, oldest = waiting.count(), waiting.order_by("pk").values_list("at", flat=True).first()
    age_s = max(0.0, (timezone.now() - oldest).total_seconds()) if oldest else 0.0
    return Backlog(count, age_s, row.position, bytes(row.link).hex())


def _lock() -> AuditHead | None:
    """The head, locked until the end of the transaction; None while somebody else has it.

    SQLite locks the whole database for a transaction that writes; nobody else is there.
    """
    row = AuditHead.objects.select_for_update(skip_locked=True).first()
    if row is not None or AuditHead.objects.exists():
        return row
    # The first time; or somebody has removed the note: the seals are what counts.
    AuditHead.objects.get_or_create(pk=AuditHead.ONE, defaults=_noted())
    return AuditHead.objects.select_for_update(skip_locked=True).first()


def _noted() -> dict[str, Any]:
    last = AuditSeal.objects.order_by("number").last()
    if last is None:
        return {}
    highest = AuditSeal.objects.order_by("highest_id").last()
    plain = last.plain()
    return {
        "number": last.number,
        "position": last.first + len(plain.entry_ids) - 1,
        "link": plain.last_link,
        "entry_id": highest.highest_id if highest else 0,
    }


def _seal(row: AuditHead) -> int:
    now_us = microseconds(timezone.now())
    late = _late(row, now_us)
    entries = late or next_entries(row.entry_id, BATCH)
    if not entries:
        return 0
    if not late:
        row.missing += _passed_over(row.entry_id, entries, now_us)
        row.entry_id = entries[-1].id
        del row.missing[:-MOST_MISSING]
    sealed = chain.seal(row.plain(), entries, now_us)
    insert(
        AuditSeal(
            number=sealed.number,
            first=sealed.first,
            sealed_us=now_us,
            lowest_id=sealed.lowest,
            highest_id=sealed.highest,
            entry_ids=chain.pack_ids(sealed.entry_ids),
            links=sealed.links,
        )
    )
    row.number, row.link, row.sealed_us = sealed.number, sealed.last_link, now_us
    row.position += len(entries)
    row.save()
    return len(entries)


def _late(row: AuditHead, now_us: int) -> list[Entry]:
    """Entries with ids that were passed over, and the note of what is still missing."""
    row.missing = [gap for gap in row.missing if now_us - gap[2] < MISSED_FOR_US]
    left: Missing = []
    found: list[Entry] = []
    for lo, hi, since_us in row.missing:
        here = entries_between(lo, hi, BATCH) if len(found) < BATCH else []
        found += here
        left += [[a, b, since_us] for a, b in _without(lo, hi, [entry.id for entry in here])]
    row.missing = left
    return found


def _passed_over(after: int, entries: list[Entry], now_us: int) -> Missing:
    last = entries[-1].id
    return [[a, b, now_us] for a, b in _without(after + 1, last, [e.id for e in entries])]


def _without(lo: int, hi: int, there: list[int]) -> list[tuple[int, int]]:
    """The ranges of lo to hi that are left without `there`, which rises."""
    gaps = []
    for number in [*there, hi + 1]:
        if number > lo:
            gaps.append((lo, number - 1))
        lo = number + 1
    return gaps
