"""What was counted of a stream, the estimates as they follow from it, and what was wrong with its pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import fields, formulas, wording
from monitor.web.glossary import CHECKS
from monitor.web.markup import Child, tag
from monitor.web.screens import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from monitor.web.fields import Record
    from monitor.web.screens.layout import Site

_NAMES = {
    "mal": "mean acceptance length",
    "draft_token_acceptance_ratio": "draft token acceptance ratio",
    "coverage": "coverage",
    "tokens_per_step": "tokens per step",
    "step_seconds": "step time, s",
    "implied_tpot_seconds": "implied TPOT, s",
    "observed_tpot_seconds": "observed TPOT, s",
    "batch_size": "batch size",
}


def quality(closeup: Record) -> Iterator[Child]:
    """Yield what was wrong with the stream's pages."""
    found = fields.record(closeup, "quality")
    read, restarts = fields.number(found, "scrapes_read"), fields.number(found, "restarts")
    refused = fields.record(found, "scrapes_refused")
    times = {**fields.record(found, "violations")}
    yield tag(
        "p",
        f"{wording.count(read)} pages read and {wording.count(sum(_whole(refused).values()))} refused since ",
        f"the target was first seen; restarts of the engine: {wording.count(restarts)}.",
    )
    if fields.text(found, "contradiction"):
        yield tag("p", f"The last contradiction: {fields.text(found, 'contradiction')}.")
    rows = [[name.replace("_", " "), f"{number:,}", CHECKS[name]] for name, number in _whole(times).items()]
    rows += [
        [f"refused: {name.replace('_', ' ')}", f"{number:,}", ""] for name, number in _whole(refused).items()
    ]
    if rows:
        yield layout.table("Findings so far", ("Finding", "Times", "What it means"), rows)
    else:
        yield tag("p", "Its counters never contradicted each other, and every page was read.")


def _whole(record: Record) -> dict[str, int]:
    return {name: value for name, value in record.items() if isinstance(value, int)}


def counted(closeup: Record, site: Site) -> Iterator[Child]:
    """Yield the counters of the window, and the estimates as they follow from them."""
    counters = fields.record(closeup, "counters")
    moved, page = fields.record(counters, "moved"), fields.record(counters, "on_page")
    seconds, read_at = fields.number(counters, "window_seconds"), fields.number(counters, "read_at")
    window = "the window" if seconds is None else f"the last {wording.span(seconds)}"
    filled = [
        [_NAMES[each.name], each.definition, each.filled, f"{each.value:.4g}"] for each in formulas.of(moved)
    ]
    if filled:
        caption = f"Formulas with the counters of {window}"
        yield layout.table(caption, ("Number", "Formula", "With numbers", "Result"), filled, "formulas")
    rows = [
        [name.replace("_", " "), _exact(fields.number(moved, name)), _exact(fields.number(page, name))]
        for name in moved
    ]
    both = fields.numbers(counters, "accepted_moved"), fields.numbers(counters, "accepted_on_page")
    rows += [
        [f"accepted at position {index}", _exact(first), _exact(second)]
        for index, (first, second) in enumerate(zip(*both, strict=True))
    ]
    when = "" if read_at is None else f", read {wording.ago(read_at, site.now)}"
    headers = ("Counter", f"Grew in {window}", f"On the last page{when}")
    table = layout.table("Counters, in the words that all engines are read into", headers, rows, "narrow")
    yield tag("details", tag("summary", "The counters themselves"), table)


def _exact(value: float | None) -> Child:
    if value is None:
        return layout.unknown("the page has no counter for it")
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
