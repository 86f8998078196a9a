"""Replicas of a model as small pictures on one scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import charts, fields, levels, sentences, series, wording
from monitor.web.markup import Child, Markup, tag
from monitor.web.screens import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.web.charts import Point
    from monitor.web.screens.layout import Site
    from monitor.web.view import StreamView, View

_POINTS = 90
_HIGHEST_OUTLIER = 1.6


def multiples(
    view: View,
    shown: Sequence[StreamView],
    site: Site,
    start: float,
    end: float,
    *,
    marks: Sequence[float] = (),
    odd: Sequence[StreamView] = (),
) -> Markup:
    """Return the pictures, all from 1 to the same height; `marks` are changes of all of them.

    Those of `odd` are said to be the odd ones out.
    """
    drawn = [
        (each, series.acceptance(series.thinned(view.history(each.id, start, end), _POINTS)))
        for each in shown
    ]
    high = _height([points for _, points in drawn])
    strange = {each.id for each in odd}
    items = [
        tag(
            "li",
            _multiple(each, points, high, site, marks),
            tag("p", "odd one out", class_="odd") if each.id in strange else None,
            class_="odd" if each.id in strange else None,
        )
        for each, points in drawn
    ]
    caption = f"Mean acceptance length, each picture from 1 to {high:.2f}; dashed: baseline; ticks: changes"
    return tag(
        "figure", tag("figcaption", caption), tag("ol", items, class_="multiples"), aria_label="replicas"
    )


def _height(drawn: Sequence[Sequence[Point]]) -> float:
    """Return the highest value drawn, single buckets of few drafts aside."""
    values = sorted(point.value for points in drawn for point in points if point.value is not None)
    if not values:
        return 2.0
    return min(values[-1], _HIGHEST_OUTLIER * values[int(0.95 * (len(values) - 1))])


def _multiple(
    each: StreamView, points: Sequence[Point], high: float, site: Site, marks: Sequence[float]
) -> Child:
    level = levels.of_stream(each, site.now)
    mal = wording.length(fields.number(level, "mal"))
    at = fields.number(each.open_event or {}, "change_point_at")
    title = f"{sentences.where(each)}: {each.state}, MAL {mal}, baseline {wording.length(each.baseline_mal)}"
    changes = dict.fromkeys([*marks, *([] if at is None else [at])])
    picture = charts.multiple(points, title, high, each.state, list(changes))
    head = (layout.state(each.state), " ", tag("a", sentences.where(each), href=site.links.stream(each.id)))
    return (
        tag("p", head, tag("small", f" {mal}")),
        picture or tag("p", layout.unknown("no drafts in this time")),
    )
