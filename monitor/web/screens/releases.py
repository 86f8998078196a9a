"""The releases of a model: what runs side by side, what each was found to be, and what was learnt of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import fields, sentences, wording
from monitor.web.markup import Child, Markup, tag
from monitor.web.screens import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from monitor.web.fields import Record
    from monitor.web.screens.layout import Site
    from monitor.web.served import Served

_HEADERS = ("Release", "Replicas", "MAL now", "Baseline", "States", "Against the one before")
_VERDICT_HEADERS = ("When", "What changed", "Verdict", "MAL", "In tokens per draft")
_REFERENCE_HEADERS = ("Kind of stream", "MAL", "Drafts", "Since", "Taught last", "Streams, newest first")
_MOST_STANDINGS = 6


def side_by_side(served: Iterable[Served], site: Site) -> Markup:
    """Return what runs now, each with its level and the verdict on it."""
    rows = [_served(each, site) for each in served]
    return layout.table("What runs now, most replicas first", _HEADERS, rows, "releases")


def _served(each: Served, site: Site) -> list[Child]:
    ends = wording.interval(each.mal_low, each.mal_high)
    interval = tag("small", f" {ends}", title="95 % interval") if ends != wording.UNKNOWN else None
    now = (wording.length(each.mal), interval)
    found = sentences.verdict({"verdict": each.verdict})
    return [
        each.words,
        f"{len(each.streams):,}",
        now if each.mal is not None else layout.unknown("no drafts were counted"),
        layout.value(wording.length(each.reference_mal), "no baseline has been learnt yet"),
        ", ".join(f"{number:,} {state}" for state, number in each.counts.items()),
        tag("a", found, href=site.links.event(each.event))
        if found
        else layout.unknown("it was not compared with another one"),
    ]


def verdicts(compared: Sequence[Record], site: Site) -> Markup:
    """Return what releases and new regimes were found to be, newest first."""
    if not compared:
        return tag("p", "No release or new regime has been compared with the one before it yet.")
    rows = [_verdict(event, site) for event in compared]
    return layout.table("Releases and new regimes against what ran before", _VERDICT_HEADERS, rows)


def _verdict(event: Record, site: Site) -> list[Child]:
    before, after = (fields.number(fields.record(event, side), "mal") for side in ("before", "after"))
    found = fields.record(event, "verdict")
    difference = fields.number(found, "difference")
    low, high = fields.number(found, "low"), fields.number(found, "high")
    changed = next(iter(fields.texts(event, "facts")), "") or "not said"
    return [
        layout.moment(fields.number(event, "change_point_at"), site.now),
        changed,
        tag("a", sentences.verdict(event), href=site.links.event(fields.text(event, "id"))),
        f"{wording.length(before)} → {wording.length(after)}",
        layout.value(wording.signed(difference), "only levels were compared")
        if low is None or high is None
        else f"{wording.signed(difference)} ({wording.signed(low)} to {wording.signed(high)})",
    ]


def references(known: Sequence[Record], site: Site) -> Iterator[Child]:
    """Yield what the model's streams have learnt of each way of serving it, as new streams begin with it."""
    if not known:
        yield tag(
            "p", "Nothing has been learnt yet that outlives the replicas: it takes hours of calm traffic."
        )
        return
    yield layout.table(
        "What new replicas begin with, taught last first",
        _REFERENCE_HEADERS,
        [_reference(each, site) for each in known],
    )


def _reference(each: Record, site: Site) -> list[Child]:
    names = ("engine", "engine_version", "method", "draft_model", "release", "environment")
    said = [fields.text(each, name) for name in names]
    k = fields.number(each, "num_speculative_tokens")
    said += [f"k = {k:.0f}"] if k else []
    stood = [
        f"{wording.length(fields.number(one, 'mal'))} {wording.ago(at, site.now)}"
        for one in fields.records(each, "standings")[: -_MOST_STANDINGS - 1 : -1]
        if (at := fields.number(one, "at")) is not None
    ]
    return [
        ", ".join(filter(None, said)) or "not said",
        wording.length(fields.number(each, "mal")),
        wording.amount(fields.number(each, "drafts")),
        _ago(fields.number(each, "began_at"), site),
        _ago(fields.number(each, "at"), site),
        ", ".join(stood),
    ]


def _ago(unix_seconds: float | None, site: Site) -> Child:
    if unix_seconds is None:
        return layout.unknown("it is not kept")
    return tag(
        "time",
        wording.ago(unix_seconds, site.now),
        datetime=wording.iso(unix_seconds),
        title=wording.clock(unix_seconds),
    )
