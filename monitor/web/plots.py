"""Inline SVG of a value against another: a curve with its points, named axes, a line that parts two cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.web import axes
from monitor.web.axes import PLOT
from monitor.web.markup import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from monitor.web.axes import Scale


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
    ticks = axes.value_ticks(0.0, max(*wanted.values, wanted.parting or 0.0, 1e-9))
    name, down = escape(wanted.name), PLOT.down(0.0, ticks[-1])
    points = [(_x(index, wanted), down(value)) for index, value in enumerate(wanted.values)]
    line = "L".join(f"{x:g} {y:g}" for x, y in points)
    parts = [
        (
            f'<svg class="plot" viewBox="0 0 {PLOT.width} {PLOT.height}" role="img" '
            f'aria-labelledby="{name}-t">'
        ),
        f'<title id="{name}-t">{escape(wanted.title)}</title>',
        *axes.of_values(PLOT, ticks, down),
        *axes.of_labels(PLOT, [(_x(index, wanted), label) for index, label in enumerate(wanted.labels)]),
        *axes.names(PLOT, wanted.across, wanted.up),
        *_parting(wanted, down),
        f'<path class="line" d="M{line}"/>',
        *_points(wanted, points),
    ]
    return Markup("".join(parts) + "</svg>")


def _x(index: int, wanted: Plot) -> float:
    return PLOT.across(0.0, max(len(wanted.values) - 1, 1))(index)


def _parting(wanted: Plot, down: Scale) -> Iterator[str]:
    if wanted.parting is not None:
        yield f'<path class="base" d="M{PLOT.left} {down(wanted.parting):g}H{PLOT.end}"/>'


def _points(wanted: Plot, points: Sequence[tuple[float, float]]) -> Iterator[str]:
    for index, (x, y) in enumerate(points):
        words = escape(f"{wanted.across} {wanted.labels[index]}: {wanted.values[index]:.2f}")
        kind, radius = ("point chosen", 5) if index == wanted.chosen else ("point", 3)
        yield f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="{radius}"><title>{words}</title></circle>'
