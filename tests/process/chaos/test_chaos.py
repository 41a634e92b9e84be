"""A minute and a half of `make chaos`, and the parts of it that could be wrong themselves."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay.fold import text_sha256
from relay.wire.sse import Frame
from tests.process.chaos.expected import Ended, text_faults, wrong_end
from tests.process.chaos.ground import MEMORY_ERROR
from tests.process.chaos.ledger import Asked, Happened, Script
from tests.process.chaos.recovery import recoveries, told
from tests.process.chaos.run import Plan, run
from tests.process.chaos.schedule import FAULTS, Kind, Step, schedule
from tests.process.chaos.slot import Slot
from tests.process.chaos.stream import Dechunker
from tests.process.chaos.watch import Watch

SEED = 2
FAULTS_S = 90.0


@pytest.mark.process
@pytest.mark.chaos
@pytest.mark.timeout(400)
async def test_nothing_is_lost_repeated_or_stuck_whatever_breaks() -> None:
    outcome = await run(Plan(seed=SEED, faults_s=FAULTS_S))
    print(outcome.report)
    assert outcome.clean, outcome.report


def test_a_seed_is_a_schedule_and_soon_has_every_kind() -> None:
    counts = {"worker": 2, "web": 2}
    steps = schedule(SEED, FAULTS_S, counts)
    assert steps == schedule(SEED, FAULTS_S, counts) != schedule(3, FAULTS_S, counts)
    assert {step.kind for step in steps} == set(Kind)


def test_no_two_faults_touch_the_same_thing_at_once() -> None:
    for seed in range(50):
        steps = schedule(seed, 300, {"worker": 2, "web": 2})
        by_target: dict[tuple[str, int], list[Step]] = {}
        for step in steps:
            by_target.setdefault((FAULTS[step.kind].on, step.target), []).append(step)
        for following in by_target.values():
            for before, after in itertools.pairwise(following):
                assert after.at_s >= before.at_s + before.lasts_s


def frame(seq: int, kind: str = "text.delta", **data: Any) -> Frame:
    if kind == "text.delta":
        data.setdefault("delta", f"{seq} ")
    if kind == "ended":
        data.setdefault("epoch", 5)
        data.setdefault("text_sha256", text_sha256("".join(f"{n} " for n in range(1, seq))))
    event = {"type": kind, "seq": seq, **data}
    return Frame(data=json.dumps(event), event=kind, id=str(seq))


def fed(*frames: Frame) -> list[str]:
    watch = Watch("v")
    for each in frames:
        watch.feed(each)
    return [column for column, _ in watch.faults]


def test_a_viewer_notices_everything_that_must_not_happen() -> None:
    one, two, three, end = frame(1), frame(2), frame(3), frame(4, "ended")
    snapshot = frame(4, "snapshot", epoch=5, text="1 2 3 ", status="completed")
    assert fed(one, two, three, end) == []
    assert fed(one, snapshot, end) == []
    assert fed(one, three)[:1] == ["lost"]
    assert fed(one, two, two) == ["repeated"]
    assert fed(one, three, two) == ["lost", "reordered"]
    assert fed(one, two, three, end, frame(5)) == ["after end"]
    assert fed(one, two, three, end, end) == ["second ends"]
    assert fed(one, two, three, frame(4, "ended", text_sha256="0")) == ["lost"]


ASKED = Asked("r1", Script("say", 4), None, asked_unix_s=99.0, accepted_unix_s=101.0)
END = Ended("completed", None, "r1.1.1 r1.1.2 r1.1.3 r1.1.4", 1, 100.0, 110.0)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (END.text, []),
        ("r1.1.1 r1.1.2 r1.1.3", ["lost"]),
        ("r1.1.1 r1.1.3 r1.1.4 r1.1.5", ["lost"]),
        ("r1.1.1 r1.1.2 r1.1.2 r1.1.3", ["repeated"]),
        ("r1.1.2 r1.1.1 r1.1.3 r1.1.4", ["reordered"]),
        ("r1.1.1 r1.1.2 r1.2.3 r1.2.4", ["repeated"]),
        ("r1.1.1 r1.1.2 r2.1.3 r1.1.4", ["reordered"]),
    ],
)
def test_a_text_is_judged_by_the_words_of_its_script(text: str, columns: list[str]) -> None:
    found = text_faults(ASKED, replace(END, text=text), {1: 4, 2: 4})
    assert [column for column, _ in found] == columns


def test_an_answer_has_no_more_words_than_were_sent() -> None:
    assert text_faults(ASKED, END, {1: 3}) != []


def test_an_end_needs_a_cause() -> None:
    killed = Happened(Step(5, Kind.WORKER_KILL, 0, 1.0), 104.0, 105.0)
    long_ago = replace(killed, start_s=1.0, end_s=2.0)
    lost = replace(END, status="interrupted", reason="worker_lost")
    assert wrong_end(ASKED, END, [], 60) is None
    assert wrong_end(ASKED, lost, [killed], 60) is None
    assert wrong_end(ASKED, lost, [long_ago], 60) is not None
    assert wrong_end(ASKED, replace(END, status="cancelled", reason="user"), [killed], 60)


def test_a_cause_may_seem_to_come_a_moment_after_its_end() -> None:
    """Seed 17, r45: the store's clock was heard over a slow network."""
    full = Happened(Step(5, Kind.REDIS_FULL, 0, 1.0), END.ended_s + 0.2, END.ended_s + 1.2)
    cut_off = replace(END, status="incomplete", reason="log_limit")
    assert wrong_end(ASKED, cut_off, [full], 60) is None
    later = replace(full, start_s=END.ended_s + 5, end_s=END.ended_s + 6)
    assert wrong_end(ASKED, cut_off, [later], 60) is not None


