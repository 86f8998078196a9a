"""One event: what, since when, how bad, why and what to do first; then the evidence, and what to paste."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from monitor.web import bars, fields, guidance, headlines, intervals, sentences, tickets, wording
from monitor.web.markup import Child, Markup, tag
from monitor.web.screens import events, history, layout, opening, replicas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.web.fields import Record
    from monitor.web.intervals import Share
    from monitor.web.links import Links
    from monitor.web.screens.layout import Site
    from monitor.web.view import StreamView, View

_MARGIN_SECONDS = 3600
_MOST_REPLICAS = 48


def page(view: View, event: Record, site: Site, links: Links) -> bytes:
    """Return the page of one event; `links` are those that a ticket has."""
    event_id = fields.text(event, "id")
    runbook = site.runbook(event)
    wanted = set(fields.texts(event, "streams"))
    members = [stream for stream in view.streams() if stream.id in wanted] if wanted else []
    return layout.page(
        site,
        f"{events.words(event).capitalize()} on {events.where(event)}",
        tag("p", sentences.event(event, site.now), class_=f"headline {_mood(event)}"),
        _first(event, guidance.engine_of(view, event), runbook, site),
        _when(event, site),
        tag("h2", "Before and after"),
        _before_after(view, event),
        *opening.section(event, site),
        *_history(view, event, site),
        *_members(view, event, members, site),
        tag("h2", "What else changed around it"),
        _facts(event),
        tag("h2", "Likely causes"),
        _causes(event),
        tag("h2", "For a ticket, and to see it again"),
        *_to_copy(event, site, links, runbook),
        newest=site.now,
        json_link=f"{site.links.event(event_id)}?format=json",
    )


def _first(event: Record, engine: str, runbook: str, site: Site) -> Markup:
    """Return why and what to do first, beside what it costs: all that somebody who was woken needs."""
    cause = headlines.likeliest(event)
    why: Child = "No cause is likelier than the others; the evidence is below."
    if cause:
        words = fields.text(cause, "cause").replace("_", " ")
        why = (tag("strong", words.capitalize()), f": {fields.text(cause, 'evidence')}")
    steps = guidance.steps(event, engine)
    first = tag("ol", (tag("li", step) for step in steps)) if steps else tag("p", "Nothing needs doing.")
    leads = [
        tag("a", "Runbook", href=runbook) if runbook else None,
        tag("a", "Dashboard", href=_dashboard(event, site)) if site.grafana else None,
        tag("a", "Model", href=site.links.model(fields.text(event, "model_name")))
        if fields.text(event, "model_name")
        else None,
        tag("a", "Events of this model", href=site.links.to(events.of_model(event))),
    ]
    return tag(
        "div",
        tag("section", tag("h2", "Why"), tag("p", why), class_="why"),
        tag("section", tag("h2", "What to do"), first, tag("p", leads, class_="leads")),
        tag("section", tag("h2", "What it costs"), _costs(event)),
        class_="first",
    )


def _dashboard(event: Record, site: Site) -> str:
    """Return the address of our dashboard of the event's stream or model, at the time of the event."""
    names = ("target", "model_name", "replica") if fields.text(event, "stream") else ("model_name",)
    query = {f"var-{name}": fields.text(event, name) for name in names}
    start, end = _span(event, site.now) or (site.now - _MARGIN_SECONDS, site.now)
    query |= {"from": f"{start * 1000:.0f}", "to": f"{end * 1000:.0f}"}
    board = "specmon-stream" if fields.text(event, "stream") else "specmon-fleet"
    return f"{site.grafana.rstrip('/')}/d/{board}?{urlencode(query)}"


def _costs(event: Record) -> Markup:
    known = [
        (name[0].upper() + name[1:], value)
        for name, value in tickets.costs(event)
        if value != wording.UNKNOWN
    ]
    if not known:
        return tag("p", "The counters needed for it are not on the page.")
    return layout.facts(known)


def _when(event: Record, site: Site) -> Markup:
    low, high = fields.number(event, "change_point_low"), fields.number(event, "change_point_high")
    between = None
    if low is not None and high is not None:
        between = tag("small", f" between {wording.clock(low)} and {wording.clock(high)}")
    stream = fields.text(event, "stream")
    count = len(fields.texts(event, "streams"))
    where: Child = (
        tag("a", stream, href=site.links.stream(stream)) if stream else wording.plural(count, "stream")
    )
    return layout.facts(
        (
            ("Stream" if stream else "Streams", where),
            ("Model", fields.text(event, "model_name") or layout.unknown("the engine does not say")),
            ("Severity", fields.text(event, "severity")),
            ("Status", fields.text(event, "status")),
            ("Changed at", (layout.moment(fields.number(event, "change_point_at"), site.now), between)),
            ("Raised at", layout.moment(fields.number(event, "raised_at"), site.now)),
            ("Closed at", layout.moment(fields.number(event, "closed_at"), site.now, "it is still open")),
        )
    )


