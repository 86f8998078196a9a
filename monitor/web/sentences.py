"""The sentence on top of each page: what is true now, in words that need no dashboard to be understood."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import fields, levels, standings, states, wording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.web.fields import Record
    from monitor.web.view import StreamView, TargetView

KIND_WORDS = {
    "collapse": "collapse",
    "drop": "drop",
    "tail_drop": "drop at late positions",
    "decay": "slow decay",
    "improvement": "improvement",
    "dead_draft": "draft practically never accepted",
    "speculation_silent": "no drafts although configured",
    "below_reference": "below the pinned reference",
    "net_loss": "speculation costs more than it gains",
    "speculation_off": "speculation switched off",
    "regime_change": "new regime",
    "data_quality": "counters contradict each other",
}


def fleet(streams: Sequence[StreamView], now: float) -> str:
    """Return the headline of the whole fleet: the worst that is true, and of which stream."""
    if not streams:
        return "No stream has been seen yet."
    ordered = states.worst_first(streams)
    lost = [stream for stream in ordered if stream.state in states.LOST]
    drifting = [stream for stream in ordered if stream.state == "drifting"]
    if lost:
        verb = "has lost its speculation benefit" if len(lost) == 1 else "have lost their speculation benefit"
        return f"{_share(lost, streams)} {verb}: {_worst(lost[0], now)}"
    if drifting:
        verb = "speculates below its baseline" if len(drifting) == 1 else "speculate below their baselines"
        return f"{_share(drifting, streams)} {verb}: {_worst(drifting[0], now)}"
    return blind(streams) or _quiet(streams)


def blind(streams: Sequence[StreamView]) -> str:
    """Return which streams cannot be judged, with the first one's reason; empty where none."""
    found = [stream for stream in states.worst_first(streams) if stream.state in states.BLIND]
    return f"{_share(found, streams)} cannot be judged: {name(found[0])} ({_why(found[0])})." if found else ""


def unseen(targets: Sequence[TargetView]) -> str:
    """Return which targets were asked and have no stream, with the first one's reason; empty where none."""
    missing = [target for target in targets if not target.streams and target.last_scrape_at is not None]
    if not missing:
        return ""
    first = missing[0]
    why = first.error_detail or first.unrecognised or "no stream on its page"
    of = f"{len(missing):,} of {wording.plural(len(targets), 'target')}"
    return f"Nothing is seen of {of}: {first.name} ({why.rstrip('.')})."


def stream(view: StreamView, now: float) -> str:
    """Return the headline of one stream."""
    since = "" if view.state_since is None else f" since {_when(view.state_since, now)}"
    if view.state in {"collapsed", "drifting", "improved"}:
        head = {
            "collapsed": "Speculation has collapsed",
            "drifting": "Acceptance is below its baseline",
            "improved": "Acceptance is above its baseline",
        }[view.state]
        event = view.open_event or {}
        at = fields.number(event, "change_point_at") or view.state_since
        when = "" if at is None else f" since {_when(at, now)}"
        return f"{head}{when}{_moved(view, now)}{_cost(view)}."
    if view.state == "ok":
        mal = fields.number(view.estimate, "mal")
        return f"Speculation does as well as its baseline: a draft yields {wording.length(mal)} tokens."
    return f"{view.state.capitalize()}{since}: {_why(view)}."


def event(record: Record, now: float) -> str:
    """Return the headline of one event: what, from what to what, and since when or how long."""
    kind = fields.text(record, "kind")
    words = KIND_WORDS.get(kind, kind) or "event"
    where = fields.text(record, "target") or f"{len(fields.texts(record, 'streams'))} streams"
    before = fields.number(fields.record(record, "before"), "mal")
    after = fields.number(fields.record(record, "after"), "mal")
    moved = "" if before is None or after is None else f", MAL {before:.2f} → {after:.2f}"
    start = fields.number(record, "change_point_at") or fields.number(record, "raised_at")
    closed = fields.number(record, "closed_at")
    word = verdict(record)
    moved += f": {word}" if word else ""
    moved += _parts(
        standings.slowdown(record), fields.number(fields.record(record, "cost"), "benefit_lost_ratio")
    )
    if start is None:
        return f"{words.capitalize()} on {where}{moved}."
    when = (
        f"since {_when(start, now)}"
        if closed is None
        else f"from {_when(start, now)} for {wording.span(closed - start)}"
    )
    return f"{words.capitalize()} on {where} {when}{moved}."


