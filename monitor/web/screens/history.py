"""The figures of a stream's history: acceptance, and the time per token it implies, with numbered events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.web import charts, fields, sentences, series, wording
from monitor.web.charts import Chart, Marker
from monitor.web.markup import Markup, tag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from monitor.web.charts import Point
    from monitor.web.fields import Record
    from monitor.web.screens.layout import Site
    from monitor.web.view import ShownBucket

_CHART_POINTS = 360
_CAPTION = (
    "Mean acceptance length: line, 95 % interval (band), baseline (dashed), numbered events, "
    "changes (dotted), states (strip)"
)


@dataclass(frozen=True, slots=True)
class Lane:
    """A number that is drawn below the acceptance: its words, the lowest it can be, its value of a bucket."""

    name: str
    words: str
    floor: float
    value: Callable[[ShownBucket], float | None]


TPOT = Lane(
    "tpot",
    "Implied time per output token in milliseconds (step time ÷ tokens per step)",
    0,
    lambda bucket: _milliseconds(bucket.implied_tpot_seconds),
)
STEPS = (
    Lane("tokens", "Tokens per step", 1, lambda bucket: bucket.tokens_per_step),
    Lane("coverage", "Coverage: the share of steps that carried a draft", 0, lambda bucket: bucket.coverage),
    Lane("step", "Step time in milliseconds", 0, lambda bucket: _milliseconds(bucket.step_seconds)),
)
"""What the time per token follows from, beside acceptance."""


def figures(
    buckets: Sequence[ShownBucket],
    listed: Sequence[tuple[str, Record]],
    site: Site,
    span: tuple[float, float],
    *,
    lanes: Sequence[Lane] = (TPOT,),
    notes: Sequence[tuple[float, str]] = (),
) -> list[Markup]:
    """Return the figures of the buckets between two times, `lanes` that are known below the acceptance.

    `listed` are events with the number of each, `notes` what was changed, by time.
    """
    start, end = series.extent(buckets, *span)
    drawn = series.thinned(buckets, _CHART_POINTS)
    # Drawn oldest first, so that the newest of several at one place lies on top.
    found = (_marker(label, event, site, start, end) for label, event in reversed(listed))
    markers = [marker for marker in found if marker is not None]
    acceptance = series.acceptance(drawn)
    about = f"{_extremes(acceptance)}; {wording.plural(len(markers), 'event')}."
    title = "Mean acceptance length over time"
    made = [(Chart("mal", title, about, start, end, 1, acceptance, markers, notes=notes), _CAPTION)]
    for lane in lanes:
        points = series.points(drawn, lane.value)
        if any(point.value is not None for point in points):
            about = f"{_extremes(points)}."
            chart = Chart(
                lane.name, lane.words, about, start, end, lane.floor, points, markers, notes, lane=True
            )
            made.append((chart, lane.words))
    return [
        tag(
            "figure",
            charts.history(chart),
            tag("figcaption", caption),
            class_="lane" if chart.lane else None,
        )
        for chart, caption in made
    ]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _extremes(points: Sequence[Point]) -> str:
    known = [point for point in points if point.value is not None]
    if not known:
        return "No data in this time"
    values = [point.value for point in known if point.value is not None]
    return (
        f"From {wording.clock(known[0].start)} to {wording.clock(known[-1].end)}: first {values[0]:.3g}, "
        f"last {values[-1]:.3g}, lowest {min(values):.3g}, highest {max(values):.3g}"
    )


def _marker(label: str, event: Record, site: Site, start: float, end: float) -> Marker | None:
    at, closed = fields.number(event, "change_point_at"), fields.number(event, "closed_at")
    if at is None or at > end or (closed is not None and closed < start):
        return None
    low, high = fields.number(event, "change_point_low"), fields.number(event, "change_point_high")
    return Marker(
        at=at,
        low=at if low is None else low,
        high=at if high is None else high,
        end=closed,
        label=label,
        title=sentences.event(event, site.now),
        href=site.links.event(fields.text(event, "id")),
        severity=fields.text(event, "severity"),
    )
