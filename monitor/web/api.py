"""The facts behind the pages as JSON with stable names, below /api/v1."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from monitor.core.vocabulary import EVENT_KINDS, SEVERITIES
from monitor.web import answers, asking, headlines, routes, selection, served, standings, supposing, timeline
from monitor.web.asking import MAX_LIMIT, Ask, Refused

if TYPE_CHECKING:
    from monitor.web.answers import Answer
    from monitor.web.standings import ModelView
    from monitor.web.view import EventFilter, View

_DEFAULT_LIMIT = 100
_MOST_BAD = 100
_EVENT_FILTERS = ("stream", "status", "kind", "severity", "scope", "model_name", "target")
_DEFAULT_HISTORY_SECONDS = 6 * 3600


def streams(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/streams`: those of the filters, worst first unless ordered otherwise, page by page."""
    ask.expect("model_name", *selection.PARAMETERS)
    # `model` is what the report's links say, `model_name` what the field is called.
    named = ask.query.get("model_name")
    asked = ask if named is None else replace(ask, query={**ask.query, "model": named})
    chosen = selection.asked(asked, routes.STREAMS_PER_PAGE, MAX_LIMIT)
    found = selection.chosen(chosen, view.streams())
    shown = routes.streams_of(chosen, view, found)
    listed = routes.overview(ask, view, shown)
    return answers.as_json({**listed, "total": len(found), "page": chosen.page, "limit": chosen.limit})


