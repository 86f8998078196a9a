"""An alarm about one stream becomes an event: what it cost, what else changed, and what was open before."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import detectors, events, streams
from monitor.core.counts import estimates, windows
from monitor.core.detectors import lengths
from monitor.core.economics import accounting, fits
from monitor.core.events import Cost, attribution
from monitor.core.pages import engines

if TYPE_CHECKING:
    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors.base import Alarm
    from monitor.core.events import Event
    from monitor.core.streams import State


LOOKS_SECONDS = (60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 2700.0, 3600.0)  # after an event opened
NOTEWORTHY_WEIGHT = 0.2


def raised(state: State, counts: Counts, alarm: Alarm, lengths: tuple[float, ...]) -> Event:
    """Return the event that an alarm about a row of `counts` opens, changes or closes."""
    return of_row(state, int(counts.rows[alarm.index]), alarm, lengths)


def of_row(state: State, row: int, alarm: Alarm, lengths: tuple[float, ...]) -> Event:
    """Return the event that an alarm opens, changes or closes; the stream keeps it while it is open.

    `lengths` are those of the windows, in seconds.
    """
    identity = state.identities[row]
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
        event = events.opened(identity.id, identity.key, alarm, cost, why)
        streams.count_change(state, row, event)
    if alarm.action != "note":
        identity.event = event if event.status == "open" else None
    return event


def revisited(state: State, counts: Counts, lengths: tuple[float, ...]) -> list[Event]:
    """Look again at open events and return those of which something else is said now.

    Requests tell their lengths when they end, so what changed around a fall is often known minutes after it.
    What each look finds stays with the open event, also where it is too little to be told again.
    """
    found = []
    for index in np.flatnonzero(state.watch["trouble"]["kind"][counts.rows]).tolist():
        row, at = int(counts.rows[index]), float(counts.at[index])
        event = state.identities[row].event
        if event is None or event.scope == "fleet" or event.raised_at >= at:
            continue
        since, until = at - counts.seconds[index] - event.raised_at, at - event.raised_at
        if any(since < look <= until for look in LOOKS_SECONDS):
            fresh = _looked_again(state, row, event, at, lengths)
            state.identities[row].event = fresh
            if fresh.updates > event.updates:
                found.append(fresh)
    return found


def _looked_again(state: State, row: int, event: Event, at: float, lengths: tuple[float, ...]) -> Event:
    """Return an open event with what is known by now, as updated where its causes are clearly others."""
    before, after = windows.around(state.sums[row : row + 1], event.change_point_at, lengths)
    if not before.vectors[0, windows.INTERVALS] or not after.vectors[0, windows.INTERVALS]:
        return event
    standing, explained, unexplained = detectors.standing(state.watch, row)
    alarm = detectors.Alarm(
        index=0,
        kind=event.kind,  # type: ignore[arg-type]
        severity=event.severity,
        action="update",
        change_point_at=event.change_point_at,
        change_point_low=event.change_point_low,
        change_point_high=event.change_point_high,
        raised_at=at,
        positions=event.positions,
        before=event.before,
        after=standing if standing.drafts > 0 else event.after,
        score=0.0,
        detector=event.detector,
        explained=explained,
        unexplained=unexplained,
    )
    fresh = events.updated(event, alarm, _cost(alarm, before, after), _why(state, row, alarm, before, after))
    return fresh if _tells_more(event, fresh) else replace(fresh, updates=event.updates)


def _tells_more(before: Event, after: Event) -> bool:
    """Return whether another cause comes first now, or one has become much likelier or less likely."""
    weights = {each.cause: each.weight for each in before.causes}
    moved = [abs(each.weight - weights.get(each.cause, 0.0)) for each in after.causes]
    return before.causes[:1] != after.causes[:1] and (
        before.causes[0].cause != after.causes[0].cause or max(moved) >= NOTEWORTHY_WEIGHT
    )


def _why(
    state: State, row: int, alarm: Alarm, before: windows.Sums, after: windows.Sums
) -> attribution.Attribution:
    """Return what else changed around the alarm's change point, as far as it shows by now."""
    identity = state.identities[row]
    interval = float(state.ledger["interval"][row])
    change = (alarm.change_point_low, alarm.change_point_high)
    why = attribution.around(change, interval, identity.marks, before, after)
    if alarm.explained:
        why = attribution.with_traffic(why, alarm.explained, alarm.unexplained)
    if alarm.detector == lengths.NAME:
        why = attribution.with_reason(why, alarm.fact)
    elif alarm.action == "note" and alarm.fact:
        why = replace(why, facts=(alarm.fact, *why.facts))
    if alarm.kind == "speculation_silent":
        why = attribution.with_reason(why, _why_silent(identity.engine))
    told = _accounted(state, row, before, after)
    return replace(why, facts=(*why.facts, told)) if told else why


def _accounted(state: State, row: int, before: windows.Sums, after: windows.Sums) -> str:
    """Return what the change of TPOT is made of, in words; empty where the page has no step times."""
    old, new = estimates.from_sums(before), estimates.from_sums(after)
    depth = new.draft_tokens / np.where(new.drafts > 0.0, new.drafts, np.nan)
    drafted = depth * np.nan_to_num(new.coverage, nan=1.0)
    history = state.step_times[row : row + 1]
    effect = fits.batch_effect(history, old.batch_size, new.batch_size, drafted)
    return accounting.sentence(accounting.at_row(accounting.between(old, new, effect), 0))


def _why_silent(engine: str) -> str:
    """Return why an engine may stop drafting by itself, empty where none is known to."""
    return engines.ENGINES[engine].when_silent if engine in engines.ENGINES else ""


def _cost(alarm: Alarm, before: windows.Sums, after: windows.Sums) -> Cost:
    """Return what the change costs: from delivered tokens and step times where the page has them."""
    old, new = estimates.from_sums(before), estimates.from_sums(after)
    tokens = float(new.tokens_per_step[0] / old.tokens_per_step[0])
    if not math.isfinite(tokens):
        tokens = alarm.after.mal / alarm.before.mal if alarm.before.mal > 0 else math.nan
    tpot = float(new.implied_tpot_seconds[0] / old.implied_tpot_seconds[0])
    if not math.isfinite(tpot):
        tpot = 1.0 / tokens if tokens > 0 else math.nan
    return Cost(tokens, tpot, events.benefit_lost(alarm.before.mal, alarm.after.mal))


def switched_off(state: State, row: int, at: float) -> Event:
    """Return the note that a stream's page no longer has speculation."""
    identity = state.identities[row]
    fact = "the page no longer has the engine's speculation counters: speculation is not configured any more"
    why = attribution.Attribution((fact,), (attribution.Cause("config", 1.0, fact),))
    event = events.noted(identity.id, identity.key, "speculation_off", at, why)
    streams.count_change(state, row, event)
    return event
