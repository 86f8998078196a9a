"""The verdict on one model in a sentence: how many of it, what, since when, how bad, at what cost, why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from monitor.web import fields, guidance, sentences, wording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.web.fields import Record
    from monitor.web.standings import ModelView
    from monitor.web.view import StreamView

_NAMED = 3
_SURE = 0.5
_LONGEST_EVIDENCE = 140
_VERBS = {
    "collapsed": ("has collapsed", "have collapsed"),
    "silent": ("has made no drafts, although configured,", "have made no drafts, although configured,"),
    "drifting": ("is below what it was", "are below what they were"),
}


def model(standing: ModelView, now: float) -> str:
    """Return the verdict on a model of which streams are bad; empty where none is."""
    if not standing.bad:
        return ""
    worst = standing.bad[0].state
    same = [stream for stream in standing.bad if stream.state == worst]
    verb = _VERBS[worst][len(same) > 1]
    rest = _rest(standing.bad[len(same) :])
    since = "" if standing.since is None else f" since {wording.clock_near(standing.since, now)}"
    return f"{_subject(standing, same)} {verb}{since}{rest}{_moved(standing)}{_cost(standing)}."


def names(streams: Sequence[StreamView]) -> str:
    """Return the names of a few streams, of more than three the first three and how many more."""
    shown = [f"{each.target}{_replica(each)}" for each in streams[:_NAMED]]
    more = len(streams) - _NAMED
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def model_name(standing: ModelView) -> str:
    """Return what a model is called; its target where the engine does not name it."""
    return standing.model_name or standing.streams[0].target


def gpu_hours_per_day(standing: ModelView) -> float | None:
    """Return what the bad streams lose; None where it is unknown of all of them."""
    costs = [stream.cost or fields.record(stream.open_event or {}, "cost") for stream in standing.bad]
    hours = [value for cost in costs if (value := fields.number(cost, "gpu_hours_per_day")) is not None]
    return sum(hours) if hours else fields.number(fields.record(standing.event, "cost"), "gpu_hours_per_day")


def loss_per_day(standing: ModelView) -> str:
    """Return what the bad streams lose, as `31 GPU-hours a day`; empty where it is unknown or nothing."""
    hours = gpu_hours_per_day(standing)
    return f"{wording.amount(hours)} GPU-hours a day" if hours and hours > 0 else ""


def _subject(standing: ModelView, same: Sequence[StreamView]) -> str:
    called, total = model_name(standing), len(standing.streams)
    if total == 1:
        return sentences.name(same[0])
    if len(same) == total:
        return f"All {total:,} replicas of {called}"
    return f"{len(same):,} of {total:,} replicas of {called} ({names(same)})"


def _rest(others: Sequence[StreamView]) -> str:
    counted = Counter(stream.state for stream in others)
    return "".join(f", {number:,} more {_VERBS[state][number > 1]}" for state, number in counted.items())


def _moved(standing: ModelView) -> str:
    level = standing.bad_level
    if level.mal is None:
        return ""
    if level.reference is None:
        return f": MAL {level.mal:.2f} where 1 is no benefit at all"
    return f": MAL {level.reference:.2f} → {level.mal:.2f}"


def _cost(standing: ModelView) -> str:
    slower, lost, hours = standing.slowdown, standing.bad_level.lost_ratio, loss_per_day(standing)
    parts = []
    if lost is not None and lost > 0:
        parts.append(f"{wording.percent(lost)} of the benefit is lost")
    if slower is not None and slower > 1.05:  # noqa: PLR2004 - less is not worth a headline
        parts.append(f"each token takes {wording.times(slower)} as long")
    if hours:
        parts.append(hours)
    return "; " + ", ".join(parts) if parts else ""


def evidence(standing: ModelView) -> str:
    """Return what speaks for the likeliest cause, shortened; empty where none is likelier than the rest."""
    text = fields.text(likeliest(standing.event) if standing.bad else {}, "evidence")
    return text if len(text) <= _LONGEST_EVIDENCE else f"{text[: _LONGEST_EVIDENCE - 1].rstrip()}…"


def likely_cause(standing: ModelView) -> str:
    """Return the cause that is likelier than all others together, in words; empty without one."""
    cause = likeliest(standing.event) if standing.bad else {}
    return fields.text(cause, "cause").replace("_", " ")


def what_to_do(standing: ModelView) -> str:
    """Return the step that the likeliest cause asks for, or else the event's kind; empty without an event."""
    return guidance.first(standing.event, fields.text(likeliest(standing.event), "cause"))


def likeliest(event: Record) -> Record:
    """Return the cause of an event that is likelier than all others together; empty without one."""
    found = fields.records(event, "causes")
    known = [cause for cause in found if fields.text(cause, "cause") != "unknown"]
    best = max(known, key=lambda cause: fields.number(cause, "weight") or 0, default=None)
    return best if best and (fields.number(best, "weight") or 0) >= _SURE else {}


def _replica(stream: StreamView) -> str:
    return "" if stream.replica in {"", "0"} else f", replica {stream.replica}"
