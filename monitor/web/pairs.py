"""Inline SVG of ratios before and now, each with its interval, place by place along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.web import axes, wording
from monitor.web.axes import PLOT
from monitor.web.markup import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from monitor.web.axes import Scale
    from monitor.web.intervals import Share

_APART = 0.14  # of the distance of two places: so far left and right of the place the two sides stand


@dataclass(frozen=True, slots=True)
class Pair:
    """A place on the axis with the ratio on both sides, and a reference that is drawn as a tick."""

    label: str
    before: Share
    now: Share
    reference: float | None = None


@dataclass(frozen=True, slots=True)
class PairPlot:
    """A picture; `name` makes ids unique on a page, `across` and `up` name the axes."""

    name: str
    title: str
    across: str
    up: str
    places: Sequence[Pair]


def plot(wanted: PairPlot) -> Markup:
    """Return the picture, ratios from 0 to 1; every point says its side, value and interval on hovering."""
    across, down = PLOT.across(-0.5, len(wanted.places) - 0.5), PLOT.down(0.0, 1.0)
    name = escape(wanted.name)
    parts = [
        (
            f'<svg class="plot" viewBox="0 0 {PLOT.width} {PLOT.height}" role="img" '
            f'aria-labelledby="{name}-t">'
        ),
        f'<title id="{name}-t">{escape(wanted.title)}</title>',
        *axes.of_values(PLOT, axes.value_ticks(0.0, 1.0), down),
        *axes.of_labels(PLOT, [(across(index), each.label) for index, each in enumerate(wanted.places)]),
        *axes.names(PLOT, wanted.across, wanted.up),
    ]
    for index, each in enumerate(wanted.places):
        parts += _place(each, index, across, down)
    return Markup("".join(parts) + "</svg>")


def _place(each: Pair, index: int, across: Scale, down: Scale) -> Iterator[str]:
    if each.reference is not None:
        left, right = across(index - 2 * _APART), across(index + 2 * _APART)
        yield f'<path class="base" d="M{left:g} {down(each.reference):g}H{right:g}"/>'
    yield from _point(each.before, f"{each.label}, before", "before", across(index - _APART), down)
    yield from _point(each.now, f"{each.label}, now", "now", across(index + _APART), down)


def _point(share: Share, words: str, side: str, x: float, down: Scale) -> Iterator[str]:
    if share.value is None:
        return
    if share.low is not None and share.high is not None:
        yield f'<path class="whisker {side}" d="M{x:g} {down(share.low):g}V{down(share.high):g}"/>'
        words = f"{words}, {wording.ratio(share.low)} to {wording.ratio(share.high)}"
    title, y = escape(f"{words}: {wording.ratio(share.value)}"), down(share.value)
    yield f'<circle class="point {side}" cx="{x:g}" cy="{y:g}" r="4"><title>{title}</title></circle>'
