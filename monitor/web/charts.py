"""Inline SVG: a sparkline for a table row and a history chart with its axes, interval, baseline and events.

Only presentation attributes and classes are written, so a Content-Security-Policy without inline styles
holds; colours come from the style sheet. Where there is no data there is a gap, never a line at zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from monitor.web.markup import Markup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

WIDTH, HEIGHT = 760, 300
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 30, 44
STRIP = 8  # height of the strip of states under the plot
SPARK_WIDTH, SPARK_HEIGHT = 140, 30
MULTIPLE = (220, 70)
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY = 86400
_MAX_TIME_TICKS = 7
_MINUTE = 60
# Two buckets are one line if the second begins within this share of the first's length after its end.
_JOIN = 0.5


@dataclass(frozen=True, slots=True)
class Point:
    """A value held from `start` to `end` (unix seconds), its interval and reference; None where unknown."""

    start: float
    end: float
    value: float | None
    low: float | None = None
    high: float | None = None
    reference: float | None = None
    state: str = ""


@dataclass(frozen=True, slots=True)
class Marker:
    """An event on the time axis: its change point `at` (from `low` to `high`), its close `end` or None."""

    at: float
    low: float
    high: float
    end: float | None
    label: str
    title: str
    href: str
    severity: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A history chart; `name` makes ids unique on a page, `floor` is the lowest value that can be."""

    name: str
    title: str
    description: str
    start: float
    end: float
    floor: float
    points: Sequence[Point]
    markers: Sequence[Marker] = ()


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps `low`..`high` to `first`..`last` in the picture."""

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.first + min(max(share, 0), 1) * (self.last - self.first), 1)


def sparkline(points: Sequence[Point], label: str, state: str, marks: Sequence[float] = ()) -> Markup:
    """Return a small picture of the points' values, the last reference dashed, events at `marks` as ticks."""
    known = [value for point in points for value in (point.value, point.reference) if value is not None]
    if all(point.value is None for point in points):
        return Markup("")
    high = max(*known, 1.5)
    across = _Scale(points[0].start, max(points[-1].end, points[0].start + 1), 1, SPARK_WIDTH - 1)
    down = _Scale(1, high, SPARK_HEIGHT - 2, 2)
    line = "".join(_step_path(run, across, down) for run in _runs(points, _value))
    reference = next((point.reference for point in reversed(points) if point.reference is not None), None)
    base = "" if reference is None else f'<path class="base" d="M1 {down(reference):g}H{SPARK_WIDTH - 1}"/>'
    return Markup(
        f'<svg class="spark {escape(state)}" viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" role="img" '
        f'width="{SPARK_WIDTH}" height="{SPARK_HEIGHT}" aria-label="{escape(label)}">'
        f'{_marks(marks, points, across)}{base}<path class="line" d="{line}"/></svg>'
    )


def _marks(marks: Sequence[float], points: Sequence[Point], across: _Scale) -> str:
    shown = [across(at) for at in marks if points[0].start <= at <= points[-1].end]
    path = "".join(f"M{x:g} 0V{SPARK_HEIGHT}" for x in dict.fromkeys(shown))
    return f'<path class="mark" d="{path}"/>' if path else ""


def multiple(points: Sequence[Point], title: str, high: float, state: str, marks: Sequence[float]) -> Markup:
    """Return one of many small pictures on one scale, from 1 to `high`; each says what it is on hovering."""
    width, height = MULTIPLE
    top, bottom = 4, height - 4
    if not points:
        return Markup("")
    across = _Scale(points[0].start, max(points[-1].end, points[0].start + 1), 1, width - 1)
    down = _Scale(1, max(high, 1.5), bottom, top)
    curves = "".join(_curves(points, across, down))
    lines = "".join(f"M{across(at):g} 0V{height}" for at in marks if points[0].start <= at <= points[-1].end)
    return Markup(
        f'<svg class="multiple {escape(state)}" viewBox="0 0 {width} {height}" role="img" '
        f'width="{width}" height="{height}" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        f'<path class="grid" d="M0 {bottom}H{width}"/><path class="mark" d="{lines}"/>{curves}</svg>'
    )


