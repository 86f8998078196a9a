"""An alarm about one stream becomes an event: what it cost, what else changed, and what was open before."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.core import detectors, events, streams
from monitor.core.counts import estimates, windows
from monitor.core.detectors import lengths
from monitor.core.economics import accounting, fits
from monitor.core.events import Cost, Past, attribution
from monitor.core.pages import engines
from monitor.core.streams import notes, surroundings

if TYPE_CHECKING:
    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors.base import Alarm
    from monitor.core.events import Event
    from monitor.core.streams import State
    from monitor.core.streams.surroundings import ChangePoint


def raised(state: State, counts: Counts, alarm: Alarm, lengths: tuple[float, ...]) -> Event:
    """Return the event that an alarm about a row of `counts` opens, changes or closes."""
    return of_row(state, int(counts.rows[alarm.index]), alarm, lengths)


def of_row(state: State, row: int, alarm: Alarm, lengths: tuple[float, ...]) -> Event:
    """Return the event that an alarm opens, changes or closes; the stream keeps it while it is open.

    `lengths` are those of the windows, in seconds.
    """
    identity = state.identities[row]
    held = identity.event
    if alarm.action == "update" and held is not None and held.after.mal < alarm.after.mal:
        # what was seen lately, where the alarm has a mean over the whole trouble
        alarm = replace(alarm, after=held.after)
    before, after = windows.around(state.sums[row : row + 1], alarm.change_point_at, lengths)
    cost = _cost(alarm, before, after)
    open_event = identity.event
    if alarm.action in ("close", "update") and open_event is not None:
        known = attribution.Attribution(open_event.facts, open_event.causes)
        # long after the change, what was before is forgotten
        reached = before.vectors[0, windows.INTERVALS] > 0
        why = _why(state, row, alarm, before, after) if reached else known
        if alarm.action == "close":
            known_now = replace(open_event, causes=why.causes, facts=why.facts)
            event = events.closed(known_now, alarm.raised_at, alarm.fact)
        else:
            event = events.updated(open_event, alarm, cost, why)
    else:
        why = _why(state, row, alarm, before, after)
        event = events.opened(identity.id, identity.key, alarm, cost, why, _past(before))
        streams.count_change(state, row, event)
    if alarm.action != "note":
        identity.event = event if event.status == "open" else None
    elif math.isnan(event.after.mal):
        notes.keep(state, row, event, state.window_seconds)
    return event


def _why(
    state: State, row: int, alarm: Alarm, before: windows.Sums, after: windows.Sums
) -> attribution.Attribution:
    """Return what else changed around the alarm's change point, as far as it shows by now."""
    why = causes(state, row, alarm.kind, surroundings.of_alarm(alarm), before, after)
    if alarm.detector == lengths.NAME:
        return attribution.with_reason(why, alarm.fact)
    if alarm.action == "note" and alarm.fact:
        return replace(why, facts=(alarm.fact, *why.facts))
    return why


def causes(
    state: State, row: int, kind: str, change: ChangePoint, before: windows.Sums, after: windows.Sums
) -> attribution.Attribution:
    """Return what else changed around a change of a stream, given its sums on both sides."""
    why = attribution.around(surroundings.of_stream(state, row, change, before, after))
    if kind == "speculation_silent":
        why = attribution.with_reason(why, _why_silent(state.identities[row].engine))
    told = _accounted(state, row, before, after)
    return replace(why, facts=(*why.facts, told)) if told else why


def _accounted(state: State, row: int, before: windows.Sums, after: windows.Sums) -> str:
    """Return what the change of TPOT is made of, in words; empty where the page has no step times."""
    old, new = estimates.from_sums(before), estimates.from_sums(after)
    return accounting.sentence(
        accounting.at_row(fits.accounted(state.step_times[row : row + 1], old, new), 0)
    )


def _past(before: windows.Sums) -> Past:
    """Return what was usual before a change, to hold the present against when the sums have forgotten it."""
    old = estimates.from_sums(before)
    tokens, tpot = float(old.tokens_per_step[0]), float(old.implied_tpot_seconds[0])
    return Past(
        tokens if math.isfinite(tokens) else math.nan,
        tpot if math.isfinite(tpot) else math.nan,
    )


def _why_silent(engine: str) -> str:
    """Return why an engine may stop drafting by itself, empty where none is known to."""
    return engines.ENGINES[engine].when_silent if engine in engines.ENGINES else ""


def _cost(alarm: Alarm, before: windows.Sums, after: windows.Sums) -> Cost:
    """Return what the change costs: from delivered tokens and step times where the page has them."""
    old, new = estimates.from_sums(before), estimates.from_sums(after)
    tokens = float(new.tokens_per_step[0] / old.tokens_per_step[0])
    tpot = float(new.implied_tpot_seconds[0] / old.implied_tpot_seconds[0])
    return events.cost(alarm.before.mal, alarm.after.mal, tokens, tpot)


def switched_off(state: State, row: int, now: float) -> Event:
    """Return the note that a stream's page no longer has speculation."""
    identity = state.identities[row]
    fact = "the page no longer has the engine's speculation counters: speculation is not configured any more"
    why = attribution.Attribution((fact,), (attribution.Cause("config", 1.0, fact),))
    event = events.noted(identity.id, identity.key, "speculation_off", now, why)
    before = detectors.lately(state.watch, row)
    cost = Cost(1.0 / before.mal, math.nan, events.benefit_lost(before.mal, notes.OFF.mal))
    event = replace(event, before=before, after=notes.OFF, cost=cost)
    notes.keep(state, row, event, state.window_seconds)
    streams.count_change(state, row, event)
    return event
