"""What each path answers: functions of a request and a view, without a server.

They run on a worker thread, so none of them may touch the event loop.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from monitor.core.vocabulary import EVENT_KINDS, SEVERITIES
from monitor.metrics import selfmetrics, textformat
from monitor.web import (
    answers,
    asking,
    feed,
    fields,
    formulas,
    plaintext,
    positions,
    selection,
    sentences,
    standings,
    states,
    supposing,
    tickets,
)
from monitor.web.asking import MAX_LIMIT, Ask, Refused
from monitor.web.screens import event as event_page
from monitor.web.screens import event_list, fleet, model, service, stream
from monitor.web.screens import what_if as what_if_page

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from prometheus_client import CollectorRegistry

    from monitor.web.answers import Answer
    from monitor.web.selection import Selection
    from monitor.web.standings import ModelView
    from monitor.web.view import StreamView, View

    Route = Callable[[Ask, View], Answer]

_REPORT_FORMATS = ("html", "json", "text")
STREAMS_PER_PAGE = 50
_JSON_EVENTS = 20
_MAX_REFRESH = 3600
_EVENT_PARAMETERS = (*event_list.FILTERS, "since", "until", "page", "limit")


def landing(ask: Ask, view: View) -> Answer:
    """Answer `/`."""
    ask.expect()
    return answers.html(service.landing(view, ask.site))


def metrics(own: CollectorRegistry) -> Route:
    """Return the route of `/metrics`; `own` has the collectors of the process itself."""

    def answer(ask: Ask, view: View) -> Answer:
        ask.expect("target")
        target = ask.query.get("target")
        if target is not None and target not in {each.name for each in view.targets()}:
            raise Refused(404, f"no target {target!r}; /targets lists them")
        types = ["text/plain", "application/openmetrics-text"]
        openmetrics = asking.best_media_type(ask.accept, types) == types[1]
        families = list(view.families(target))
        # A page of one target says nothing of the process: it would be counted once per target.
        process = b"" if target is not None else selfmetrics.process_text(own, openmetrics=openmetrics)
        if target is None:
            families.insert(0, selfmetrics.build_family(view.version, view.revision))
        body = textformat.render(families, openmetrics=openmetrics, appended=process)
        kind = textformat.OPENMETRICS_CONTENT_TYPE if openmetrics else textformat.TEXT_CONTENT_TYPE
        return answers.Answer(body, kind)

    return answer


def probed(ask: Ask, view: View) -> Answer:
    """Answer `/probe?target=` with the families of a view that holds that target alone."""
    ask.expect("target")
    types = ["text/plain", "application/openmetrics-text"]
    openmetrics = asking.best_media_type(ask.accept, types) == types[1]
    body = textformat.render(view.families(ask.query["target"]), openmetrics=openmetrics)
    return answers.Answer(
        body, textformat.OPENMETRICS_CONTENT_TYPE if openmetrics else textformat.TEXT_CONTENT_TYPE
    )


def report(ask: Ask, view: View) -> Answer:
    """Answer `/report`: all streams, worst first."""
    ask.expect("format", "refresh", *selection.PARAMETERS)
    ask.whole("refresh", 0, 1, _MAX_REFRESH)
    wanted = ask.format(*_REPORT_FORMATS)
    limits = (fleet.MODELS_PER_PAGE, fleet.MOST_MODELS) if wanted == "html" else (STREAMS_PER_PAGE, MAX_LIMIT)
    chosen = selection.asked(ask, *limits)
    found = selection.chosen(chosen, view.streams())
    match wanted:
        case "json":
            shown = streams_of(chosen, view, found)
            listed = {**overview(ask, view, shown), "total": len(found)}
            return answers.as_json({**listed, "events": view.events(limit=_JSON_EVENTS)})
        case "text":
            return answers.text(plaintext.fleet(view, streams_of(chosen, view, found), ask.programs))
        case _:
            return answers.html(fleet.page(view, ask.site, chosen, found))


def streams_of(chosen: Selection, view: View, views: Sequence[StreamView]) -> list[StreamView]:
    """Return the streams that a list shows: in the order asked for, the page asked for."""
    return list(selection.part(chosen, selection.ordered(chosen, views, view.now)))


def report_stream(ask: Ask, view: View) -> Answer:
    """Answer `/report/{stream}`."""
    ask.expect("format", "refresh", "range")
    ask.whole("refresh", 0, 1, _MAX_REFRESH)
    chosen = ask.choice("range", stream.RANGES) or stream.DEFAULT_RANGE
    found = asking.known_stream(view, ask.path["stream"])
    match ask.format(*_REPORT_FORMATS):
        case "json":
            return answers.as_json(detailed_stream(ask, view, found))
        case "text":
            return answers.text(plaintext.stream(view, found))
        case _:
            return answers.html(stream.page(view, found, ask.site, chosen))


def report_model(ask: Ask, view: View) -> Answer:
    """Answer `/report/models/{model}`: all replicas of one model."""
    ask.expect("format", "refresh", "page", "range")
    ask.whole("refresh", 0, 1, _MAX_REFRESH)
    chosen = selection.Selection(
        model=ask.path["model"],
        page=ask.whole("page", 1, 1, selection.MOST_PAGES),
        limit=model.REPLICAS_PER_PAGE,
    )
    span = ask.choice("range", stream.RANGES) or stream.DEFAULT_RANGE
    found = known_model(view, ask.path["model"])
    if ask.format("html", "json") == "json":
        shown = list(selection.part(chosen, found.streams))
        return answers.as_json({**overview(ask, view, shown), "total": len(found.streams)})
    return answers.html(model.page(view, found, ask.site, chosen, span))


def known_model(view: View, model_name: str) -> ModelView:
    """Return the model of this name, which must be known."""
    streams = selection.chosen(selection.Selection(model=model_name), view.streams())
    found = next(iter(standings.of(view, streams)), None)
    if found is None:
        raise Refused(404, f"no model {model_name!r}; /api/v1/models lists them")
    return found


def report_events(ask: Ask, view: View) -> Answer:
    """Answer `/report/events`: all events, filtered and paged."""
    ask.expect("refresh", *_EVENT_PARAMETERS)
    ask.whole("refresh", 0, 1, _MAX_REFRESH)
    return answers.html(event_list.page(view, _wanted(ask), ask.site))


def report_feed(ask: Ask, view: View) -> Answer:
    """Answer `/report/events.atom`: the newest of the same events as a feed."""
    ask.expect(*_EVENT_PARAMETERS)
    wanted = _wanted(ask)
    path = f"/report/events.atom{wanted.query()}"
    body = feed.atom(view.events(**wanted.of_view()), ask.programs, path, view.now)
    return answers.Answer(body, feed.ATOM)


def _wanted(ask: Ask) -> event_list.EventPage:
    filled = replace(ask, query={name: value for name, value in ask.query.items() if value})
    known: dict[str, Collection[str]] = {
        "status": event_list.STATUSES,
        "kind": EVENT_KINDS,
        "severity": SEVERITIES,
        "scope": event_list.SCOPES,
    }
    for name, values in known.items():
        filled.choice(name, values)
    return event_list.EventPage(
        filters={name: filled.query[name] for name in event_list.FILTERS if name in filled.query},
        since=filled.time("since"),
        until=filled.time("until"),
        page=filled.whole("page", 1, 1, selection.MOST_PAGES),
        limit=filled.whole("limit", event_list.PER_PAGE, 1, MAX_LIMIT),
    )


def report_event(ask: Ask, view: View) -> Answer:
    """Answer `/report/events/{event}`."""
    ask.expect("format", "refresh")
    ask.whole("refresh", 0, 1, _MAX_REFRESH)
    event = view.event(ask.path["event"])
    if event is None:
        raise Refused(404, f"no event {ask.path['event']!r}; /api/v1/events lists those that are kept")
    match ask.format(*_REPORT_FORMATS, "markdown"):
        case "json":
            return answers.as_json(event)
        case "text":
            return answers.text(plaintext.event(view, event))
        case "markdown":
            ticket = tickets.markdown(event, ask.programs, view.now, ask.site.runbook(event))
            return answers.text(ticket, content_type=answers.MARKDOWN)
        case _:
            return answers.html(event_page.page(view, event, ask.site, ask.programs))


def what_if(ask: Ask, view: View) -> Answer:
    """Answer `/report/what-if`: what speculation would give under numbers that somebody supposes."""
    ask.expect("format", *supposing.PARAMETERS)
    wanted = ask.format("html", "json")
    asked = supposing.asked(ask, view)
    if wanted == "json":
        return answers.as_json(supposing.as_record(asked))
    said = {name: value for name, value in ask.query.items() if name in supposing.PARAMETERS and value}
    return answers.html(what_if_page.page(asked, ask.site, f"?{urlencode(said)}" if said else ""))


def targets(ask: Ask, view: View) -> Answer:
    """Answer `/targets`."""
    ask.expect("format", "refresh")
    ask.whole("refresh", 0, 1, _MAX_REFRESH)
    if ask.format("html", "json") == "json":
        return answers.as_json({"at": view.now, "targets": view.targets()})
    return answers.html(service.targets(view, ask.site))


def config(ask: Ask, view: View) -> Answer:
    """Answer `/config`."""
    ask.expect("format")
    if ask.format("html", "text") == "text":
        return answers.text(view.config())
    return answers.html(service.settings(view, ask.site))


def ready(ask: Ask, view: View) -> Answer:
    """Answer `/-/ready`."""
    ask.expect()
    well, sentence = view.ready()
    return answers.text(f"{sentence}\n", 200 if well else 503)


def overview(ask: Ask, view: View, views: list[StreamView]) -> dict[str, object]:
    """Return the JSON of a list of streams with what holds for all of them."""
    return {**headline(view), "streams": [described_stream(ask, view, each) for each in views]}


def headline(view: View) -> dict[str, object]:
    """Return the JSON of what holds for all streams."""
    everything = view.streams()
    return {
        "at": view.now,
        "version": view.version,
        "simulated": view.simulated,
        "headline": sentences.fleet(everything, view.now),
        "counts": states.counts(everything),
    }


def described_stream(ask: Ask, view: View, stream: StreamView) -> dict[str, object]:
    """Return the JSON of one stream."""
    described = answers.plain(stream)
    assert isinstance(described, dict)  # noqa: S101 - a record becomes an object
    links = {"report": ask.programs.stream(stream.id)}
    return {**described, "headline": sentences.stream(stream, view.now), "links": links}


def detailed_stream(ask: Ask, view: View, stream: StreamView) -> dict[str, object]:
    """Return the JSON of one stream with all that its own page shows."""
    closeup = view.closeup(stream.id)
    moved = fields.record(fields.record(closeup, "counters"), "moved")
    return {
        **described_stream(ask, view, stream),
        "closeup": closeup,
        "positions": positions.of(stream, closeup),
        "formulas": formulas.of(moved),
    }
