"""What a row and its log call for, case by case."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from chatapp.services.diagnosis import Repair, Row, Sightings, diagnose

NOW = datetime(2026, 1, 1, tzinfo=UTC)
YOUNG = NOW - timedelta(seconds=29)
OLD = NOW - timedelta(seconds=31)
OVER = NOW - timedelta(seconds=66)


@dataclass
class Tail:
    seq: int
    ended: bool = False


ROW = Row(
    pk="r", status="queued", created_at=OLD, stop_wished=False, has_patience=False, total_s=60
)
STARTED = replace(ROW, status="in_progress")


@pytest.mark.parametrize(
    ("row", "tail", "first", "expected"),
    [
        (replace(ROW, created_at=YOUNG), None, False, []),
        (replace(ROW, created_at=YOUNG), None, True, [Repair.REMAKE]),
        (ROW, None, False, [Repair.REMAKE]),
        (replace(ROW, stop_wished=True), None, False, [Repair.REMAKE, Repair.STOP]),
        (STARTED, None, False, []),
        (STARTED, None, True, []),
        (ROW, Tail(1), False, []),
        (ROW, Tail(2), False, [Repair.MARK_STARTED]),
        (STARTED, Tail(9), False, []),
        (ROW, Tail(9, ended=True), False, []),
        (replace(STARTED, stop_wished=True), Tail(9), False, [Repair.STOP]),
        (replace(ROW, has_patience=True), Tail(1), False, [Repair.ASK_VIEWERS]),
        (replace(STARTED, has_patience=True), Tail(9), False, []),
        (replace(ROW, created_at=OVER), Tail(1), False, [Repair.EXPIRE]),
        (replace(STARTED, created_at=OVER), Tail(9), False, [Repair.EXPIRE]),
        (replace(STARTED, created_at=OVER, stop_wished=True), Tail(9), False, [Repair.STOP]),
        (replace(ROW, created_at=OVER), Tail(9, ended=True), False, []),
    ],
)
def test_one_look(row: Row, tail: Tail | None, first: bool, expected: list[Repair]) -> None:
    assert diagnose(row, tail, NOW, Sightings(), first=first) == expected


def test_an_end_that_nobody_records_is_recorded_after_ten_seconds() -> None:
    seen = Sightings()
    looks = [
        diagnose(STARTED, Tail(9, ended=True), NOW + timedelta(seconds=s), seen, first=False)
        for s in (0, 5, 9, 10, 15)
    ]
    assert looks == [[], [], [], [Repair.RECORD], [Repair.RECORD]]


def test_a_log_that_stays_away_is_given_up() -> None:
    seen = Sightings()
    looks = [
        diagnose(STARTED, None, NOW + timedelta(seconds=s), seen, first=False) for s in (0, 29, 30)
    ]
    assert looks == [[], [], [Repair.GIVE_UP]]


def test_a_log_that_its_writer_restored_is_not_lost() -> None:
    seen = Sightings()
    later = [NOW + timedelta(seconds=s) for s in (0, 20, 40)]
    diagnose(STARTED, None, later[0], seen, first=False)
    diagnose(STARTED, Tail(9), later[1], seen, first=False)
    assert diagnose(STARTED, None, later[2], seen, first=False) == []


def test_what_is_final_is_forgotten() -> None:
    seen = Sightings()
    diagnose(STARTED, None, NOW, seen, first=False)
    diagnose(replace(STARTED, pk="s"), Tail(9, ended=True), NOW, seen, first=False)
    seen.keep_only({"s"})
    assert (set(seen.logless), set(seen.ended)) == (set(), {"s"})
