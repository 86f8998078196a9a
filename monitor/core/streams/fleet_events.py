"""What all streams of one model do becomes one event of the model; the odd one out is told of sooner."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import events, fleet
from monitor.core.events import Cost, attribution
from monitor.core.streams import stream_events

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors import DetectionPlan as Watch
    from monitor.core.detectors import Findings
    from monitor.core.events import Event
    from monitor.core.fleet import FleetAlarm
    from monitor.core.streams import State

SHARED = "all replicas of the model moved together: what they share is the traffic, the draft and the release"
UNPROVEN = "closed without recovery"


def judge(
    plan: Watch, state: State, counts: Counts, watch: npt.NDArray[np.void], findings: Findings
) -> tuple[Findings, list[Event]]:
    """Return the findings without the alarms that groups explain, and the events that comparing brings.

    `watch` are the detectors' rows of `counts`, written back to `state` already.
    """
    groups = state.groups
    if len(groups.of) < fleet.LEAST_REPLICAS:
        return findings, []
    numbers = groups.of[counts.rows]
    large = np.bincount(groups.of, minlength=len(groups.numbers)) >= fleet.LEAST_REPLICAS
    compared = large[numbers]
    if not compared.any():
        return findings, []
    of = np.where(compared, numbers, fleet.SKIPPED)
    said = fleet.step(plan, groups.fleet, of, counts, watch, state.watch, findings)
    found = [stream_events.of_row(state, row, alarm, state.window_seconds) for row, alarm in said.named]
    for alarm in said.common:
        found += _events(state, alarm)
    return said.findings, found


def _events(state: State, alarm: FleetAlarm) -> list[Event]:
    """Return the event that an alarm of a group opens or closes; the group keeps it while it is open."""
    groups = state.groups
    if alarm.action == "close":
        held = groups.open.pop(alarm.group, None)
        return [] if held is None else [events.closed(held, alarm.raised_at)]
    tokens = alarm.after.mal / alarm.before.mal if alarm.before.mal > 0 else math.nan
    cost = Cost(tokens, 1.0 / tokens, events.benefit_lost(alarm.before.mal, alarm.after.mal))
    held = groups.open.get(alarm.group)
    if alarm.action == "update":
        if held is None:
            return []
        grown = replace(held, kind=alarm.kind, severity=alarm.severity, after=alarm.after, cost=cost)
        groups.open[alarm.group] = replace(grown, updates=held.updates + 1)
        return [groups.open[alarm.group]]
    name = next(name for name, number in groups.numbers.items() if number == alarm.group)
    ids = tuple(state.identities[row].id for row in alarm.rows)
    groups.open[alarm.group] = events.of_fleet(name, ids, alarm, cost, _why(state, alarm))
    return [groups.open[alarm.group]]


def deserted(state: State, away: npt.NDArray[np.bool_], at: float) -> list[Event]:
    """Return the open events of groups, closed at `at`, that too few replicas are left to judge.

    away: which rows are of targets that left, or are on no page any more.
    """
    groups = state.groups
    there = np.bincount(groups.of[~away], minlength=len(groups.numbers))
    found = []
    for number in sorted(groups.open):
        if there[number] < fleet.LEAST_REPLICAS:
            fact = f"{there[number]} replicas are left, {fleet.LEAST_REPLICAS} are compared: {UNPROVEN}"
            event = groups.open.pop(number)
            found.append(replace(events.closed(event, at), facts=(*event.facts, fact)))
            fleet.end(groups.fleet, number)
    return found


def _why(state: State, alarm: FleetAlarm) -> attribution.Attribution:
    """Return what is known of why all replicas moved: marks near the change on any of them, or traffic."""
    margin = attribution.MARK_MARGIN_INTERVALS * fleet.PERIOD_SECONDS
    marks = {
        mark.text
        for row in alarm.rows
        for mark in state.identities[row].marks
        if alarm.change_point_low - margin <= mark.at <= alarm.change_point_high + margin
    }
    if marks:
        cause = attribution.Cause("config", 0.6, "; ".join(sorted(marks)))
        return attribution.Attribution(
            (SHARED, *sorted(marks)), (cause, attribution.Cause("traffic", 0.4, SHARED))
        )
    return attribution.Attribution(
        (SHARED,),
        (
            attribution.Cause("traffic", 0.6, SHARED),
            attribution.Cause("unknown", 0.4, attribution.UNEXPLAINED),
        ),
    )
