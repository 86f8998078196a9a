"""Inline SVG: a sparkline for a table row and a history chart with its axes, interval, baseline and events.

Only presentation attributes and classes are written, so a Content-Security-Policy without inline styles
holds; colours come from the style sheet. Where there is no data there is a gap, never a line at zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from monitor.web import axes
from monitor.web.axes import Frame, Scale
from monitor.web.markup import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TALL = Frame(760, 300, left=48, right=12, top=30, bottom=44)
LANE = Frame(760, 130, left=48, right=12, top=8, bottom=30)
"""As wide as the tall chart above it, so that one time is at one place in all."""
STRIP = 8  # height of the strip of states under the plot
SPARK_WIDTH, SPARK_HEIGHT = 140, 30
MULTIPLE = (220, 70)
_TICK_EVERY = 65  # units of height
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
    """A history chart; `name` makes ids unique on a page, `floor` is the lowest value that can be.

    A `lane` is low and shows the events' spans only: it stands below a tall chart of the same time.
    `notes` are what was changed: unix times, each with its words.
    """

    name: str
    title: str
    description: str
    start: float
    end: float
    floor: float
    points: Sequence[Point]
    markers: Sequence[Marker] = ()
    notes: Sequence[tuple[float, str]] = ()
    lane: bool = False

    @property
    def frame(self) -> Frame:
        """Its size."""
        return LANE if self.lane else TALL


def sparkline(points: Sequence[Point], label: str, state: str, marks: Sequence[float] = ()) -> Markup:
    """Return a small picture of the points' values, the last reference dashed, events at `marks` as ticks."""
    known = [value for point in points for value in (point.value, point.reference) if value is not None]
    if all(point.value is None for point in points):
        return Markup("")
    high = max(*known, 1.5)
    across = Scale(points[0].start, max(points[-1].end, points[0].start + 1), 1, SPARK_WIDTH - 1)
    down = Scale(1, high, SPARK_HEIGHT - 2, 2)
    line = "".join(_step_path(run, across, down) for run in _runs(points, _value))
    reference = next((point.reference for point in reversed(points) if point.reference is not None), None)
    base = "" if reference is None else f'<path class="base" d="M1 {down(reference):g}H{SPARK_WIDTH - 1}"/>'
    return Markup(
        f'<svg class="spark {escape(state)}" viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" role="img" '
        f'width="{SPARK_WIDTH}" height="{SPARK_HEIGHT}" aria-label="{escape(label)}">'
        f'{_marks(marks, points, across)}{base}<path class="line" d="{line}"/></svg>'
    )


def _marks(marks: Sequence[float], points: Sequence[Point], across: Scale) -> str:
    shown = [across(at) for at in marks if points[0].start <= at <= points[-1].end]
    path = "".join(f"M{x:g} 0V{SPARK_HEIGHT}" for x in dict.fromkeys(shown))
    return f'<path class="mark" d="{path}"/>' if path else ""


def multiple(points: Sequence[Point], title: str, high: float, state: str, marks: Sequence[float]) -> Markup:
    """Return one of many small pictures on one scale, from 1 to `high`; each says what it is on hovering."""
    width, height = MULTIPLE
    top, bottom = 4, height - 4
    if not points:
        return Markup("")
    across = Scale(points[0].start, max(points[-1].end, points[0].start + 1), 1, width - 1)
    down = Scale(1, max(high, 1.5), bottom, top)
    curves = "".join(_curves(points, across, down))
    lines = "".join(f"M{across(at):g} 0V{height}" for at in marks if points[0].start <= at <= points[-1].end)
    return Markup(
        f'<svg class="multiple {escape(state)}" viewBox="0 0 {width} {height}" role="img" '
        f'width="{width}" height="{height}" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        f'<path class="grid" d="M0 {bottom}H{width}"/><path class="mark" d="{lines}"/>{curves}</svg>'
    )


