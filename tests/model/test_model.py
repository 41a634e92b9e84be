"""The protocol as a whole: whatever fails whenever, no law is broken (relay/PROTOCOL.md)."""

from __future__ import annotations

import pytest

from tests.model.__main__ import main
from tests.model.laws import Law
from tests.model.many import tally_on_all_cores
from tests.model.rules import ALL
from tests.model.schedule import play
from tests.model.trace import Trace
from tests.model.witnesses import WITNESSES

SCHEDULES = 20_000
CANNOT_BE_HAD = {
    *(Law.TWO_ENDS, Law.WRONG_TEXT, Law.LOG_AND_RECORD, Law.WORDS, Law.LIE, Law.MISCOUNTED)
}
"""What the double fault may do: an end that was shown is lost together with its only writer."""


@pytest.mark.timeout(400)  # ten seconds of CPU on two free cores; other work may want them, too
def test_no_schedule_breaks_a_law_but_by_the_double_fault() -> None:
    """PROTOCOL 1 to 11"""
    total = tally_on_all_cores(0, SCHEDULES, ALL)
    report = "\n".join(["python -m tests.model SEED shows one of these:", *total.lines()])
    assert total.schedules == SCHEDULES
    assert total.laws() == set(), report
    doubles = {law: count for (law, double), count in total.counts.items() if double}
    # Asserted to happen, too: faults that never meet would prove nothing.
    assert 0 < sum(doubles.values()) < SCHEDULES / 200, report
    assert doubles.keys() <= CANNOT_BE_HAD, report


def test_a_schedule_is_its_seed() -> None:
    first, second = Trace(), Trace()
    assert play(7, watch=first) == play(7, watch=second)
    assert first.lines == second.lines
    assert any("store.claim" in line for line in first.lines)


def test_a_broken_law_is_shown_where_it_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    seed, law = WITNESSES["busy"]
    assert main([str(seed), "-busy"]) == 1
    shown = capsys.readouterr().out
    assert f"!!!!  {law}" in shown
    assert f"broken: {law}" in shown
    assert main([str(seed)]) == 0
    assert "no law is broken" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["x"], ["1", "2"], ["1", "-no_such_rule"]])
def test_arguments_that_make_no_sense_are_told_so(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "rule" in capsys.readouterr().out.lower()
