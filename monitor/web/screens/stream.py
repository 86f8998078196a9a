"""One stream: what is true now, its numbers with their meaning, its positions, its history and its events."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from monitor.web import fields, sentences, states, wording
from monitor.web.glossary import GLOSSARY
from monitor.web.markup import Child, Markup, tag
from monitor.web.screens import by_position, changed, closeups, counters, events, history, layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from monitor.web.fields import Record
    from monitor.web.screens.layout import Site
    from monitor.web.view import StreamView, View

RANGES = {"15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800, "30d": 2592000}
DEFAULT_RANGE = "6h"
_MAX_EVENTS = 50


def page(view: View, stream: StreamView, site: Site, chosen: str) -> bytes:
    """Return the page of one stream with the history of the `chosen` range (a key of RANGES)."""
    start = site.now - RANGES[chosen]
    buckets = view.history(stream.id, start, site.now)
    listed = view.events(stream=stream.id, limit=_MAX_EVENTS)
    closeup = view.closeup(stream.id)
    labels = [str(number) for number in range(len(listed), 0, -1)]
    own = list(zip(labels, listed, strict=True))
    changes = changed.since(view, start, stream=stream)
    mood = {"collapsed": "bad", "silent": "bad", "drifting": "warn"}.get(stream.state, "calm")
    return layout.page(
        site,
        sentences.name(stream),
        tag(
            "p",
            layout.state(stream.state),
            " ",
            sentences.stream(stream, site.now),
            class_=f"headline {mood}",
        ),
        _about(stream, closeup, site),
        tag("p", tag("a", "What if: other k, batch, draft or weights", href=_what_if(stream, site))),
        tag("h2", "History"),
        ranges(site.links.stream(stream.id), chosen),
        *history.figures(
            buckets,
            own,
            site,
            (start, site.now),
            lanes=(history.TPOT, *history.STEPS),
            notes=changed.notes(changes),
        ),
        tag("h2", "What changed"),
        changed.section(changes, site),
        tag("h2", "Events"),
        events.table(listed, site, labels),
        *_close(stream, closeup, site),
        newest=stream.last_good_at,
        json_link=f"{site.links.stream(stream.id)}?format=json",
    )


def _close(stream: StreamView, closeup: Record, site: Site) -> Iterator[Child]:
    yield tag("h2", "Before and now")
    yield from closeups.before_and_now(closeup, site.now)
    yield tag("h2", "Acceptance by position")
    yield from by_position.section(stream, closeup)
    yield tag("h2", "Evidence of a change")
    yield closeups.evidence(stream)
    yield tag("h2", "What the traffic did")
    yield closeups.traffic(closeup)
    yield tag("h2", "Numbers now")
    yield _numbers(stream)
    yield tag("h2", "Counters and formulas")
    yield from counters.counted(closeup, site)
    yield tag("h2", "Quality of its data")
    yield from counters.quality(closeup)


def _about(stream: StreamView, closeup: Record, site: Site) -> Markup:
    silent = "the page does not say, and no setting of the target does"
    told: Sequence[tuple[str, str]] = (
        ("Target", stream.target),
        ("Model", stream.model_name),
        ("Replica", stream.replica),
        ("Engine", f"{stream.engine} {stream.engine_version}".strip()),
        ("Draft model", stream.draft_model),
        ("Method", stream.method),
        ("Speculative tokens", str(stream.num_speculative_tokens or "")),
        ("Regime", stream.regime),
    )
    rows: list[tuple[str, Child]] = [(name, value or layout.unknown(silent)) for name, value in told]
    rows.append(("Last good scrape", layout.moment(stream.last_good_at, site.now, "there was none yet")))
    pays = fields.text(fields.record(stream.estimate, "payoff"), "sentence")
    rows.append(("Does it pay?", pays or layout.unknown("no drafts were counted yet")))
    pinned = fields.text(fields.record(closeup, "pinned"), "sentence")
    rows.append(("Reference", pinned or layout.unknown("the settings pin none for this model and k")))
    rows.append(("State", stream.state_reason or states.STATES[stream.state].meaning))
    return layout.facts(rows)


def _what_if(stream: StreamView, site: Site) -> str:
    return site.links.to(f"/report/what-if?{urlencode({'stream': stream.id})}")


def ranges(link: str, chosen: str) -> Markup:
    """Return links to the page at `link` with each range of time."""
    links = (
        tag(
            "a",
            name,
            href=f"{link}?range={name}",
            aria_current="true" if name == chosen else None,
        )
        for name in RANGES
    )
    return tag("nav", links, class_="ranges", aria_label="time range")


def _numbers(stream: StreamView) -> Markup:
    estimate = stream.estimate
    why = states.STATES[stream.state].why_unknown
    missing = "the page has no counter for it" if fields.number(estimate, "drafts") else why

    def number(name: str) -> float | None:
        return fields.number(estimate, name)

    mal = f"{wording.length(number('mal'))} ({wording.interval(number('mal_low'), number('mal_high'))})"
    rows: tuple[tuple[str, str], ...] = (
        ("mean acceptance length (MAL)", mal if number("mal") is not None else wording.UNKNOWN),
        ("baseline", wording.length(stream.baseline_mal)),
        ("benefit lost", wording.percent(sentences.lost_ratio(stream))),
        ("drift score", f"down {wording.length(stream.score_down)}, up {wording.length(stream.score_up)}"),
        ("tokens per step", wording.length(number("tokens_per_step"))),
        ("coverage", wording.percent(number("coverage"))),
        ("step time", wording.seconds(number("step_seconds"))),
        ("implied TPOT", wording.seconds(number("implied_tpot_seconds"))),
        ("observed TPOT", wording.seconds(number("observed_tpot_seconds"))),
        ("α", wording.ratio(number("alpha"))),
    )
    seconds = number("window_seconds")
    window = "the window" if seconds is None else f"the last {wording.span(seconds)}"
    caption = f"Over {window}, {wording.count(number('drafts'))} drafts"
    cells = ([name, layout.value(text, missing), GLOSSARY[name]] for name, text in rows)
    return layout.table(caption, ("Number", "Value", "What it means"), cells, "numbers")
