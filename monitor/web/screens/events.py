"""The table of events, and the words that name one."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from monitor.web import fields, sentences, standings, wording
from monitor.web.markup import Child, Markup, tag
from monitor.web.screens import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.web.fields import Record
    from monitor.web.screens.layout import Site

_HEADERS = ("What", "Where", "Status", "Changed at", "MAL", "Cost")


def table(events: Sequence[Record], site: Site, numbers: Sequence[str] = ()) -> Markup:
    """Return a table of events; `numbers` are their labels in a chart, if they are in one."""
    if not events:
        return tag("p", "No events.")
    labels = numbers or [""] * len(events)
    rows = [_row(event, label, site) for event, label in zip(events, labels, strict=True)]
    return layout.table("Events, newest first", _HEADERS, rows, "events")


def _row(event: Record, label: str, site: Site) -> list[Child]:
    before, after = fields.record(event, "before"), fields.record(event, "after")
    moved = f"{wording.length(fields.number(before, 'mal'))} → {wording.length(fields.number(after, 'mal'))}"
    link = tag("a", words(event), href=site.links.event(fields.text(event, "id")))
    slower = standings.slowdown(event)
    what = (tag("span", label, class_="number"), " ") if label else None
    return [
        tag("span", what, link, class_=f"severity {fields.text(event, 'severity')}"),
        where(event),
        fields.text(event, "status"),
        layout.near(fields.number(event, "change_point_at"), site.now),
        moved,
        layout.value(wording.times(slower), "the cost could not be measured"),
    ]


def words(event: Record) -> str:
    """Return what happened, in words."""
    kind = fields.text(event, "kind")
    return sentences.KIND_WORDS.get(kind, kind)


def where(event: Record) -> str:
    """Return what an event is about: a target, or a model with the number of its streams."""
    target = fields.text(event, "target")
    if target:
        return target
    streams = wording.plural(len(fields.texts(event, "streams")), "stream")
    model = fields.text(event, "model_name")
    return f"{streams} of {model}" if model else streams


def of_model(event: Record) -> str:
    """Return the path of the list of the events of an event's model, or of its stream where it has none."""
    name = "model" if fields.text(event, "model_name") else "stream"
    value = fields.text(event, "model_name") or fields.text(event, "stream")
    return f"/report/events?{urlencode({name: value})}"
