"""The numbers of a chart's axes."""

from __future__ import annotations

import pytest

from chatapp.admin import charts


@pytest.mark.parametrize(
    ("most", "steps"),
    [
        (1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (2, [0, 0.5, 1, 1.5, 2]),
        (2.5, [0, 0.5, 1, 1.5, 2, 2.5]),
        (5000, [0, 1000, 2000, 3000, 4000, 5000]),
        (5480, [0, 2000, 4000]),
        (13, [0, 5, 10]),
    ],
)
def test_an_axis_is_numbered_in_round_steps(most: float, steps: list[float]) -> None:
    assert charts.round_steps(most) == pytest.approx(steps)


@pytest.mark.parametrize("most", [1, 7, 99, 101, 1370, 60_000, 3.3e7])
def test_an_axis_has_a_few_numbers_and_none_beyond_its_end(most: float) -> None:
    steps = charts.round_steps(most)
    assert 3 <= len(steps) <= 6
    assert steps[-1] <= most * 1.0001


def test_the_time_of_an_answer_is_told_in_whole_seconds() -> None:
    chart = charts.of_time("Tokens", [(0, 0), (5480, 40)])
    assert chart is not None
    assert [tick.label for tick in chart.across] == ["0 s", "2 s", "4 s"]


@pytest.mark.parametrize("most", [0.0018, 0.00018, 0.000018, 0.18, 999, 12_500, 1.25e8])
def test_the_longest_number_of_an_axis_has_room_beside_it(most: float) -> None:
    """Costs of a small site begin at thousandths: their first digit was cut off."""
    chart = charts.stacks("Cost", ["a"], [("x", [most])])
    assert chart is not None
    digit, gap = 7, 6  # widths at the size of the axes' letters
    assert max(len(tick.label) for tick in chart.up) * digit + gap <= chart.left
