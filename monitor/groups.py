"""The streams of one model as a group: what all of them do is one event, and the odd one out shows sooner.

Streams with one model name on at least three targets or replicas are compared (`fleet`). The state of a
group is a row of the fleet's table; its name and its open event stand beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from monitor import attribution, changes, events, fleet
from monitor.events import Cost

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from monitor.deltas import Counts
    from monitor.detectors import Findings
    from monitor.detectors import Plan as Watch
    from monitor.events import Event
    from monitor.fleet import FleetAlarm
    from monitor.streams import State

SHARED = "all replicas of the model moved together: what they share is the traffic, the draft and the release"
UNPROVEN = "closed without recovery"


@dataclass(slots=True)
class Groups:
    """Groups of streams: `numbers` by model name, `of` the group of each row, `open` their open events."""

    fleet: fleet.Fleet = field(default_factory=lambda: fleet.allocate(0, 0))
    numbers: dict[str, int] = field(default_factory=dict)
    of: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    open: dict[int, Event] = field(default_factory=dict)

    def add(self, model_names: Sequence[str]) -> None:
        """Append rows for new streams."""
        before = len(self.numbers)
        for name in model_names:
            self.numbers.setdefault(name, len(self.numbers))
        fresh = fleet.allocate(len(model_names), len(self.numbers) - before)
        self.fleet.streams = np.concatenate((self.fleet.streams, fresh.streams))
        self.fleet.groups = np.concatenate((self.fleet.groups, fresh.groups))
        self.of = np.concatenate((self.of, [self.numbers[name] for name in model_names]))

    def keep(self, rows: npt.NDArray[np.intp]) -> None:
        """Keep these rows of streams, and the groups that they or an open event belong to, numbered anew."""
        of = self.of[rows]
        held = np.unique(np.array([*of.tolist(), *self.open], np.int64))
        numbers = {before: number for number, before in enumerate(held.tolist())}
        self.fleet.streams, self.fleet.groups = self.fleet.streams[rows], self.fleet.groups[held]
        group = self.fleet.streams["group"]
        self.fleet.streams["group"] = np.where(group >= 0, np.searchsorted(held, group), group)
        self.numbers = {name: numbers[before] for name, before in self.numbers.items() if before in numbers}
        self.of = np.searchsorted(held, of)
        seen = self.fleet.streams["group"] != fleet.SKIPPED
        self.fleet.streams["group"] = np.where(seen, self.of, fleet.SKIPPED)
        self.open = {numbers[before]: event for before, event in self.open.items()}


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
    found = [changes.of_row(state, row, alarm, state.window_seconds) for row, alarm in said.named]
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