def bar(value: float, reference: float | None, label: str) -> Markup:
    """Return a horizontal bar of a ratio 0..1 with a tick at its reference."""
    width, height = 120, 12
    tick = (
        ""
        if reference is None
        else f'<path class="base" d="M{round(min(reference, 1) * width, 1):g} 0V{height}"/>'
    )
    return Markup(
        f'<svg class="bar" viewBox="0 0 {width} {height}" role="img" width="{width}" height="{height}" '
        f'aria-label="{escape(label)}"><rect class="track" width="{width}" height="{height}"/>'
        f'<rect class="fill" width="{round(min(max(value, 0), 1) * width, 1):g}" height="{height}"/>'
        f"{tick}</svg>"
    )


def history(chart: Chart) -> Markup:
    """Return the whole chart; without a known value it is a frame that says so."""
    known = [
        value
        for point in chart.points
        for value in (point.value, point.low, point.high, point.reference)
        if value is not None
    ]
    ticks = value_ticks(chart.floor, max(known, default=chart.floor + 1))
    across = _Scale(chart.start, max(chart.end, chart.start + 1), LEFT, WIDTH - RIGHT)
    down = _Scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    name = escape(chart.name)
    parts = [
        # A group, not one picture: the events in it are links.
        (
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" '
            f'aria-labelledby="{name}-t {name}-d">'
        ),
        f'<title id="{name}-t">{escape(chart.title)}</title>',
        f'<desc id="{name}-d">{escape(chart.description)}</desc>',
        *_value_axis(ticks, down),
        *_time_axis(chart, across),
        *(_span(marker, chart, across) for marker in chart.markers),
        *_curves(chart.points, across, down),
        *_states(chart.points, across),
        *(_badge(marker, across) for marker in chart.markers),
    ]
    if all(point.value is None for point in chart.points):
        parts.append(f'<text class="none" x="{WIDTH // 2}" y="{HEIGHT // 2}">no data in this time</text>')
    return Markup("".join(parts) + "</svg>")


def value_ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """Return round values from at most `low` to at least `high`, about `wanted` steps apart."""
    rough = max(high - low, 1e-9) / wanted
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    return [round(index * step, 12) for index in range(first, last + 1)]


def time_ticks(start: float, end: float) -> list[tuple[float, str]]:
    """Return (unix time, UTC label) of round times in `start`..`end`; a midnight is labelled by its day."""
    span = max(end - start, 1)
    step = next((step for step in _TIME_STEPS if span / step <= _MAX_TIME_TICKS), None)
    if step is None:
        step = _DAY * math.ceil(span / _MAX_TIME_TICKS / _DAY)
    first = math.ceil(start / step)
    ticks = []
    for index in range(first, math.floor(end / step) + 1):
        at = datetime.fromtimestamp(index * step, UTC)
        clock = f"{at:%H:%M:%S}" if step < _MINUTE else f"{at:%H:%M}"
        ticks.append((float(index * step), f"{at:%b %d}" if index * step % _DAY == 0 else clock))
    return ticks


def _value(point: Point) -> float | None:
    return point.value


def _reference(point: Point) -> float | None:
    return point.reference


def _interval(point: Point) -> float | None:
    return None if point.low is None else point.high


def _runs(
    points: Sequence[Point], known: Callable[[Point], float | None]
) -> Iterator[list[tuple[Point, float]]]:
    """Yield stretches of points that follow each other without a gap and whose value is known."""
    run: list[tuple[Point, float]] = []
    for point in points:
        value = known(point)
        if run and (
            value is None or point.start - run[-1][0].end > _JOIN * (run[-1][0].end - run[-1][0].start)
        ):
            yield run
            run = []
        if value is not None:
            run.append((point, value))
    if run:
        yield run


