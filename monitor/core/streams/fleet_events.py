"""What all streams of one model do becomes one event of the model; the odd one out is told of sooner."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import events, fleet, streams
from monitor.core.detectors.base import Level
from monitor.core.events import attribution
from monitor.core.streams import present as presents
from monitor.core.streams import stream_events, surroundings
from monitor.core.streams.surroundings import ChangePoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors import DetectionPlan as Watch
    from monitor.core.detectors import Findings
    from monitor.core.events import Event
    from monitor.core.fleet import FleetAlarm, Present
    from monitor.core.streams import State

SHARED = "all replicas of the model moved together: what they share is the traffic, the draft and the release"
LOOK_SECONDS = 60.0
ENOUGH_DRAFTS = 500.0
UNPROVEN = "closed without recovery"


def judge(
    plan: Watch, state: State, counts: Counts, watch: npt.NDArray[np.void], findings: Findings
) -> tuple[Findings, list[Event]]:
    """Return the findings without the alarms that groups explain, and the events that comparing brings.

    `watch` are the detectors' rows of `counts`, written back to `state` already.
    """
    groups = state.groups
    if len(groups.group_of_row) < fleet.LEAST_REPLICAS:
        return findings, []
    numbers = groups.group_of_row[counts.rows]
    large = np.bincount(groups.group_of_row, minlength=len(groups.numbers)) >= fleet.LEAST_REPLICAS
    compared = large[numbers]
    if not compared.any():
        return findings, []
    of = np.where(compared, numbers, fleet.SKIPPED)
    said = fleet.step(plan, groups.fleet, of, counts, watch, state.watch, findings)
    found = [stream_events.of_row(state, row, alarm, state.window_seconds) for row, alarm in said.named]
    for alarm in said.common:
        found += _events(state, alarm)
    for present in said.present:
        found += _looked_at(state, present)
    return said.findings, found


def of_stream(state: State, row: int) -> list[Event]:
    """Return the open events of a stream: its own, else its model's that it is a part of.

    An event of its counters (`data_quality`) stands beside both.
    """
    identity = state.identities[row]
    own = streams.open_events(identity)
    shared = state.groups.open.get(int(state.groups.group_of_row[row]))
    if identity.event is None and shared is not None and identity.id in shared.streams:
        return [shared, *own]
    return own


def _looked_at(state: State, present: Present) -> list[Event]:
    """Return the open event of a group as it is now, where it is not as it was told any more.

    What is nearer to what was before than to what was told may be its end, and is not taken for its present.
    """
    held = state.groups.open.get(present.group)
    if held is None or present.at - held.present_at < LOOK_SECONDS or present.drafts < ENOUGH_DRAFTS:
        return []
    if present.latest_mal > (held.before.mal + held.after.mal) / 2.0 > held.after.mal:
        return []
    mal = 1.0 + present.accepted / present.drafts
    after = Level(mal, math.nan, math.nan, (), present.drafts)
    moved, why = events.moved(held, after), _why_now(state, held, present)
    if not moved and not presents.tells_more(held.causes, why.causes):
        return []
    level, cost = (after, events.cost(held.before.mal, mal)) if moved else (held.after, held.cost)
    told = events.present(held, present.at, level, cost, why.causes)
    state.groups.open[present.group] = replace(told, facts=why.facts)
    return [state.groups.open[present.group]]


def _why_now(state: State, held: Event, present: Present) -> attribution.Attribution:
    """Return what is known by now of why the replicas of an open event moved."""
    rows = streams.rows_of(state, held) if presents.causes_due(held, present.at) else []
    if not rows:
        return attribution.Attribution(held.facts, held.causes)
    return _why(state, present.group, rows, surroundings.of_event(held, present.at))


def _events(state: State, alarm: FleetAlarm) -> list[Event]:
    """Return the event that an alarm of a group opens or closes; the group keeps it while it is open."""
    groups = state.groups
    if alarm.action == "close":
        held = groups.open.pop(alarm.group, None)
        return [] if held is None else [events.closed(held, alarm.raised_at)]
    cost = events.cost(alarm.before.mal, alarm.after.mal)
    held = groups.open.get(alarm.group)
    if alarm.action == "update":
        if held is None:
            return []
        grown = replace(
            held,
            kind=alarm.kind,
            severity=alarm.severity,
            after=alarm.after,
            cost=cost,
            present_at=alarm.raised_at,
        )
        groups.open[alarm.group] = replace(grown, updates=held.updates + 1)
        return [groups.open[alarm.group]]
    name = next(name for name, number in groups.numbers.items() if number == alarm.group)
    ids = tuple(state.identities[row].id for row in alarm.rows)
    change = ChangePoint(
        alarm.change_point_at,
        alarm.change_point_low,
        alarm.change_point_high,
        alarm.raised_at,
        gradual=alarm.kind == "decay",
    )
    why = _why(state, alarm.group, alarm.rows, change)
    groups.open[alarm.group] = events.of_fleet(name, ids, alarm, cost, why)
    return [groups.open[alarm.group]]


def deserted(state: State, away: npt.NDArray[np.bool_], now: float) -> list[Event]:
    """Return the open events of groups, closed at `now`, that too few replicas are left to judge.

    away: which rows are of targets that left, or are on no page any more.
    """
    groups = state.groups
    there = np.bincount(groups.group_of_row[~away], minlength=len(groups.numbers))
    found = []
    for number in sorted(groups.open):
        if there[number] < fleet.LEAST_REPLICAS:
            fact = f"{there[number]} replicas are left, {fleet.LEAST_REPLICAS} are compared: {UNPROVEN}"
            event = groups.open.pop(number)
            found.append(replace(events.closed(event, now), facts=(*event.facts, fact)))
            fleet.end(groups.fleet, number)
    return found


def _why(state: State, group: int, rows: Sequence[int], change: ChangePoint) -> attribution.Attribution:
    """Return what is known of why all replicas moved."""
    found = attribution.around(surroundings.of_group(state, group, rows, change, fleet.PERIOD_SECONDS))
    return replace(found, facts=(SHARED, *found.facts))
