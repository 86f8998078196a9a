"""The facts behind the pages as JSON with stable names, below /api/v1."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.core.vocabulary import EVENT_KINDS
from monitor.web import answers, routes, selection
from monitor.web.asking import MAX_LIMIT, Ask, Refused

if TYPE_CHECKING:
    from monitor.web.answers import Answer
    from monitor.web.view import View

_DEFAULT_LIMIT = 100
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
    return answers.as_json(routes.described_stream(ask, view, routes.known_stream(ask, view)))


def events(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/events`: newest first."""
    ask.expect("stream", "status", "kind", "since", "limit")
    wanted = ask.query.get("stream")
    if wanted is not None and view.stream(wanted) is None:
        raise Refused(404, f"no stream {wanted!r}; /api/v1/streams lists them")
    found = view.events(
        stream=wanted,
        status=ask.choice("status", ("open", "closed")),
        kind=ask.choice("kind", EVENT_KINDS),
        since=ask.time("since"),
        limit=ask.whole("limit", _DEFAULT_LIMIT, 1, MAX_LIMIT),
    )
    return answers.as_json({"at": view.now, "events": found})


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
    return answers.as_json(view.advice(routes.known_stream(ask, view).id))


def history(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/history/{stream}`: what happened between `start` and `end`, oldest first."""
    ask.expect("start", "end")
    found = routes.known_stream(ask, view)
    end = ask.time("end")
    end = view.now if end is None else end
    start = ask.time("start")
    start = end - _DEFAULT_HISTORY_SECONDS if start is None else start
    if start >= end:
        raise Refused(400, f"start is {start:g} and end is {end:g}; expected a start before the end")
    buckets = view.history(found.id, start, end)
    return answers.as_json({"stream": found.id, "start": start, "end": end, "buckets": buckets})