def _step_path(run: list[tuple[Point, float]], across: _Scale, down: _Scale) -> str:
    point, value = run[0]
    height = down(value)
    path = f"M{across(point.start):g} {height:g}H{across(point.end):g}"
    for (_, _), (after, later) in pairwise(run):
        if down(later) != height:
            height = down(later)
            path += f"V{height:g}"
        path += f"H{across(after.end):g}"
    return path


def _band_path(run: list[tuple[Point, float]], across: _Scale, down: _Scale) -> str:
    """Return the outline of the interval: along its high ends, and back along its low ends."""
    there = "".join(
        f"L{across(p.start):g} {down(high):g}L{across(p.end):g} {down(high):g}" for p, high in run
    )
    back = "".join(
        f"L{across(p.end):g} {down(p.low or 0):g}L{across(p.start):g} {down(p.low or 0):g}"
        for p, _ in reversed(run)
    )
    return f"M{there[1:]}{back}Z"


def _curves(points: Sequence[Point], across: _Scale, down: _Scale) -> Iterator[str]:
    for run in _runs(points, _interval):
        yield f'<path class="band" d="{_band_path(run, across, down)}"/>'
    for run in _runs(points, _reference):
        yield f'<path class="base" d="{_step_path(run, across, down)}"/>'
    for run in _runs(points, _value):
        yield f'<path class="line" d="{_step_path(run, across, down)}"/>'


def _value_axis(ticks: list[float], down: _Scale) -> Iterator[str]:
    for tick in ticks:
        yield (
            f'<path class="grid" d="M{LEFT} {down(tick):g}H{WIDTH - RIGHT}"/>'
            f'<text class="y" x="{LEFT - 6}" y="{down(tick) + 4:g}">{tick:g}</text>'
        )


def _time_axis(chart: Chart, across: _Scale) -> Iterator[str]:
    for number, (at, label) in enumerate(time_ticks(chart.start, chart.end)):
        alternate = " alt" if number % 2 else ""
        yield (
            f'<path class="tick" d="M{across(at):g} {HEIGHT - BOTTOM}v4"/>'
            f'<text class="x{alternate}" x="{across(at):g}" y="{HEIGHT - 8}">{label}</text>'
        )


def _states(points: Sequence[Point], across: _Scale) -> Iterator[str]:
    """Yield the strip of states below the plot, neighbours of one state drawn as one."""
    top = HEIGHT - BOTTOM + 8
    start = 0
    for index, point in enumerate(points):
        ends = index + 1 == len(points) or points[index + 1].state != point.state
        ends = ends or points[index + 1].start - point.end > _JOIN * (point.end - point.start)
        if ends:
            left, right = across(points[start].start), across(point.end)
            if point.state:
                state = escape(point.state)
                yield (
                    f'<rect class="strip {state}" x="{left:g}" y="{top}" '
                    f'width="{max(right - left, 1):.4g}" height="{STRIP}"><title>{state}</title></rect>'
                )
            start = index + 1


def _span(marker: Marker, chart: Chart, across: _Scale) -> str:
    left, right = across(marker.at), across(chart.end if marker.end is None else marker.end)
    return (
        f'<rect class="span {escape(marker.severity)}" x="{left:g}" y="{TOP}" '
        f'width="{max(right - left, 1):.4g}" height="{HEIGHT - BOTTOM - TOP}"/>'
    )


def _badge(marker: Marker, across: _Scale) -> str:
    """Return the change point's line, the bar of its interval, and its number as a link to the event."""
    at, severity = across(marker.at), escape(marker.severity)
    badge = min(max(at, LEFT + 8), WIDTH - RIGHT - 8)
    return (
        f'<path class="change {severity}" d="M{at:g} {TOP - 8}V{HEIGHT - BOTTOM}"/>'
        f'<path class="when {severity}" d="M{across(marker.low):g} {TOP}H{across(marker.high):g}"/>'
        f'<a href="{escape(marker.href)}"><title>{escape(marker.title)}</title>'
        f'<circle class="badge {severity}" cx="{badge:g}" cy="14" r="11"/>'
        f'<text class="badge" x="{badge:g}" y="18">{escape(marker.label)}</text></a>'
    )
