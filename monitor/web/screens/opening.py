"""What an event was told with when it opened, beside what holds now, or held at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import fields, headlines, tickets, wording
from monitor.web.markup import Child, tag
from monitor.web.screens import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from monitor.web.fields import Record
    from monitor.web.screens.layout import Site

_NOT_TOLD = "it was not known yet"


def section(event: Record, site: Site) -> Iterator[Child]:
    """Yield the comparison; nothing where the event does not keep what it was told with."""
    told = fields.record(event, "at_opening")
    if not told:
        return
    over = fields.text(event, "status") == "closed"
    looked = fields.number(event, "present_at")
    rows = [
        ["mean acceptance length", *(_level(side) for side in (told, event))],
        *_costs(told, event),
        ["likeliest cause", *(_cause(side) for side in (told, event))],
    ]
    yield tag("h2", "When it was told, and at its end" if over else "When it was told, and now")
    yield layout.table(
        _caption(fields.number(event, "raised_at"), looked, site),
        ("Measure", "When it was told", "At its end" if over else "Now"),
        rows,
        "narrow",
    )


def _caption(raised: float | None, looked: float | None, site: Site) -> str:
    first = "at first" if raised is None else f"at {wording.clock(raised)}"
    last = "" if looked is None else f"; looked at last {wording.ago(looked, site.now)}"
    return f"Told {first}{last}"


def _level(side: Record) -> Child:
    after = fields.record(side, "after")
    return layout.value(wording.length(fields.number(after, "mal")), "not enough drafts after the change")


def _costs(told: Record, event: Record) -> Iterator[list[Child]]:
    for (name, first), (_, last) in zip(tickets.costs(told), tickets.costs(event), strict=True):
        if {first, last} != {wording.UNKNOWN}:
            yield [name, layout.value(first, _NOT_TOLD), layout.value(last, "it is not known")]


def _cause(side: Record) -> Child:
    cause = headlines.likeliest(side)
    if not cause:
        return layout.unknown("none is likelier than the others")
    weight = wording.percent(fields.number(cause, "weight"))
    return f"{fields.text(cause, 'cause').replace('_', ' ')} ({weight})"
