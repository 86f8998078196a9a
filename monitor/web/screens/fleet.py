"""The report's first page: what is wrong, in words; then the models, worst first; then what happened last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import headlines, selection, sentences, standings, states, wording
from monitor.web.markup import Child, Markup, join, tag
from monitor.web.screens import choosing, events, layout, model_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.web.screens.layout import Site
    from monitor.web.selection import Selection
    from monitor.web.standings import ModelView
    from monitor.web.view import StreamView, View

MODELS_PER_PAGE = 10
MOST_MODELS = 100
_RECENT_EVENTS = 5
_VERDICTS, _NAMED = 3, 4
_SMALL_FLEET = 12
_CAPTION = "MAL, mean acceptance length: the tokens that a draft yields; at 1 it gains nothing."


def page(view: View, site: Site, chosen: Selection, streams: Sequence[StreamView]) -> bytes:
    """Return the report; `streams` are those of the selection, in any order."""
    everything = view.streams()
    found = standings.of(view, streams)
    ordered = selection.ordered_models(chosen, found)
    shown = selection.part(chosen, ordered)
    opened = len(streams) <= _SMALL_FLEET
    return layout.page(
        site,
        "Speculative decoding report",
        _verdicts(view, found, everything, site, chosen),
        _progress(view),
        _unseen(view, site),
        choosing.counts(everything, site, chosen, MODELS_PER_PAGE),
        choosing.form(everything, site, chosen),
        model_list.listed(view, shown, site, opened=opened) if shown else _nothing(site, chosen),
        choosing.pages(site, "/report", chosen, MODELS_PER_PAGE, len(ordered), "model"),
        tag("p", tag("small", _CAPTION)),
        tag("h2", "Latest events"),
        events.table(view.events(limit=_RECENT_EVENTS), site),
        tag("p", tag("a", "All events", href=site.links.to("/report/events"))),
        newest=layout.newest(everything),
        json_link=site.links.to(f"/report{_and_json(chosen)}"),
    )


def _and_json(chosen: Selection) -> str:
    query = chosen.query(MODELS_PER_PAGE, page=chosen.page)
    return f"{query}&format=json" if query else "?format=json"


def _verdicts(
    view: View, models: Sequence[ModelView], everything: Sequence[StreamView], site: Site, chosen: Selection
) -> Markup:
    """Return the verdicts on the worst models of the selection, or the sentence that all is well."""
    bad = [standing for standing in models if standing.bad]
    if not bad:
        sentence = sentences.fleet(everything, site.now)
        if chosen.filtered and any(stream.state in standings.BAD for stream in everything):
            sentence = f"None of the {wording.plural(len(models), 'model')} chosen here is below what it was."
        return tag("p", sentence, class_=f"headline {_mood(everything)}")
    items = [_verdict(standing, view.now, site) for standing in bad[:_VERDICTS]]
    blind = sentences.blind([stream for standing in models for stream in standing.streams])
    unjudged = tag("p", blind) if blind else None
    return join((tag("ol", items, class_="verdicts"), _more(bad[_VERDICTS:], site), unjudged))


def _more(bad: Sequence[ModelView], site: Site) -> Markup | None:
    """Return how many models more are below what they were, the worst of them by name and likely cause."""
    if not bad:
        return None
    told = "1 more model is below what it was"
    if len(bad) > 1:
        told = f"{len(bad):,} more models are below what they were"
    rest = f" and {len(bad) - _NAMED:,} more" if len(bad) > _NAMED else ""
    names = model_list.with_commas(_named(each, site) for each in bad[:_NAMED])
    return tag("p", told, tag("span", ": ", names, rest, class_="detail"), ".", class_="more")


def _named(standing: ModelView, site: Site) -> Child:
    cause = headlines.likely_cause(standing)
    link = tag("a", headlines.model_name(standing), href=site.links.model(standing.model_name))
    return link, f" (likely {cause})" if cause else None


def _verdict(standing: ModelView, now: float, site: Site) -> Markup:
    return tag("li", model_list.verdict(standing, now, site), class_=f"headline {model_list.mood(standing)}")


def _progress(view: View) -> Markup | None:
    words = f"Not up to date: {view.progress}. What is shown is of the time read last."
    return tag("p", words, class_="headline warn") if view.progress else None


def _unseen(view: View, site: Site) -> Markup | None:
    sentence = sentences.unseen(view.targets())
    link = tag("a", "All targets", href=site.links.to("/targets"))
    return tag("p", f"{sentence} ", link, class_="headline warn") if sentence else None


def _mood(streams: Sequence[StreamView]) -> str:
    if not streams:
        return "none"  # nothing known is not all well
    present = {stream.state for stream in streams}
    if present & states.LOST:
        return "bad"
    return "warn" if present & (standings.BAD | states.BLIND) else "calm"


def _nothing(site: Site, chosen: Selection) -> Child:
    if chosen.filtered or chosen.page > 1:
        return tag("p", "No stream is like that. ", tag("a", "All streams", href=site.links.to("/report")))
    return tag(
        "p",
        "Nothing to show: ",
        tag("a", "the targets", href=site.links.to("/targets")),
        " say what is scraped and what the last answer was.",
    )
