"""The list of models with their replicas folded away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import charts, fields, headlines, levels, sentences, series, standings, states, wording
from monitor.web.markup import Child, Markup, tag
from monitor.web.screens import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from monitor.web.screens.layout import Site
    from monitor.web.standings import ModelView
    from monitor.web.view import StreamView, View

SPARK_SECONDS = 6 * 3600
_SPARK_POINTS = 60
_FOLDED = 12
_HEADERS = ("State", "Model", "MAL now", "Reference", "Cost", "Since", "Last 6 hours")
_REPLICA_HEADERS = ("State", "Replica", "MAL now", "Baseline", "Change", "Cost", "Since")


def listed(view: View, models: Sequence[ModelView], site: Site, *, opened: bool) -> Markup:
    """Return the models in the order given; `opened` shows the replicas of those where not all is well."""
    head = tag("div", (tag("span", each) for each in _HEADERS), class_="head", aria_hidden="true")
    items = [
        tag(
            "li", _cells(view, each, site), _replicas(each, site, opened=opened), class_=f"model {each.state}"
        )
        for each in models
    ]
    return tag("div", head, tag("ol", items, aria_label="models"), class_="models")


def verdict(model: ModelView, now: float, site: Site) -> Child:
    """Return what is wrong with a model, why, and what to do first, with a link to the rest."""
    cause, first = headlines.likely_cause(model), headlines.what_to_do(model)
    evidence = tag("span", f" ({headlines.evidence(model)})", class_="detail")
    event = model.event.get("id")
    return (
        headlines.model(model, now),
        tag("span", f" Likely cause: {cause}", evidence, ".", class_="why") if cause else None,
        (" ", tag("a", "What to do", href=site.links.event(str(event)))) if event else None,
        tag("span", f": {first}", class_="detail") if event and first else None,
    )


def mood(model: ModelView) -> str:
    """Return how a verdict looks."""
    return "bad" if model.state in states.LOST else "warn"


def _cells(view: View, model: ModelView, site: Site) -> Markup:
    level = model.level
    now: Child = layout.unknown(states.STATES[model.state].why_unknown)
    if level.mal is not None:
        ends = wording.interval(level.low, level.high)
        interval = None if ends == wording.UNKNOWN else tag("small", ends, title="95 % interval")
        now = (tag("strong", wording.length(level.mal)), " ", interval)
    change = wording.change(level.mal, level.reference)
    cells: tuple[tuple[str, Child], ...] = (
        ("state", layout.state(model.state)),
        ("name", _name(model, site)),
        ("mal", now),
        (
            "reference",
            (
                layout.value(wording.length(level.reference), "no baseline has been learnt yet"),
                tag("small", f" {change}") if change != wording.UNKNOWN else None,
            ),
        ),
        ("cost", _cost(model)),
        ("since", _since(model, site)),
        ("spark", _spark(view, model, site)),
    )
    labels = dict(zip((name for name, _ in cells), _HEADERS, strict=True))
    made = (
        tag("div", tag("span", labels[name], class_="label"), " ", tag("span", cell), class_=name)
        for name, cell in cells
    )
    return tag("div", made, class_="row")


def _name(model: ModelView, site: Site) -> Child:
    name = headlines.model_name(model)
    total = len(model.streams)
    if total == 1:
        stream = model.streams[0]
        return (
            tag("a", name, href=site.links.stream(stream.id)),
            tag("small", f" {sentences.where(stream)}", class_="line"),
        )
    odd = model.odd
    links = (tag("a", each.target, href=site.links.stream(each.id)) for each in odd[:3])
    return (
        tag("a", name, href=site.links.model(model.model_name)),
        tag("small", "odd one out: " if len(odd) == 1 else "odd ones: ", with_commas(links), class_="line")
        if odd
        else None,
    )


def with_commas(links: Iterable[Child]) -> Child:
    """Return the links with commas between them."""
    made: list[Child] = []
    for link in links:
        made += [", ", link] if made else [link]
    return made


def _cost(model: ModelView) -> Child:
    if not model.bad:
        return layout.unknown("nothing is below what it was")
    lost, slower, hours = model.bad_level.lost_ratio, model.slowdown, headlines.loss_per_day(model)
    parts: list[Child] = []
    if slower is not None:
        parts.append(tag("strong", f"{wording.times(slower)} time per token"))
    if lost is not None:
        parts.append(tag("small", f" {wording.percent(lost)} of benefit lost", class_="line"))
    if hours:
        parts.append(tag("small", f" {hours}", class_="line"))
    if parts and len(model.bad) < len(model.streams):
        parts.append(
            tag("small", f" on {len(model.bad):,} of {len(model.streams):,} replicas", class_="line")
        )
    return parts or layout.unknown("the cost could not be measured")


def _since(model: ModelView, site: Site) -> Child:
    at = model.since
    if at is None:
        known = [each.state_since for each in model.streams if each.state_since is not None]
        at = max(known, default=None) if len(model.streams) == 1 else None
    return layout.near(at, site.now, "nothing is below what it was")


def _spark(view: View, model: ModelView, site: Site) -> Child:
    start = site.now - SPARK_SECONDS
    buckets = series.thinned(view.model_history(model.model_name, start, site.now), _SPARK_POINTS)
    label = f"mean acceptance length over the last 6 hours, now {wording.length(model.level.mal)}"
    events = [event for event in (model.event, *(s.open_event for s in model.bad[:_FOLDED])) if event]
    marks = sorted({at for event in events if (at := fields.number(event, "change_point_at")) is not None})
    drawn = charts.sparkline(series.acceptance(buckets), label, model.state, marks)
    return drawn or layout.unknown("no drafts in the last 6 hours")


def _replicas(model: ModelView, site: Site, *, opened: bool) -> Markup | None:
    total = len(model.streams)
    if total == 1:
        return None
    shown = model.streams[:_FOLDED]
    rest = None
    if total > len(shown):
        link = tag("a", f"all {total:,} replicas", href=site.links.model(model.model_name))
        rest = tag("p", f"The worst {len(shown)} of ", link, ".")
    parts = ", ".join(f"{number:,} {state}" for state, number in model.counts.items())
    words = f"{total:,} replicas: {parts}"
    rows = table(shown, site, f"Replicas of {headlines.model_name(model)}, worst first")
    return tag("details", tag("summary", words), rows, rest, open=opened and bool(model.bad))


def table(streams: Sequence[StreamView], site: Site, caption: str) -> Markup:
    """Return a table of streams in the order given."""
    return layout.table(caption, _REPLICA_HEADERS, [_row(stream, site) for stream in streams], "streams")


def _row(stream: StreamView, site: Site) -> list[Child]:
    level = levels.of_stream(stream, site.now)
    mal = fields.number(level, "mal")
    ends = wording.interval(fields.number(level, "mal_low"), fields.number(level, "mal_high"))
    now = (
        tag("strong", wording.length(mal)),
        tag("small", ends, title="95 % interval") if ends != wording.UNKNOWN else None,
    )
    return [
        layout.state(stream.state),
        tag("a", sentences.where(stream), href=site.links.stream(stream.id)),
        tag("span", now, class_="stack")
        if mal is not None
        else layout.unknown(states.STATES[stream.state].why_unknown),
        layout.value(wording.length(stream.baseline_mal), "no baseline has been learnt yet"),
        layout.value(wording.change(mal, stream.baseline_mal), "it needs a value and a baseline"),
        _stream_cost(stream),
        layout.near(
            standings.changed_at(stream),
            site.now,
            "the state has not changed since specmon has watched",
        ),
    ]


def _stream_cost(stream: StreamView) -> Child:
    """Return what a change costs: how much slower, and the share of benefit lost."""
    if stream.state not in standings.BAD:
        return layout.unknown("no change for the worse is open")
    parts: list[Child] = []
    slower, lost = sentences.slowdown(stream), sentences.lost_ratio(stream)
    if slower is not None:
        parts.append(tag("strong", f"{wording.times(slower)} time per token"))
    if lost is not None:
        parts.append(tag("small", f"{wording.percent(lost)} of benefit lost"))
    hours = fields.number(stream.cost or {}, "gpu_hours_per_day")
    if hours is not None:
        parts.append(tag("small", f"{wording.amount(hours)} GPU-hours a day"))
    return tag("span", parts, class_="stack") if parts else layout.unknown("the cost could not be measured")
