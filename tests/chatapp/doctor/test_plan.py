"""What a probe sends, and how little it may cost."""

from __future__ import annotations

import json

import pytest

from chatapp.doctor import BadPlan, Plan

PROBE = "0123456789abcdef"


def test_a_plan_is_read_from_what_it_writes() -> None:
    for plan in (
        Plan(probe=PROBE),
        Plan(probe=PROBE, phase="quiet", silence_s=18.5),
        Plan(probe=PROBE, gap_ms=50, bare=True),
    ):
        assert Plan.read(plan.query) == plan


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"probe": "short"},
        {"probe": "with a space 123"},
        {"probe": PROBE, "phase": "flood"},
        {"probe": PROBE, "gap_ms": "1"},
        {"probe": PROBE, "gap_ms": "1001"},
        {"probe": PROBE, "gap_ms": "soon"},
        {"probe": PROBE, "silence_s": "91"},
        {"probe": PROBE, "silence_s": "0"},
        {"probe": PROBE, "silence_s": "nan"},
        {"probe": PROBE, "silence_s": "inf"},
    ],
    ids=str,
)
def test_what_would_cost_more_than_a_probe_may_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(BadPlan):
        Plan.read(query)


def test_no_plan_lasts_longer_or_sends_more_than_it_may() -> None:
    longest = Plan(probe=PROBE, gap_ms=1000)
    assert longest.duration_s < 60
    assert sum(len(step.frame(0.0)) for step in longest.steps()) < 192 * 1024
    assert Plan(probe=PROBE, phase="quiet", silence_s=90).duration_s == 90


def test_frames_are_numbered_and_end_once() -> None:
    steps = list(Plan(probe=PROBE).steps())
    assert [step.n for step in steps] == list(range(1, len(steps) + 1))
    assert [step.kind for step in steps if step.kind != "frame"] == ["hello", "end"]
    assert steps[0].pause_s == 0


def test_a_frame_is_one_event_of_the_size_that_it_says() -> None:
    for step in Plan(probe=PROBE).steps():
        frame = step.frame(12.5, heartbeat_s=15.0)
        assert frame.count(b"\n\n") == 1
        assert frame.endswith(b"\n\n")
        data = json.loads(frame.decode().split("data: ")[1])
        assert len(data["pad"]) == step.padding_bytes
        assert (data["n"], data["kind"], data["at"]) == (step.n, step.kind, 12.5)