def _before_after(view: View, event: Record) -> Markup:
    before, after = fields.record(event, "before"), fields.record(event, "after")
    pair = fields.number(before, "mal"), fields.number(after, "mal")
    shown = view.stream(fields.text(event, "stream")) if fields.text(event, "status") == "open" else None
    rows: list[list[Child]] = [
        ["Mean acceptance length", _level(before), _level(after), _change(*pair), _now(shown)]
    ]
    touched = {int(j) for j in fields.numbers(event, "positions") if j is not None}
    present = fields.numbers(shown.estimate, "conditional") if shown else []
    sides = zip_longest(intervals.by_position(before), intervals.by_position(after), fillvalue=None)
    for position, (was, now) in enumerate(sides):
        mark = " (changed)" if position in touched else ""
        at_present = present[position] if position < len(present) else None
        rows.append(
            [
                f"Conditional acceptance at position {position}{mark}",
                _share(was),
                _share(now),
                _change(was.value if was else None, now.value if now else None),
                layout.value(
                    wording.ratio(at_present), "the event is over, or nothing reaches the position now"
                ),
            ]
        )
    drafts = (wording.count(fields.number(side, "drafts")) for side in (before, after))
    rows.append(["Drafts seen", *drafts, "", ""])
    caption = "Levels with 95 % intervals; positions count from 0"
    return layout.table(caption, ("Measure", "Before", "After", "Change", "Now"), rows)


def _now(shown: StreamView | None) -> Child:
    if shown is None:
        return layout.unknown("the event is over, or of several streams")
    mal = fields.number(shown.estimate, "mal")
    return layout.value(wording.length(mal), f"the stream is {shown.state}")


def _level(side: Record) -> Child:
    mal = wording.length(fields.number(side, "mal"))
    ends = wording.interval(fields.number(side, "mal_low"), fields.number(side, "mal_high"))
    if mal == wording.UNKNOWN:
        return layout.unknown("not enough drafts on this side")
    return (mal, tag("small", f" {ends}", title="95 % interval") if ends != wording.UNKNOWN else None)


def _share(share: Share | None) -> Child:
    if share is None or share.value is None:
        return layout.unknown("nothing reached this position")
    label = f"{share.value:.3f} of 1"
    ends = "" if share.low is None else f" {share.low:.3f} to {share.high:.3f}"
    picture = bars.bar(share.value, None, label)
    return tag("span", wording.ratio(share.value), tag("small", ends, title="95 % interval"), picture)


def _change(was: float | None, now: float | None) -> Child:
    return layout.value(wording.change(now, was), "it needs both sides")


def _span(event: Record, now: float) -> tuple[float, float] | None:
    """Return the time around an event: as long before it as it lasts, at least an hour."""
    at = fields.number(event, "change_point_at")
    if at is None:
        return None
    closed = fields.number(event, "closed_at")
    end = now if closed is None else min(now, closed + _MARGIN_SECONDS)
    return at - max(end - at, _MARGIN_SECONDS), end


def _history(view: View, event: Record, site: Site) -> list[Markup]:
    span, stream = _span(event, site.now), fields.text(event, "stream")
    if span is None:
        return []
    model = fields.text(event, "model_name")
    buckets = view.history(stream, *span) if stream else view.model_history(model, *span)
    return [tag("h2", "The time around it"), *history.figures(buckets, [("1", event)], site, span)]


def _members(view: View, event: Record, members: Sequence[StreamView], site: Site) -> list[Markup]:
    span = _span(event, site.now)
    if not members or span is None:
        return []
    at = fields.number(event, "change_point_at")
    pictures = replicas.multiples(
        view, members[:_MOST_REPLICAS], site, *span, marks=[] if at is None else [at]
    )
    rest = len(members) - _MOST_REPLICAS
    more = tag("p", f"and {rest:,} more") if rest > 0 else Markup("")
    return [tag("h2", "Replicas"), pictures, more]


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


def _to_copy(event: Record, site: Site, links: Links, runbook: str) -> list[Child]:
    text = tickets.markdown(event, links, site.now, runbook)
    area = tag("textarea", text, readonly=True, rows=12, aria_label="the event in Markdown", data_copy=True)
    address = f"{site.links.event(fields.text(event, 'id'))}?format=markdown"
    return [
        tag("details", tag("summary", "Copy for a ticket (Markdown)"), area),
        tag("p", tag("a", "the same as plain text", href=address)),
        tag("p", "Run the time around it through the same code again, from your Prometheus:"),
        tag("pre", tag("code", tickets.replay(event, site.now))),
    ]


def _mood(event: Record) -> str:
    if fields.text(event, "status") == "closed":
        return "calm"
    return {"critical": "bad", "warning": "warn"}.get(fields.text(event, "severity"), "calm")
