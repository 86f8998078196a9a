"""Acceptance by position of the draft, before and now, as a picture and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import pairs, positions, states, wording
from monitor.web.glossary import GLOSSARY
from monitor.web.markup import Child, tag
from monitor.web.pairs import Pair, PairPlot
from monitor.web.screens import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from monitor.web.fields import Record
    from monitor.web.intervals import Share
    from monitor.web.positions import Position
    from monitor.web.view import StreamView

_HEADERS = ("Position", "Marginal", "Before", "Now", "Baseline", "Change")


def section(stream: StreamView, closeup: Record) -> Iterator[Child]:
    """Yield the picture and the table of acceptance by position."""
    found = positions.of(stream, closeup)
    why = states.STATES[stream.state].why_unknown
    if not found:
        yield tag(
            "p", f"Not known: {why if not stream.estimate.get('drafts') else 'the page has no positions'}."
        )
        return
    places = [Pair(str(each.position), each.before, each.now, each.baseline) for each in found]
    title = "Conditional acceptance by position, before and now"
    picture = pairs.plot(PairPlot("positions", title, "position", "conditional", places))
    caption = "Conditional acceptance: before (hollow) and now (full) with 95 % intervals, baseline (dashed)"
    rows = [_position(each, why) for each in found]
    yield tag("figure", picture, tag("figcaption", caption))
    yield layout.table("Acceptance by position of the draft", _HEADERS, rows, "narrow positions")
    yield tag("p", tag("small", f"Marginal: {GLOSSARY['marginal acceptance']}"))
    yield tag("p", tag("small", f"Before, now, baseline: {GLOSSARY['conditional acceptance']}"))


def _position(each: Position, why: str) -> list[Child]:
    reached = "nothing reached this position" if each.position else why
    return [
        each.position,
        layout.value(wording.ratio(each.marginal), why),
        share(each.before, "it was not counted"),
        share(each.now, reached),
        layout.value(wording.ratio(each.baseline), "no baseline has been learnt yet"),
        layout.value(wording.change(each.now.value, each.before.value), "it needs both sides"),
    ]


def share(shown: Share, why_unknown: str) -> Child:
    """Return a ratio with its interval."""
    if shown.value is None:
        return layout.unknown(why_unknown)
    ends = "" if shown.low is None else f" {wording.ratio(shown.low)} to {wording.ratio(shown.high)}"
    return (wording.ratio(shown.value), tag("small", ends, title="95 % interval") if ends else None)
