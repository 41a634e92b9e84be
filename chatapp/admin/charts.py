"""Charts as elements of SVG, drawn by the server: no script, no library, nothing inline to style.

Colours are classes of static/admin/charts.css, which knows admin's light and dark. Pure: numbers
in, places in a box of `WIDTH` by `HEIGHT` out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH: Final = 520
HEIGHT: Final = 170
LEFT: Final = 56
BOTTOM: Final = 24
TOP: Final = 10
RIGHT: Final = 12


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: str
    """As `polyline` wants them."""
    dots: list[tuple[float, float, str]]
    """x, y and what to say of it, of each known value."""


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    kind: int
    """Number of its series: its class."""
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    across: list[Tick]
    up: list[Tick]
    lines: list[Line]
    bars: list[Bar]
    names: list[str]
    """Of the series, for the legend."""
    shade: tuple[float, float] | None = None
    """x and width of a stretch that is marked."""
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def floor(self) -> int:
        return self.height - BOTTOM

    @property
    def left(self) -> int:
        return LEFT

    @property
    def right(self) -> int:
        return self.width - RIGHT


def nice_ceiling(value: float) -> float:
    """The next number above that reads well: 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if value <= step * power * 1.0001)


def plain(value: float) -> str:
    """Short, for an axis: 1200 is 1.2k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def round_steps(most: float) -> list[float]:
    """From 0 up to `most`, four to six of them, at numbers that read well."""
    step = nice_ceiling(most / 5)
    return [step * n for n in range(int(most / step * 1.0001) + 1)]


def _up(most: float) -> list[Tick]:
    return [Tick(_y(value, most), plain(value)) for value in round_steps(most)]


def _y(value: float, most: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(1.0, value / most), 1)


def of_time(
    title: str, points: Sequence[tuple[int, int]], gap: tuple[int, int] = (0, 0)
) -> Chart | None:
    """Tokens over ms as steps, `gap` (from, length) marked. None: there is nothing to draw."""
    if len(points) < 2:
        return None
    last_ms, most = max(points[-1][0], 1), nice_ceiling(max(tokens for _, tokens in points))

    def x(at_ms: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * at_ms / last_ms, 1)

    places = [(x(at_ms), _y(tokens, most)) for at_ms, tokens in points]
    line = Line("tokens", " ".join(f"{a},{b}" for a, b in places), [])
    across = [Tick(x(at_ms), f"{at_ms / 1000:.3g} s") for at_ms in round_steps(last_ms)]
    shade = (x(gap[0]), round(x(gap[0] + gap[1]) - x(gap[0]), 1)) if gap[1] else None
    return Chart(title, across, _up(most), [line], [], ["tokens"], shade)


def lines(
    title: str,
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[float | None]]],
    unit: str = "",
) -> Chart | None:
    """One value a label and series; None is a hole in its line."""
    known = [value for _, values in series for value in values if value is not None]
    if not known:
        return None
    most, step = nice_ceiling(max(known)), (WIDTH - LEFT - RIGHT) / max(1, len(labels))
    drawn = []
    for name, values in series:
        dots = [
            (
                round(LEFT + step * (n + 0.5), 1),
                _y(value, most),
                f"{labels[n]}, {name}: {plain(value)}{unit}",
            )
            for n, value in enumerate(values)
            if value is not None
        ]
        drawn.append(Line(name, " ".join(f"{a},{b}" for a, b, _ in dots), dots))
    names = [name for name, _ in series]
    return Chart(title, _across(labels, step), _up(most), drawn, [], names)


def stacks(
    title: str, labels: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], unit: str = ""
) -> Chart | None:
    """A bar a label, of one piece a series."""
    totals = [sum(values[n] for _, values in series) for n in range(len(labels))]
    if not any(totals):
        return None
    most, step = nice_ceiling(max(totals)), (WIDTH - LEFT - RIGHT) / len(labels)
    bars = []
    for n, label in enumerate(labels):
        below = 0.0
        for kind, (name, values) in enumerate(series):
            if not values[n]:
                continue
            foot, head = _y(below, most), _y(below + values[n], most)
            told = f"{label}, {name}: {plain(values[n])}{unit}"
            place = round(LEFT + step * n + step * 0.1, 1)
            bars.append(Bar(place, head, round(step * 0.8, 1), round(foot - head, 1), kind, told))
            below += values[n]
    return Chart(title, _across(labels, step), _up(most), [], bars, [name for name, _ in series])


def _across(labels: Sequence[str], step: float) -> list[Tick]:
    every = max(1, math.ceil(len(labels) / 6))
    return [
        Tick(round(LEFT + step * (n + 0.5), 1), label)
        for n, label in enumerate(labels)
        if n % every == 0
    ]
