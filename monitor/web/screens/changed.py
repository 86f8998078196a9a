"""What changed of a stream or a model: seen on its pages, and told by somebody, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import fields, timeline, wording
from monitor.web.markup import Markup, tag
from monitor.web.screens import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.web.fields import Record
    from monitor.web.markup import Child
    from monitor.web.screens.layout import Site
    from monitor.web.view import StreamView, View

MOST_SHOWN = 50


def since(
    view: View, start: float, *, stream: StreamView | None = None, model_name: str = ""
) -> list[Record]:
    """Return what changed since `start` (unix seconds), newest first."""
    found = timeline.of(view, stream=stream, model_name=model_name, span=(start, view.now + 1.0))
    return found[:MOST_SHOWN]


def section(changes: Sequence[Record], site: Site) -> Markup:
    """Return the list, or what it would hold where nothing changed."""
    if not changes:
        return tag(
            "p",
            "Nothing is known to have changed in this time. Restarts and what pages say of the engine are ",
            "seen; ",
            tag("code", "specmon change"),
            " tells of the rest.",
        )
    caption = f"{wording.plural(len(changes), 'change')} in this time, newest first"
    return layout.table(
        caption, ("When", "What", "Of", "Known from"), [_row(each, site) for each in changes], "changes"
    )


def notes(changes: Sequence[Record]) -> list[tuple[float, str]]:
    """Return the times of the changes, each with its words, for a chart."""
    return [
        (at, fields.text(each, "text")) for each in changes if (at := fields.number(each, "at")) is not None
    ]


def _row(each: Record, site: Site) -> list[Child]:
    where = " on ".join(filter(None, (fields.text(each, "model_name"), fields.text(each, "target"))))
    return [
        layout.moment(fields.number(each, "at"), site.now),
        fields.text(each, "text"),
        where or "all models",
        "its page" if each["source"] == "seen" else f"told as {fields.text(each, 'id')}",
    ]