def test_a_rescue_is_timed_by_claims_and_late_only_without_a_second_fault() -> None:
    killed = Happened(Step(5, Kind.WORKER_KILL, 0, 1.0), 104.0, 105.0, {"rid": 104.0})
    (taken_over,) = recoveries("r1", "rid", [90.0, 108.0], 130.0, [killed])
    assert (taken_over.took_s, taken_over.late) == (4.0, False)
    (alone,) = recoveries("r1", "rid", [90.0], 113.0, [killed])
    assert (alone.took_s, alone.late, alone.second) == (9.0, True, frozenset())
    assert "1 over 8 s, which met: nothing else 1" in told([alone])
    away = Happened(Step(6, Kind.DB_AWAY, 0, 1.0), 106.0, 107.0)
    after_the_bound = replace(away, start_s=112.5, end_s=112.8)
    harmless = replace(away, step=Step(6, Kind.WEB_KILL, 0, 1.0))
    (met,) = recoveries("r1", "rid", [90.0], 113.0, [killed, away, after_the_bound, harmless])
    assert met.second == {Kind.DB_AWAY}
    (unmet,) = recoveries("r1", "rid", [90.0], 113.0, [killed, after_the_bound, harmless])
    assert unmet.second == frozenset()
    assert list(recoveries("r1", "rid", [90.0], 103.0, [killed])) == [], "it was over before"


def test_a_worker_that_wakes_up_is_a_live_writer_unless_it_was_replaced() -> None:
    slept = Happened(Step(5, Kind.WORKER_PAUSE, 0, 2.0), 104.0, 106.0, {"rid": 104.0})
    (went_on,) = recoveries("r1", "rid", [90.0], 120.0, [slept])
    assert went_on.took_s == 2.0
    (replaced,) = recoveries("r1", "rid", [90.0, 109.0], 120.0, [slept])
    assert replaced.took_s == 5.0


async def test_a_process_that_wants_too_much_memory_falls_and_is_noticed(tmp_path: Path) -> None:
    argv = ["-c", "print('begun', flush=True); held = bytearray(2**29)"]
    slot = Slot("greedy", argv, {}, tmp_path / "log", max_bytes=2**28)
    try:
        slot.start()
        assert await slot.left(10) == 1
        assert "MemoryError" in slot.log.read_text()
        assert (slot.fell(), slot.fell()) == (1, None)
    finally:
        slot.kill()


def test_a_record_has_the_times_of_the_clock_on_the_wall() -> None:
    hour_s = 3600
    ahead = replace(END, created_s=END.created_s + hour_s, ended_s=END.ended_s + hour_s)
    assert "created 3601.0 s after" in (wrong_end(ASKED, ahead, [], 60) or "")
    assert wrong_end(ASKED, replace(END, created_s=END.created_s - hour_s), [], 60) is not None
    assert wrong_end(ASKED, replace(END, ended_s=END.ended_s - hour_s), [], 60) is not None
    early = replace(END, status="failed", reason="wall_clock")
    assert wrong_end(ASKED, early, [], 60) is not None
    assert wrong_end(ASKED, replace(early, ended_s=160.0), [], 60) is None


def test_redis_without_memory_is_not_a_process_without_memory() -> None:
    log = (
        "redis.exceptions.OutOfMemoryError: command not allowed\n  | MemoryError\nMemoryError: x\n"
    )
    assert len(MEMORY_ERROR.findall(log)) == 2


def test_chunks_may_be_cut_anywhere() -> None:
    wire = b"5\r\nhello\r\n1\r\n \r\n6\r\nworld\n\r\n0\r\n\r\n"
    for size in range(1, len(wire) + 1):
        chunked = Dechunker()
        parts = [wire[at : at + size] for at in range(0, len(wire), size)]
        assert b"".join(chunked.feed(part) for part in parts) == b"hello world\n"
        assert chunked.ended