def history(chart: Chart) -> Markup:
    """Return the whole chart; without a known value it is a frame that says so."""
    known = [
        value
        for point in chart.points
        for value in (point.value, point.low, point.high, point.reference)
        if value is not None
    ]
    frame = chart.frame
    ticks = axes.value_ticks(chart.floor, max(known, default=chart.floor + 1), frame.height // _TICK_EVERY)
    across = frame.across(chart.start, max(chart.end, chart.start + 1))
    down = frame.down(ticks[0], ticks[-1])
    name = escape(chart.name)
    parts = [
        # A group, not one picture: the events in it are links.
        (
            f'<svg class="chart" viewBox="0 0 {frame.width} {frame.height}" role="group" '
            f'aria-labelledby="{name}-t {name}-d">'
        ),
        f'<title id="{name}-t">{escape(chart.title)}</title>',
        f'<desc id="{name}-d">{escape(chart.description)}</desc>',
        *axes.of_values(frame, ticks, down),
        *axes.of_times(frame, chart.start, chart.end, across),
        *(_span(marker, chart, across) for marker in chart.markers),
        *_curves(chart.points, across, down),
        *([] if chart.lane else _states(chart.points, across)),
        *(_note(note, chart.frame, across) for note in chart.notes if chart.start <= note[0] <= chart.end),
        *(_change(marker, chart, across) for marker in chart.markers),
    ]
    if all(point.value is None for point in chart.points):
        middle = frame.width // 2, frame.height // 2
        parts.append(f'<text class="none" x="{middle[0]}" y="{middle[1]}">no data in this time</text>')
    return Markup("".join(parts) + "</svg>")


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


def _step_path(run: list[tuple[Point, float]], across: Scale, down: Scale) -> str:
    point, value = run[0]
    height = down(value)
    path = f"M{across(point.start):g} {height:g}H{across(point.end):g}"
    for (_, _), (after, later) in pairwise(run):
        if down(later) != height:
            height = down(later)
            path += f"V{height:g}"
        path += f"H{across(after.end):g}"
    return path


def _band_path(run: list[tuple[Point, float]], across: Scale, down: Scale) -> str:
    """Return the outline of the interval: along its high ends, and back along its low ends."""
    there = "".join(
        f"L{across(p.start):g} {down(high):g}L{across(p.end):g} {down(high):g}" for p, high in run
    )
    back = "".join(
        f"L{across(p.end):g} {down(p.low or 0):g}L{across(p.start):g} {down(p.low or 0):g}"
        for p, _ in reversed(run)
    )
    return f"M{there[1:]}{back}Z"


def _curves(points: Sequence[Point], across: Scale, down: Scale) -> Iterator[str]:
    for run in _runs(points, _interval):
        yield f'<path class="band" d="{_band_path(run, across, down)}"/>'
    for run in _runs(points, _reference):
        yield f'<path class="base" d="{_step_path(run, across, down)}"/>'
    for run in _runs(points, _value):
        yield f'<path class="line" d="{_step_path(run, across, down)}"/>'


def _states(points: Sequence[Point], across: Scale) -> Iterator[str]:
    """Yield the strip of states below the plot, neighbours of one state drawn as one."""
    top = TALL.ground + 8
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


def _span(marker: Marker, chart: Chart, across: Scale) -> str:
    left, right = across(marker.at), across(chart.end if marker.end is None else marker.end)
    frame = chart.frame
    return (
        f'<rect class="span {escape(marker.severity)}" x="{left:g}" y="{frame.top}" '
        f'width="{max(right - left, 1):.4g}" height="{frame.ground - frame.top}"/>'
    )


def _note(note: tuple[float, str], frame: Frame, across: Scale) -> str:
    unix_seconds, words = note
    return (
        f'<path class="note" d="M{across(unix_seconds):g} {frame.top}V{frame.ground}">'
        f"<title>{escape(words)}</title></path>"
    )


def _change(marker: Marker, chart: Chart, across: Scale) -> str:
    """Return the change point's line, in a tall chart with the bar of its interval and its number."""
    at, severity, frame = across(marker.at), escape(marker.severity), chart.frame
    line = f'<path class="change {severity}" d="M{at:g} {frame.top - 8}V{frame.ground}"/>'
    return line if chart.lane else line + _badge(marker, across)


def _badge(marker: Marker, across: Scale) -> str:
    """Return the bar of the change point's interval, and its number as a link to the event."""
    severity = escape(marker.severity)
    badge = min(max(across(marker.at), TALL.left + 8), TALL.end - 8)
    return (
        f'<path class="when {severity}" d="M{across(marker.low):g} {TALL.top}H{across(marker.high):g}"/>'
        f'<a href="{escape(marker.href)}"><title>{escape(marker.title)}</title>'
        f'<circle class="badge {severity}" cx="{badge:g}" cy="14" r="11"/>'
        f'<text class="badge" x="{badge:g}" y="18">{escape(marker.label)}</text></a>'
    )
