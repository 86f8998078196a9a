"""One model: the verdict, its replicas as small pictures on one scale, its releases side by side, events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import (
    fields,
    headlines,
    levels,
    selection,
    sentences,
    states,
    wording,
)
from monitor.web.markup import Child, Markup, tag
from monitor.web.screens import changed, choosing, events, history, layout, model_list, replicas, stream

if TYPE_CHECKING:
    from monitor.web.screens.layout import Site
    from monitor.web.selection import Selection
    from monitor.web.standings import ModelView
    from monitor.web.view import StreamView, View

REPLICAS_PER_PAGE = 24
_EVENTS = 20
_RELEASE_HEADERS = ("Release", "Replicas", "MAL now", "Baseline", "States")


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
        replicas.multiples(view, shown, site, start, site.now),
        choosing.pages(
            site,
            f"/report/models/{_path(site, model)}",
            chosen,
            REPLICAS_PER_PAGE,
            len(model.streams),
            "replica",
        ),
        model_list.table(shown, site, "Worst first"),
        tag("h2", "Releases"),
        _releases(model, site),
        tag("h2", "Advice"),
        _advice(view, model),
        tag("h2", "Events"),
        events.table(listed, site, numbers),
        newest=layout.newest(model.streams),
        json_link=f"{site.links.model(model.model_name)}?format=json",
    )


def _path(site: Site, model: ModelView) -> str:
    return site.links.model(model.model_name).removeprefix(site.links.to("/report/models/"))


def _verdict(model: ModelView, site: Site) -> Markup:
    if model.bad:
        return tag(
            "p", model_list.verdict(model, site.now, site), class_=f"headline {model_list.mood(model)}"
        )
    parts = ", ".join(f"{number:,} {state}" for state, number in model.counts.items())
    mal = model.level.mal
    level = "" if mal is None else f" A draft yields {mal:.2f} tokens."
    return tag("p", f"No replica is below what it was: {parts}.{level}", class_="headline calm")


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


def _releases(model: ModelView, site: Site) -> Markup:
    """Return what runs side by side: each draft, method, k and engine version with its level."""
    groups: dict[str, list[StreamView]] = {}
    for each in model.streams:
        groups.setdefault(release(each), []).append(each)
    rows: list[list[Child]] = []
    for name, group in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        level = levels.of(group, site.now)
        ends = wording.interval(level.low, level.high)
        interval = tag("small", f" {ends}", title="95 % interval") if ends != wording.UNKNOWN else None
        now = (wording.length(level.mal), interval)
        counts = ", ".join(f"{number:,} {state}" for state, number in states.counts(group).items())
        rows.append(
            [
                name,
                f"{len(group):,}",
                now if level.mal is not None else layout.unknown("no drafts were counted"),
                layout.value(wording.length(level.reference), "no baseline has been learnt yet"),
                counts,
            ]
        )
    return layout.table("What runs now, most replicas first", _RELEASE_HEADERS, rows, "releases")


def release(each: StreamView) -> str:
    """Return what a stream runs, in words: engine, method, draft and k."""
    parts = [f"{each.engine} {each.engine_version}".strip(), each.method, each.draft_model]
    if each.num_speculative_tokens:
        parts.append(f"k = {each.num_speculative_tokens}")
    return ", ".join(filter(None, parts)) or "not said"


def _advice(view: View, model: ModelView) -> Markup:
    """Return the advice for the replica with the most drafts."""
    best = max(model.streams, key=lambda each: fields.number(each.estimate, "drafts") or 0)
    given = view.advice(best.id)
    sentence, flag = fields.text(given, "sentence"), fields.text(given, "flag")
    notes = [tag("li", note) for note in fields.texts(given, "notes")]
    words = f"From {sentences.where(best)}: {sentence}." if sentence else "Nothing can be advised yet."
    setting = tag("p", "In this engine: ", tag("code", flag)) if flag else None
    return tag("div", tag("p", words), setting, tag("ul", notes) if notes else None)