def verdict(record: Record) -> str:
    """Return what a release or new regime did to acceptance, and how sure that is; empty: not compared."""
    found = fields.record(record, "verdict")
    outcome, confidence = fields.text(found, "outcome"), fields.number(found, "confidence")
    if not outcome or confidence is None:
        return ""
    if outcome == "no_difference":
        return "no difference that the evidence shows"
    return f"{outcome} than before (confidence {confidence:.1%})"


def name(view: StreamView) -> str:
    """Return the name of a stream for a sentence: its target, its model, its replica unless it is 0."""
    replica = "" if view.replica in {"", "0"} else f", replica {view.replica}"
    model = f" ({view.model_name}{replica})" if view.model_name else ""
    return f"{view.target}{model}"


def where(view: StreamView) -> str:
    """Return where a stream runs: its target, and its replica unless it is 0."""
    return view.target if view.replica in {"", "0"} else f"{view.target}, replica {view.replica}"


def lost_ratio(view: StreamView) -> float | None:
    """Return the share of the benefit that is lost, of the open event if there is one."""
    ratio = fields.number(fields.record(view.open_event or {}, "cost"), "benefit_lost_ratio")
    return view.benefit_lost_ratio if ratio is None else ratio


def slowdown(view: StreamView) -> float | None:
    """Return how many times as long a token takes as before the open event."""
    return standings.slowdown(view.open_event or {})


def _share(some: Sequence[StreamView], every: Sequence[StreamView]) -> str:
    return f"{len(some):,} of {wording.plural(len(every), 'stream')}"


def _worst(view: StreamView, now: float) -> str:
    at = fields.number(view.open_event or {}, "change_point_at") or view.state_since
    when = "" if at is None else f", for {wording.span(now - at)}"
    if view.state == "silent":
        return f"{name(view)}, no drafts although configured{when}."
    return f"{name(view)}{_moved(view, now)}{when}{_cost(view)}."


def _moved(view: StreamView, now: float) -> str:
    told = fields.number(fields.record(view.open_event or {}, "before"), "mal")
    before, after = told or view.baseline_mal, fields.number(levels.of_stream(view, now), "mal")
    if after is None:
        return ""
    if before is None:
        return f", MAL {after:.2f} where 1 is no benefit at all"
    return f", MAL {before:.2f} → {after:.2f}"


def _cost(view: StreamView) -> str:
    return _parts(slowdown(view), lost_ratio(view) if view.state in {"collapsed", "drifting"} else None)


def _parts(slower: float | None, lost: float | None) -> str:
    parts = []
    if lost is not None and lost > 0:
        parts.append(f"{wording.percent(lost)} of the benefit is lost")
    if slower is not None and slower > 1.05:  # noqa: PLR2004 - less is not worth a headline
        parts.append(f"each token takes {wording.times(slower)} as long")
    return "; " + " and ".join(parts) if parts else ""


def _when(unix_seconds: float, now: float) -> str:
    return f"{wording.clock(unix_seconds)} ({wording.ago(unix_seconds, now)})"


def _why(view: StreamView) -> str:
    return (view.state_reason or states.STATES[view.state].meaning).rstrip(".")


def _quiet(streams: Sequence[StreamView]) -> str:
    counts = states.counts(streams)
    well = counts.get("ok", 0) + counts.get("improved", 0)
    rest = ", ".join(f"{counts[state]} {state}" for state in ("warming", "idle", "off") if state in counts)
    if not well:
        return f"Nothing to judge yet: {rest} of {wording.plural(len(streams), 'stream')}."
    verb = "speculates" if well == 1 else "speculate"
    text = f"{well:,} of {wording.plural(len(streams), 'stream')} {verb} as well as the baseline or better"
    return f"{text}; {rest}." if rest else f"{text}."
