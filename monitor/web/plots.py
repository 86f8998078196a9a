"""Inline SVG of a value against another: a curve with its points, named axes, a line that parts two cases."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from monitor.web import charts
from monitor.web.markup import Markup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH, HEIGHT = 480, 240
LEFT, RIGHT, TOP, BOTTOM = 48, 14, 14, 48


@dataclass(frozen=True, slots=True)
class Plot:
    """A curve over equally spaced places: their labels, its values, the number of the place that is chosen.

    `parting` is the value of a dashed line; `name` makes ids unique on a page.
    """

    name: str
    title: str
    across: str
    up: str
    labels: Sequence[str]
    values: Sequence[float]
    chosen: int | None = None
    parting: float | None = None


def plot(wanted: Plot) -> Markup:
    """Return the picture; every point says its value on hovering."""
    ticks = charts.value_ticks(0.0, max(*wanted.values, wanted.parting or 0.0, 1e-9))
    name = escape(wanted.name)
    points = [(_x(index, wanted), _y(value, ticks)) for index, value in enumerate(wanted.values)]
    line = "L".join(f"{x:g} {y:g}" for x, y in points)
    parts = [
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{name}-t">',
        f'<title id="{name}-t">{escape(wanted.title)}</title>',
        *_axes(wanted, ticks),
        f'<path class="line" d="M{line}"/>',
        *_points(wanted, points),
    ]
    return Markup("".join(parts) + "</svg>")


def _x(index: int, wanted: Plot) -> float:
    return round(LEFT + index * (WIDTH - LEFT - RIGHT) / max(len(wanted.values) - 1, 1), 1)


def _y(value: float, ticks: Sequence[float]) -> float:
    return round(HEIGHT - BOTTOM - value / ticks[-1] * (HEIGHT - BOTTOM - TOP), 1)


def _axes(wanted: Plot, ticks: Sequence[float]) -> Iterator[str]:
    for tick in ticks:
        y = _y(tick, ticks)
        yield f'<path class="grid" d="M{LEFT} {y:g}H{WIDTH - RIGHT}"/>'
        yield f'<text class="y" x="{LEFT - 6}" y="{y + 4:g}">{tick:g}</text>'
    for index, label in enumerate(wanted.labels):
        yield f'<text class="x" x="{_x(index, wanted):g}" y="{HEIGHT - BOTTOM + 18}">{escape(label)}</text>'
    center, middle = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    yield f'<text class="x" x="{center:g}" y="{HEIGHT - 8}">{escape(wanted.across)}</text>'
    yield f'<text class="x" transform="translate(12 {middle:g}) rotate(-90)">{escape(wanted.up)}</text>'
    if wanted.parting is not None:
        yield f'<path class="base" d="M{LEFT} {_y(wanted.parting, ticks):g}H{WIDTH - RIGHT}"/>'


def _points(wanted: Plot, points: Sequence[tuple[float, float]]) -> Iterator[str]:
    for index, (x, y) in enumerate(points):
        words = escape(f"{wanted.across} {wanted.labels[index]}: {wanted.values[index]:.2f}")
        kind, radius = ("point chosen", 5) if index == wanted.chosen else ("point", 3)
        yield f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="{radius}"><title>{words}</title></circle>'
