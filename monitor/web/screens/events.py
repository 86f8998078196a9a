"""Events: the list of them, and the page of one."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from monitor.web import fields, guidance, sentences, standings, wording
from monitor.web.markup import Child, Markup, tag
from monitor.web.screens import history, layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.web.fields import Record
    from monitor.web.screens.layout import Site
    from monitor.web.view import View

_MARGIN_SECONDS = 3600
_HEADERS = ("What", "Where", "Status", "Changed at", "MAL", "Cost")


def table(events: Sequence[Record], site: Site, numbers: Sequence[str] = ()) -> Markup:
    """Return a table of events; `numbers` are their labels in a chart, if they are in one."""
    if not events:
        return tag("p", "No events.")
    labels = numbers or [""] * len(events)
    rows = [_row(event, label, site) for event, label in zip(events, labels, strict=True)]
    return layout.table("Events, newest first", _HEADERS, rows, "events")


def page(view: View, event: Record, site: Site) -> bytes:
    """Return the page of one event."""
    event_id = fields.text(event, "id")
    return layout.page(
        site,
        f"{_words(event).capitalize()} on {_where(event)}",
        tag("p", sentences.event(event, site.now), class_=f"headline {_mood(event)}"),
        _when(event, site),
        tag("h2", "How much"),
        _before_after(event),
        _costs(event),
        *_history(view, event, site),
        tag("h2", "What else changed around it"),
        _facts(event),
        tag("h2", "Likely causes"),
        _causes(event),
        tag("h2", "What to do"),
        tag("ol", (tag("li", step) for step in guidance.steps(event))),
        json_link=f"{site.links.event(event_id)}?format=json",
    )


def _row(event: Record, label: str, site: Site) -> list[Child]:
    before, after = fields.record(event, "before"), fields.record(event, "after")
    moved = f"{wording.length(fields.number(before, 'mal'))} → {wording.length(fields.number(after, 'mal'))}"
    link = tag("a", _words(event), href=site.links.event(fields.text(event, "id")))
    slower = standings.slowdown(event)
    what = (tag("span", label, class_="number"), " ") if label else None
    return [
        tag("span", what, link, class_=f"severity {fields.text(event, 'severity')}"),
        _where(event),
        fields.text(event, "status"),
        layout.near(fields.number(event, "change_point_at"), site.now),
        moved,
        layout.value(wording.times(slower), "the cost could not be measured"),
    ]


def _when(event: Record, site: Site) -> Markup:
    low, high = fields.number(event, "change_point_low"), fields.number(event, "change_point_high")
    between = None
    if low is not None and high is not None:
        between = tag("small", f" between {wording.clock(low)} and {wording.clock(high)}")
    stream = fields.text(event, "stream")
    streams = [stream] if stream else fields.texts(event, "streams")
    links: list[Child] = [(tag("a", each, href=site.links.stream(each)), " ") for each in streams]
    return layout.facts(
        (
            ("Streams" if len(streams) > 1 else "Stream", links),
            ("Model", fields.text(event, "model_name") or layout.unknown("the engine does not say")),
            ("Severity", fields.text(event, "severity")),
            ("Status", fields.text(event, "status")),
            ("Changed at", (layout.moment(fields.number(event, "change_point_at"), site.now), between)),
            ("Raised at", layout.moment(fields.number(event, "raised_at"), site.now)),
            ("Closed at", layout.moment(fields.number(event, "closed_at"), site.now, "it is still open")),
        )
    )


def _before_after(event: Record) -> Markup:
    before, after = fields.record(event, "before"), fields.record(event, "after")
    rows: list[list[Child]] = []
    for name, field in (("Mean acceptance length", "mal"),):
        pair = fields.number(before, field), fields.number(after, field)
        rows.append([name, _level(before), _level(after), _change(*pair)])
    touched = {int(j) for j in fields.numbers(event, "positions") if j is not None}
    pairs = zip_longest(fields.numbers(before, "conditional"), fields.numbers(after, "conditional"))
    for position, (was, now) in enumerate(pairs):
        mark = " (changed)" if position in touched else ""
        rows.append(
            [
                f"Conditional acceptance at position {position}{mark}",
                _ratio(was),
                _ratio(now),
                _change(now=now, was=was),
            ]
        )
    rows.append(
        ["Drafts seen", *(wording.count(fields.number(side, "drafts")) for side in (before, after)), ""],
    )
    return layout.table("Before and after the change", ("", "Before", "After", "Change"), rows)


def _level(side: Record) -> Child:
    mal = wording.length(fields.number(side, "mal"))
    ends = wording.interval(fields.number(side, "mal_low"), fields.number(side, "mal_high"))
    if mal == wording.UNKNOWN:
        return layout.unknown("not enough drafts on this side")
    return (mal, tag("small", f" {ends}", title="95 % interval") if ends != wording.UNKNOWN else None)


def _ratio(value: float | None) -> Child:
    return layout.value(wording.ratio(value), "nothing reached this position")


def _change(was: float | None, now: float | None) -> Child:
    return layout.value(wording.change(now, was), "it needs both sides")


def _costs(event: Record) -> Markup:
    cost = fields.record(event, "cost")
    why = "the counters needed for it are not on the page"
    return layout.facts(
        (
            ("Benefit lost", layout.value(wording.percent(fields.number(cost, "benefit_lost_ratio")), why)),
            ("Time per token", layout.value(wording.times(fields.number(cost, "tpot_ratio")), why)),
            (
                "Tokens per step",
                layout.value(wording.times(fields.number(cost, "tokens_per_step_ratio")), why),
            ),
        )
    )


def _history(view: View, event: Record, site: Site) -> list[Markup]:
    """Return the figures around the event: as long before it as it lasts, at least an hour."""
    stream, at = fields.text(event, "stream"), fields.number(event, "change_point_at")
    if not stream or at is None:
        return []
    closed = fields.number(event, "closed_at")
    end = site.now if closed is None else min(site.now, closed + _MARGIN_SECONDS)
    start = at - max(end - at, _MARGIN_SECONDS)
    return history.figures(view.history(stream, start, end), [("1", event)], site, start, end)


def _facts(event: Record) -> Markup:
    facts = fields.texts(event, "facts")
    if not facts:
        return tag("p", "Nothing else that the engine exports changed near the change point.")
    return tag("ul", (tag("li", fact) for fact in facts))


def _causes(event: Record) -> Markup:
    rows: list[list[Child]] = [
        [
            fields.text(cause, "cause").replace("_", " "),
            wording.percent(fields.number(cause, "weight")),
            fields.text(cause, "evidence"),
        ]
        for cause in fields.records(event, "causes")
    ]
    if not rows:
        return tag("p", "No cause has been ranked.")
    return layout.table("Causes, likeliest first", ("Cause", "Weight", "Evidence"), rows, "causes")


def _words(event: Record) -> str:
    kind = fields.text(event, "kind")
    return sentences.KIND_WORDS.get(kind, kind)


def _where(event: Record) -> str:
    """Return what an event is about: a target, or a model with the number of its streams."""
    target = fields.text(event, "target")
    if target:
        return target
    streams = wording.plural(len(fields.texts(event, "streams")), "stream")
    model = fields.text(event, "model_name")
    return f"{streams} of {model}" if model else streams


def _mood(event: Record) -> str:
    if fields.text(event, "status") == "closed":
        return "calm"
    return {"critical": "bad", "warning": "warn"}.get(fields.text(event, "severity"), "calm")