def stream(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/streams/{stream}`."""
    ask.expect()
    return answers.as_json(routes.detailed_stream(ask, view, asking.known_stream(view, ask.path["stream"])))


def fleet(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/fleet`: what holds for all streams together."""
    ask.expect()
    everything = view.streams()
    models = standings.of(view, everything)
    hours = [value for each in models if (value := headlines.gpu_hours_per_day(each)) is not None]
    return answers.as_json(
        {
            **routes.headline(view),
            "verdicts": [sentence for each in models if (sentence := headlines.model(each, view.now))],
            "streams": len(everything),
            "models": len(models),
            "open_events": len(view.events(status="open", limit=MAX_LIMIT)),
            "gpu_hours_per_day": sum(hours) if hours else None,
        }
    )


def models(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/models`: the models of the streams that are chosen, page by page."""
    ask.expect(*selection.PARAMETERS)
    chosen = selection.asked(ask, _DEFAULT_LIMIT, MAX_LIMIT)
    found = standings.of(view, selection.chosen(chosen, view.streams()))
    shown = selection.part(chosen, selection.ordered_models(chosen, found))
    return answers.as_json(
        {
            "at": view.now,
            "models": [_model(each, ask, view.now) for each in shown],
            "total": len(found),
            "page": chosen.page,
            "limit": chosen.limit,
        }
    )


def model(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/models/{model}`: what its page shows."""
    ask.expect()
    found = routes.known_model(view, ask.path["model"])
    compared = served.compared(view, found.model_name)
    return answers.as_json(
        {
            **_model(found, ask, view.now),
            "odd": [stream.id for stream in found.odd],
            "served": served.of(found.streams, compared, view.now),
            "compared": compared,
            "references": view.references(found.model_name),
            "advice": served.advised(view, found.streams)[1],
        }
    )


def _model(each: ModelView, ask: Ask, now: float) -> dict[str, object]:
    return {
        "model_name": each.model_name,
        "state": each.state,
        "streams": len(each.streams),
        "counts": each.counts,
        "bad": [stream.id for stream in each.bad[:_MOST_BAD]],
        "mal": each.level.mal,
        "mal_low": each.level.low,
        "mal_high": each.level.high,
        "reference_mal": each.level.reference,
        "benefit_lost_ratio": each.bad_level.lost_ratio,
        "tpot_ratio": each.slowdown,
        "gpu_hours_per_day": headlines.gpu_hours_per_day(each),
        "since": each.since,
        "event": each.event.get("id"),
        "verdict": headlines.model(each, now),
        "report": ask.programs.model(each.model_name),
    }


def events(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/events`: newest first, page by page."""
    ask.expect(*_EVENT_FILTERS, "since", "until", "page", "limit")
    wanted = ask.query.get("stream")
    if wanted is not None:
        asking.known_stream(view, wanted)
    known = {"status": ("open", "closed"), "kind": EVENT_KINDS, "severity": SEVERITIES}
    for name, values in (*known.items(), ("scope", ("replica", "fleet"))):
        ask.choice(name, values)
    page = ask.whole("page", 1, 1, selection.MOST_PAGES)
    limit = ask.whole("limit", _DEFAULT_LIMIT, 1, MAX_LIMIT)
    meant: EventFilter = {"since": ask.time("since"), "until": ask.time("until")}
    meant |= {"limit": limit + 1, "offset": (page - 1) * limit}
    for name in _EVENT_FILTERS:
        meant[name] = ask.query.get(name)  # type: ignore[literal-required]
    found = view.events(**meant)
    further = urlencode({**ask.query, "page": page + 1}) if len(found) > limit else ""
    following = ask.programs.to(f"/api/v1/events?{further}") if further else None
    return answers.as_json({"at": view.now, "events": found[:limit], "next": following})


def changes(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/changes`: what changed, newest first, page by page."""
    ask.expect("stream", "model_name", "target", "source", "since", "until", "page", "limit")
    page = ask.whole("page", 1, 1, selection.MOST_PAGES)
    limit = ask.whole("limit", _DEFAULT_LIMIT, 1, MAX_LIMIT)
    ask.choice("source", ("seen", "told"))
    wanted = ask.query.get("stream")
    named = None if wanted is None else asking.known_stream(view, wanted)
    since, until = ask.time("since"), ask.time("until")
    found = timeline.of(
        view,
        stream=named,
        model_name=ask.query.get("model_name", ""),
        target=ask.query.get("target", ""),
        source=ask.query.get("source", ""),
        span=(-math.inf if since is None else since, math.inf if until is None else until),
    )
    shown = found[(page - 1) * limit : page * limit]
    return answers.as_json(
        {"at": view.now, "changes": shown, "total": len(found), "page": page, "limit": limit}
    )


def openapi(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/openapi.json`: the description of all of this."""
    # The types cost memory that a monitor whose description nobody asks for does without.
    from monitor.web import openapi as description  # noqa: PLC0415

    ask.expect()
    prefix = ask.programs.to("")
    servers = [{"url": prefix or "/"}]
    return answers.as_json({**description.document(view.version), "servers": servers})


def event(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/events/{event}`."""
    ask.expect()
    found = view.event(ask.path["event"])
    if found is None:
        raise Refused(404, f"no event {ask.path['event']!r}; /api/v1/events lists those that are kept")
    return answers.as_json(found)


def advice(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/advice/{stream}`: which num_speculative_tokens, at what gain."""
    ask.expect()
    return answers.as_json(view.advice(asking.known_stream(view, ask.path["stream"]).id))


def what_if(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/what-if`: the numbers of `/report/what-if`."""
    ask.expect(*supposing.PARAMETERS)
    return answers.as_json(supposing.as_record(supposing.asked(ask, view)))


def history(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/history/{stream}`: what happened between `start` and `end`, oldest first."""
    ask.expect("start", "end")
    found = asking.known_stream(view, ask.path["stream"])
    start, end = _span(ask, view)
    buckets = view.history(found.id, start, end)
    return answers.as_json({"stream": found.id, "start": start, "end": end, "buckets": buckets})


def model_history(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/model-history/{model}`: the same of all streams of a model together."""
    ask.expect("start", "end")
    found = routes.known_model(view, ask.path["model"])
    start, end = _span(ask, view)
    buckets = view.model_history(found.model_name, start, end)
    return answers.as_json({"model_name": found.model_name, "start": start, "end": end, "buckets": buckets})


def _span(ask: Ask, view: View) -> tuple[float, float]:
    end = ask.time("end")
    end = view.now if end is None else end
    start = ask.time("start")
    start = end - _DEFAULT_HISTORY_SECONDS if start is None else start
    if start >= end:
        raise Refused(400, f"start is {start:g} and end is {end:g}; expected a start before the end")
    return start, end
