"""The report's first page: all streams, worst first, and what has happened last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import charts, fields, sentences, series, states, wording
from monitor.web.markup import Child, Markup, join, tag
from monitor.web.screens import events, layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.web.screens.layout import Site
    from monitor.web.view import StreamView, View

SPARK_SECONDS = 3600
_SPARK_POINTS = 60
_RECENT_EVENTS = 10
_CAPTION = (
    "Streams, worst first. MAL, mean acceptance length: tokens that a draft yields; at 1 it gains nothing."
)
_HEADERS = ("State", "Stream", "MAL now", "Baseline", "Change", "Cost", "Since", "Last hour")


def page(view: View, site: Site, shown: Sequence[StreamView], total: int) -> bytes:
    """Return the report of `shown` streams (in this order) out of `total`."""
    streams = view.streams()
    rows = [_row(view, stream, site) for stream in shown]
    note = f"The worst {len(shown)} of {wording.plural(total, 'stream')}; all of them are in the JSON."
    return layout.page(
        site,
        "Speculative decoding report",
        tag("p", sentences.fleet(streams, site.now), class_=f"headline {_mood(streams)}"),
        _unseen(view, site),
        _counts(streams, site),
        layout.table(_CAPTION, _HEADERS, rows, "streams") if rows else _nothing(site),
        tag("p", note) if len(shown) < total else None,
        tag("h2", "Latest events"),
        events.table(view.events(limit=_RECENT_EVENTS), site),
        json_link=site.links.to("/report?format=json"),
    )


def _row(view: View, stream: StreamView, site: Site) -> list[Child]:
    why = states.STATES[stream.state].why_unknown
    level = sentences.level_now(stream, site.now)
    mal = fields.number(level, "mal")
    ends = wording.interval(fields.number(level, "mal_low"), fields.number(level, "mal_high"))
    now = (
        tag("strong", wording.length(mal)),
        tag("small", ends, title="95 % interval") if mal is not None and ends != wording.UNKNOWN else None,
    )
    at = fields.number(stream.open_event or {}, "change_point_at")
    return [
        layout.state(stream.state),
        _name(stream, site),
        tag("span", now, class_="stack") if mal is not None else layout.unknown(why),
        layout.value(wording.length(stream.baseline_mal), "no baseline has been learnt yet"),
        layout.value(wording.change(mal, stream.baseline_mal), "it needs a value and a baseline"),
        cost(stream),
        layout.moment(
            stream.state_since if at is None else at,
            site.now,
            "the state has not changed since specmon has watched",
        ),
        _spark(view, stream, site),
    ]


def cost(stream: StreamView) -> Child:
    """Return what a change costs: how much slower, and the share of benefit lost."""
    if stream.state not in {"collapsed", "drifting", "silent"}:
        return layout.unknown("no change for the worse is open")
    parts: list[Child] = []
    slower, lost = sentences.slowdown(stream), sentences.lost_ratio(stream)
    if slower is not None:
        parts.append(tag("strong", f"{wording.times(slower)} time per token"))
    if lost is not None:
        parts.append(tag("small", f"{wording.percent(lost)} of benefit lost"))
    return tag("span", parts, class_="stack") if parts else layout.unknown("the cost could not be measured")


def _name(stream: StreamView, site: Site) -> Markup:
    details = [stream.model_name]
    if stream.replica not in {"", "0"}:
        details.append(f"replica {stream.replica}")
    return tag(
        "span",
        tag("a", stream.target, href=site.links.stream(stream.id)),
        tag("small", " · ".join(filter(None, details))),
        class_="stack",
    )


def _spark(view: View, stream: StreamView, site: Site) -> Child:
    buckets = series.thinned(view.history(stream.id, site.now - SPARK_SECONDS, site.now), _SPARK_POINTS)
    mal = fields.number(sentences.level_now(stream, site.now), "mal")
    label = f"mean acceptance length over the last hour, now {wording.length(mal)}"
    return charts.sparkline(series.acceptance(buckets), label, stream.state) or layout.unknown(
        "no drafts in the last hour"
    )


def _unseen(view: View, site: Site) -> Markup | None:
    sentence = sentences.unseen(view.targets())
    link = tag("a", "All targets", href=site.links.to("/targets"))
    return tag("p", f"{sentence} ", link, class_="headline warn") if sentence else None


def _counts(streams: Sequence[StreamView], site: Site) -> Markup:
    items = (
        tag("li", tag("a", f"{number} ", layout.state(name), href=site.links.to(f"/report?state={name}")))
        for name, number in states.counts(streams).items()
    )
    return tag("ul", items, class_="counts", aria_label="streams by state")


def _mood(streams: Sequence[StreamView]) -> str:
    if not streams:
        return "none"  # nothing known is not all well
    worst = min(states.rank(stream.state) for stream in streams)
    return ("bad", "bad", "warn")[worst] if worst <= states.rank("drifting") else "calm"


def _nothing(site: Site) -> Markup:
    return tag(
        "p",
        join(
            (
                "Nothing to show: ",
                tag("a", "the targets", href=site.links.to("/targets")),
                " say what is scraped and what the last answer was.",
            )
        ),
    )
