"""Every way of holding a stream back is told from the others, and from a busy machine."""

from __future__ import annotations

import pytest

from chatapp.doctor.arrivals import holding
from tests.chatapp.doctor.hops_played import (
    GAP_MS,
    by_bytes,
    by_time,
    promptly,
    stalling,
    tail_kept,
    through,
    whole,
)

GAP_S = GAP_MS / 1000
KIB = 1024


def test_what_comes_as_it_is_sent_is_not_held() -> None:
    assert holding(through(promptly), GAP_S) is None


@pytest.mark.parametrize("exactly", [False, True], ids=["all", "whole buffers"])
@pytest.mark.parametrize("kib", [4, 8, 16, 64])
def test_a_buffer_of_bytes_is_told_with_its_size(kib: int, exactly: bool) -> None:
    held = holding(through(by_bytes(kib * KIB, exactly=exactly)), GAP_S)
    assert held is not None
    assert (held.kind, held.size_bytes) == ("bytes", kib * KIB)
    assert held.longest_s > 1


@pytest.mark.parametrize("every_s", [0.25, 0.5, 1.0])
def test_a_timer_is_told_with_its_time(every_s: float) -> None:
    held = holding(through(by_time(every_s)), GAP_S)
    assert held is not None
    assert held.kind == "time"
    assert held.every_s == pytest.approx(every_s, rel=0.2)


def test_what_comes_at_the_end_alone_was_held_whole() -> None:
    held = holding(through(whole), GAP_S)
    assert held is not None
    assert held.kind == "whole"
    assert held.longest_s == pytest.approx(3.9, abs=0.1)


def test_an_end_that_waits_for_the_next_frame_is_told() -> None:
    held = holding(through(tail_kept), GAP_S)
    assert held is not None
    assert (held.kind, held.size_bytes) == ("tail", 4 * KIB)


@pytest.mark.parametrize("at_s", [0.0, 1.0, 2.0, 3.0])
def test_one_moment_of_a_busy_machine_is_no_buffer(at_s: float) -> None:
    assert holding(through(stalling(at_s, 0.8)), GAP_S) is None


def test_of_a_few_frames_nothing_is_said() -> None:
    assert holding(through(whole)[:7], GAP_S) is None
