"""One model: the verdict, its replicas as small pictures on one scale, its releases side by side, events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import fields, headlines, selection, sentences, served, wording
from monitor.web.markup import Child, Markup, tag
from monitor.web.screens import (
    changed,
    choosing,
    events,
    history,
    layout,
    model_list,
    releases,
    replicas,
    stream,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from monitor.web.screens.layout import Site
    from monitor.web.selection import Selection
    from monitor.web.standings import ModelView
    from monitor.web.view import View

REPLICAS_PER_PAGE = 24
_EVENTS = 20


def page(view: View, model: ModelView, site: Site, chosen: Selection, span: str) -> bytes:
    """Return the page of a model with the history of `span`, a key of the stream page's ranges."""
    name = headlines.model_name(model)
    start = site.now - stream.RANGES[span]
    listed = view.events(model_name=model.model_name, limit=_EVENTS)
    numbers = [str(number) for number in range(len(listed), 0, -1)]
    buckets = view.model_history(model.model_name, start, site.now)
    changes = changed.since(view, start, model_name=model.model_name)
    shown = selection.part(chosen, model.streams)
    own = [(label, event) for label, event in zip(numbers, listed, strict=True)]
    return layout.page(
        site,
        name,
        _verdict(model, site),
        _about(model),
        tag("h2", "History"),
        stream.ranges(site.links.model(model.model_name), span),
        *history.figures(buckets, own, site, (start, site.now), notes=changed.notes(changes)),
        tag("h2", "What changed"),
        changed.section(changes, site),
        tag("h2", "Replicas"),
        replicas.multiples(view, shown, site, start, site.now, odd=model.odd),
        choosing.pages(
            site,
            f"/report/models/{_path(site, model)}",
            chosen,
            REPLICAS_PER_PAGE,
            len(model.streams),
            "replica",
        ),
        model_list.table(shown, site, "Worst first"),
        *_ways(view, model, site),
        tag("h2", "Events"),
        events.table(listed, site, numbers),
        newest=layout.newest(model.streams),
        json_link=f"{site.links.model(model.model_name)}?format=json",
    )


def _ways(view: View, model: ModelView, site: Site) -> Iterator[Child]:
    """Yield what is known of each way of serving the model, and which would be better."""
    compared = served.compared(view, model.model_name)
    yield tag("h2", "Releases")
    yield releases.side_by_side(served.of(model.streams, compared, site.now), site)
    yield releases.verdicts(compared, site)
    yield tag("h2", "Reference")
    yield from releases.references(view.references(model.model_name), site)
    yield tag("h2", "Advice")
    yield _advice(view, model)


def _path(site: Site, model: ModelView) -> str:
    return site.links.model(model.model_name).removeprefix(site.links.to("/report/models/"))


def _verdict(model: ModelView, site: Site) -> Markup:
    if model.bad:
        return tag(
            "p", model_list.verdict(model, site.now, site), class_=f"headline {model_list.mood(model)}"
        )
    parts = ", ".join(f"{number:,} {state}" for state, number in model.counts.items())
    mal, blind = model.level.mal, sentences.blind(model.streams)
    level = "" if mal is None else f" A draft yields {mal:.2f} tokens."
    told = f"No replica is{' known to be' if blind else ''} below what it was: {parts}.{level} {blind}"
    return tag("p", told.rstrip(), class_=f"headline {'warn' if blind else 'calm'}")


def _about(model: ModelView) -> Markup:
    level = model.level
    mal = f"{wording.length(level.mal)} ({wording.interval(level.low, level.high)})"
    pays = [fields.text(fields.record(each.estimate, "payoff"), "outcome") for each in model.streams[:200]]
    judged = {outcome: pays.count(outcome) for outcome in dict.fromkeys(pays) if outcome}
    words = ", ".join(f"{number:,} {outcome.replace('_', ' ')}" for outcome, number in judged.items())
    rows: tuple[tuple[str, Child], ...] = (
        ("Replicas", ", ".join(f"{number:,} {state}" for state, number in model.counts.items())),
        (
            "MAL now, all drafts together",
            mal if level.mal is not None else layout.unknown("no drafts counted"),
        ),
        ("Reference", layout.value(wording.length(level.reference), "no baseline has been learnt yet")),
        ("Change", layout.value(wording.change(level.mal, level.reference), "it needs both")),
        ("Does it pay?", words or layout.unknown("no drafts were counted yet")),
    )
    return layout.facts(rows)


def _advice(view: View, model: ModelView) -> Markup:
    best, given = served.advised(view, model.streams)
    sentence, flag = fields.text(given, "sentence"), fields.text(given, "flag")
    notes = [tag("li", note) for note in fields.texts(given, "notes")]
    words = f"From {sentences.where(best)}: {sentence}." if sentence else "Nothing can be advised yet."
    setting = tag("p", "In this engine: ", tag("code", flag)) if flag else None
    return tag("div", tag("p", words), setting, tag("ul", notes) if notes else None)
