"""The report for terminals: the same sentences as the pages, with tables of aligned text."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from monitor.web import bills, fields, guidance, levels, sentences, states, wording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.web.fields import Record
    from monitor.web.links import Links
    from monitor.web.view import StreamView, View

_RECENT_EVENTS = 10


def fleet(view: View, shown: Sequence[StreamView], links: Links) -> str:
    """Return the report of `shown` streams, in this order."""
    rows: list[tuple[str, ...]] = [
        ("STATE", "STREAM", "MODEL", "MAL", "BASELINE", "CHANGE", "SLOWER", "LOST", "SINCE")
    ]
    rows += [_fleet_row(stream, view.now) for stream in shown]
    events = view.events(limit=_RECENT_EVENTS)
    unseen = sentences.unseen(view.targets())
    lines = [
        *_head(view, sentences.fleet(view.streams(), view.now)),
        *([f"{unseen} All targets: {links.to('/targets')}", ""] if unseen else []),
        *([*_table(rows), ""] if shown else []),
        *([sentences.event(event, view.now) for event in events] or ["No events."]),
        "",
        f"One stream: {links.to('/report/{stream}?format=text')}, streams: {links.to('/api/v1/streams')}",
    ]
    return _printable(lines)


def stream(view: View, shown: StreamView) -> str:
    """Return the report of one stream."""
    estimate = shown.estimate
    interval = wording.interval(fields.number(estimate, "mal_low"), fields.number(estimate, "mal_high"))
    facts = (
        ("stream", shown.id),
        ("state", f"{shown.state}: {shown.state_reason or states.STATES[shown.state].meaning}"),
        ("engine", f"{shown.engine} {shown.engine_version}".strip() or wording.UNKNOWN),
        ("draft model", shown.draft_model or wording.UNKNOWN),
        ("speculative tokens", str(shown.num_speculative_tokens or wording.UNKNOWN)),
        ("MAL", f"{wording.length(fields.number(estimate, 'mal'))} ({interval})"),
        ("baseline MAL", wording.length(shown.baseline_mal)),
        ("benefit lost", wording.percent(sentences.lost_ratio(shown))),
        ("tokens per step", wording.length(fields.number(estimate, "tokens_per_step"))),
        ("coverage", wording.percent(fields.number(estimate, "coverage"))),
        ("step time", wording.seconds(fields.number(estimate, "step_seconds"))),
        ("implied TPOT", wording.seconds(fields.number(estimate, "implied_tpot_seconds"))),
        ("observed TPOT", wording.seconds(fields.number(estimate, "observed_tpot_seconds"))),
        ("drafts in the window", wording.count(fields.number(estimate, "drafts"))),
    )
    positions: list[tuple[str, ...]] = [("POSITION", "MARGINAL", "CONDITIONAL", "BASELINE")]
    columns = zip_longest(
        fields.numbers(estimate, "marginal"),
        fields.numbers(estimate, "conditional"),
        shown.baseline_conditional,
    )
    positions += [(str(j), *(wording.ratio(value) for value in values)) for j, values in enumerate(columns)]
    events = [sentences.event(each, view.now) for each in view.events(stream=shown.id, limit=_RECENT_EVENTS)]
    lines = [
        *_head(view, sentences.stream(shown, view.now)),
        *_table(facts),
        "",
        *_table(positions),
        "",
        *(events or ["No events."]),
    ]
    return _printable(lines)


def event(view: View, record: Record) -> str:
    """Return the report of one event."""
    cost, steps = fields.record(record, "cost"), guidance.steps(record, guidance.engine_of(view, record))
    rows: list[tuple[str, ...]] = [("", "BEFORE", "AFTER")]
    before, after = fields.record(record, "before"), fields.record(record, "after")
    rows.append(
        ("MAL", wording.length(fields.number(before, "mal")), wording.length(fields.number(after, "mal")))
    )
    pairs = zip_longest(fields.numbers(before, "conditional"), fields.numbers(after, "conditional"))
    rows += [
        (f"conditional {j}", wording.ratio(was), wording.ratio(now)) for j, (was, now) in enumerate(pairs)
    ]
    rows.append(("drafts", *(wording.count(fields.number(side, "drafts")) for side in (before, after))))
    causes = [
        f"  {wording.percent(fields.number(cause, 'weight')):>5}  {fields.text(cause, 'cause')}: "
        f"{fields.text(cause, 'evidence')}"
        for cause in fields.records(record, "causes")
    ]
    lines = [
        *_head(view, sentences.event(record, view.now)),
        *_table(rows),
        "",
        f"Benefit lost: {wording.percent(fields.number(cost, 'benefit_lost_ratio'))}",
        f"Time per token: {wording.times(fields.number(cost, 'tpot_ratio'))}",
        *(f"{name[0].upper()}{name[1:]}: {text}" for name, text in bills.rows(cost)),
        "What else changed around it:",
        *(f"  {fact}" for fact in fields.texts(record, "facts") or ["nothing that the engine exports"]),
        "Likely causes:",
        *(causes or ["  none ranked"]),
        "What to do:",
        *(f"  {number}. {step}" for number, step in enumerate(steps, 1)),
    ]
    return _printable(lines)


def _head(view: View, sentence: str) -> list[str]:
    simulated = " (SIMULATED engines of `specmon demo`)" if view.simulated else ""
    return [f"specmon {view.version}, {wording.clock(view.now)}{simulated}", "", sentence, ""]


def _fleet_row(stream: StreamView, now: float) -> tuple[str, ...]:
    mal = fields.number(levels.of_stream(stream, now), "mal")
    replica = "" if stream.replica in {"", "0"} else f"/{stream.replica}"
    since = fields.number(stream.open_event or {}, "change_point_at") or stream.state_since
    bad = stream.state in {"collapsed", "drifting", "silent"}
    return (
        f"{states.STATES[stream.state].shape} {stream.state}",
        stream.target + replica,
        stream.model_name,
        wording.length(mal),
        wording.length(stream.baseline_mal),
        wording.change(mal, stream.baseline_mal),
        wording.times(sentences.slowdown(stream)) if bad else wording.UNKNOWN,
        wording.percent(sentences.lost_ratio(stream)) if bad else wording.UNKNOWN,
        wording.UNKNOWN if since is None else wording.ago(since, now),
    )


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _printable(lines: Sequence[str]) -> str:
    """Return the lines as text in which no name can send control sequences to a terminal."""
    return "".join("".join(char if char.isprintable() else "?" for char in line) + "\n" for line in lines)
