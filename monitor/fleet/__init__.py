"""Many streams of one model: who is the odd one out, and what moved everywhere.

Replicas of one model share rhythm and traffic. What they have in common is taken from each of them, and
what is left wanders so little that a drop on one replica shows sooner than it could alone (`odd`). The
common part is watched itself: a change of it is one event of the fleet (`shared`), and the replicas' own
alarms that it explains are held back.

Counts are compared period by period (`PERIOD_SECONDS` of clock time). A period of a group ends when news of
a later one come in, so it does not matter how scrapes are batched as long as they come in time order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import (
    alarms,
    base,
    diagnosis,
    evidence,
    noise,
    plunge,
    reference,
    scores,
    sightings,
    troubles,
)
from monitor.detectors.diagnosis import Case, Diagnosis
from monitor.fleet import odd, shared

if TYPE_CHECKING:
    from monitor.deltas import Counts
    from monitor.detectors.base import Action, Alarm, Findings, Floats, Indices, Ints, Kind, Severity, State

PERIOD_SECONDS = 15.0
LEAST_REPLICAS = 3
LEAST_DRAFTS = 16.0
EXPLAINED = 0.5
PLUNGING = 0.3
HELD_KINDS = ("drop", "decay", "collapse")
SKIPPED = -1

STREAM_DTYPE = np.dtype(
    [
        ("group", "i8"),
        ("period", "i8"),
        ("sums", "f8", base.NUM_SUMS),
        ("rate", "f8", base.POSITIONS),
        ("known", "f8", base.POSITIONS),
        ("spread", "f8"),
        ("troubled", "f8"),
        ("plunging", "f8"),
        ("held", "f8"),
        ("odd", odd.DTYPE),
    ],
)
GROUP_DTYPE = np.dtype([("period", "i8"), ("members", "f8"), ("plunging", "f8"), ("shared", shared.DTYPE)])


@dataclass(slots=True)
class Fleet:
    """The state of all streams (as many rows as the detectors have) and of all groups."""

    streams: State
    groups: State


@dataclass(frozen=True, slots=True)
class FleetAlarm:
    """A change of what the replicas of `group` have in common; `rows` are their rows in the state.

    `shift` is how far the common level moved, in logits; before and after are means over the replicas.
    """

    group: int
    rows: tuple[int, ...]
    kind: Kind
    severity: Severity
    action: Action
    change_point_at: float
    change_point_low: float
    change_point_high: float
    raised_at: float
    shift: float
    before: base.Level
    after: base.Level
    score: float


def allocate(num_streams: int, num_groups: int) -> Fleet:
    """Return the state of streams and groups that were never seen."""
    streams, groups = np.zeros(num_streams, STREAM_DTYPE), np.zeros(num_groups, GROUP_DTYPE)
    streams["group"] = SKIPPED
    streams["period"] = groups["period"] = SKIPPED
    streams["spread"] = noise.PRIOR_SPREAD
    odd.allocate(streams["odd"])
    shared.allocate(groups["shared"])
    return Fleet(streams, groups)


def step(
    plan: base.Plan, fleet: Fleet, groups: Ints, counts: Counts, watch: State, findings: Findings
) -> tuple[Findings, tuple[FleetAlarm, ...]]:
    """Return the findings with the replicas' alarms put right, and the alarms of whole fleets.

    groups [B]: which group each row of `counts` belongs to, -1 for none; watch: the detectors' state of
    the same rows after their step, changed in place where a replica is found to be the odd one out.
    """
    trials = evidence.from_counts(counts)
    periods = np.floor(counts.at / PERIOD_SECONDS).astype(np.int64)
    fleet.streams["group"][counts.rows] = groups
    common: list[FleetAlarm] = []
    said: list[Alarm] = []
    for period in np.unique(periods).tolist():
        some = np.flatnonzero(periods == period)
        for group in np.unique(groups[some]).tolist():
            if group >= 0 and fleet.groups["period"][group] < period:
                common += _close(plan, fleet, group)
                fleet.groups["period"][group] = period
        for index in some.tolist():
            _take(fleet, int(counts.rows[index]), period, trials.sums[index])
        _copy(plan, fleet.streams, counts.rows[some], watch[some])
        raised = tuple(alarm for alarm in findings.alarms if periods[alarm.index] == period)
        said += _hold_back(plan, fleet, counts, watch, trials, raised, some)
        said += _blame(plan, fleet, counts, watch, trials, some)
        held = fleet.streams["held"][counts.rows[some]] > 0.0
        fleet.streams["troubled"][counts.rows[some]] = (watch["trouble"]["kind"][some] > 0) & ~held
    return replace(findings, alarms=tuple(said)), tuple(common)


def _take(fleet: Fleet, row: int, period: int, sums: Floats) -> None:
    """Add an interval to the period of its stream."""
    streams = fleet.streams
    if streams["period"][row] != period:
        streams["period"][row] = period
        streams["sums"][row] = 0.0
    streams["sums"][row] += sums


def _copy(plan: base.Plan, streams: State, rows: Indices, watch: State) -> None:
    """Remember what the detectors know of the streams, for periods that end without news of theirs."""
    baseline = watch["baseline"]
    streams["rate"][rows] = baseline["rate"]
    streams["known"][rows] = reference.known(baseline)
    streams["spread"][rows] = watch["noise"]["spread"][:, 0]
    streams["plunging"][rows] = watch["plunge"]["sum"] > PLUNGING * (base.nats(plan) + plunge.EXTRA_NATS)


def _close(plan: base.Plan, fleet: Fleet, group: int) -> list[FleetAlarm]:
    """Compare the replicas of a group in the period that ends, and return what it says of all of them."""
    period = int(fleet.groups["period"][group])
    streams = fleet.streams
    there = (streams["group"] == group) & (streams["period"] == period)
    rows = np.flatnonzero(
        there & (streams["sums"][:, base.DRAFTS] >= LEAST_DRAFTS) & (streams["known"][:, 0] > 0.0)
    )
    fleet.groups["members"][group] = len(rows)
    fleet.groups["plunging"][group] = streams["plunging"][there].mean() if there.any() else 0.0
    if period < 0 or len(rows) < LEAST_REPLICAS:
        return []
    part = streams[rows]
    seen = scores.against(part["sums"], part["rate"], part["known"] > 0.0)
    variance = part["spread"] / np.maximum(seen.information[:, 0], 1.0) + noise.FLOORS[1]
    common, apart, apart_variance = shared.parts(seen.shift[:, 0], variance)
    began = period * PERIOD_SECONDS
    odd.step(plan, part["odd"], apart, apart_variance, began, part["troubled"] == 0.0)
    streams[rows] = part
    state = fleet.groups["shared"][group : group + 1]
    error = 1.0 / float((1.0 / variance).sum())
    action = shared.step(plan, state, common, error, began, began + PERIOD_SECONDS)
    if action is not None:
        return [_fleet_alarm(plan, state, group, rows, part, began + PERIOD_SECONDS, action)]
    return []


def _fleet_alarm(
    plan: base.Plan, state: State, group: int, rows: Indices, part: State, at: float, action: Action
) -> FleetAlarm:
    shift, origin = float(state["shift"][0]), float(state["origin"][0])
    before, after = (_mean_level(part, by) for by in (origin, origin + shift))
    lost = (before.mal - after.mal) / before.mal
    collapsed = lost >= plan.collapse_ratio or before.mal - after.mal >= diagnosis.BENEFIT_LOST * (
        before.mal - 1.0
    )
    change = float(state["change_at"][0])
    return FleetAlarm(
        group=group,
        rows=tuple(rows.tolist()),
        kind="collapse" if collapsed else "drop",
        severity="critical" if collapsed else "warning",
        action=action,
        change_point_at=change,
        change_point_low=change - PERIOD_SECONDS,
        change_point_high=min(change + PERIOD_SECONDS, at),
        raised_at=at,
        shift=shift,
        before=before,
        after=after,
        score=float(state["score"][0]),
    )


def _mean_level(part: State, shift: float) -> base.Level:
    """Return the mean over replicas of what their baselines promise, all shifted by as many logits."""
    odds = part["rate"] / (1.0 - part["rate"]) * np.exp(shift)
    rate = odds / (1.0 + odds)
    drafted = (part["known"] > 0.0).sum(1).astype(np.float64)
    mal = 1.0 + reference.expected_accepted(rate, drafted, np.zeros(len(part), bool))
    weight = part["sums"][:, base.DRAFTS]
    mean = float((mal * weight).sum() / weight.sum())
    conditional = tuple(rate[:, : int(drafted.max())].mean(0).tolist())
    return base.Level(mean, float(mal.min()), float(mal.max()), conditional, float(weight.sum()))


def _explained(fleet: Fleet, row: int, kind: Kind) -> bool:
    """Return whether the fall of one stream is what its whole group does: it is not seen to be its own."""
    streams = fleet.streams
    group = int(streams["group"][row])
    if group < 0 or fleet.groups["members"][group] < LEAST_REPLICAS:
        return False
    own = streams["odd"][row]
    if kind == "collapse" and not fleet.groups["shared"]["open"][group]:
        return float(fleet.groups["plunging"][group]) > EXPLAINED
    return float(own["score"]) < EXPLAINED and float(own["seen"]) >= odd.WARM_PERIODS


def _hold_back(
    plan: base.Plan,
    fleet: Fleet,
    counts: Counts,
    watch: State,
    trials: evidence.Trials,
    raised: tuple[Alarm, ...],
    some: Indices,
) -> list[Alarm]:
    """Return the alarms without those that the group explains, and with those it no longer does."""
    held = fleet.streams["held"]
    said = []
    for alarm in raised:
        row = int(counts.rows[alarm.index])
        if alarm.action == "open":
            shift = float(watch["trouble"]["shift"][alarm.index, 0])
            held[row] = alarm.kind in HELD_KINDS and shift < 0.0 and _explained(fleet, row, alarm.kind)
        if not held[row] or alarm.action == "note":
            said.append(alarm)
        elif alarm.action == "close":
            held[row] = 0.0
    for index in some[held[counts.rows[some]] > 0.0].tolist():
        row, trouble = int(counts.rows[index]), watch["trouble"]
        kind = troubles.KINDS[int(trouble["kind"][index]) - 1]
        if fleet.streams["odd"]["score"][row] >= 1.0 or (
            kind == "collapse" and not _explained(fleet, row, kind)
        ):
            held[row] = 0.0
            said.append(alarms.said(_case(plan, watch, trials, index), "open"))
    return said


def _blame(
    plan: base.Plan, fleet: Fleet, counts: Counts, watch: State, trials: evidence.Trials, some: Indices
) -> list[Alarm]:
    """Open a trouble for streams that fell below the others, where none is open yet."""
    state = fleet.streams["odd"]
    low = (state["score"][counts.rows] >= 1.0) & (watch["trouble"]["kind"] == 0) & (trials.drafts > 0.0)
    said = []
    for index in some[low[some]].tolist():
        row = int(counts.rows[index])
        case = _case(plan, watch, trials, index)
        shift = min(float(state["own"][row]), -alarms.LEAST_SHIFT)
        kind: Kind = "collapse" if diagnosis.collapsed(case, diagnosis.missing_after(case, shift)) else "drop"
        found = Diagnosis(kind, "fleet", float(state["score"][row]), odd.since(state, row), shift=shift)
        said.append(alarms.opened(case, found))
        odd.restart(fleet.streams["odd"][row : row + 1])
    return said


def _case(plan: base.Plan, watch: State, trials: evidence.Trials, index: int) -> Case:
    size = len(watch)
    nothing = np.zeros(size)
    return Case(
        plan, watch, trials, sightings.of_intervals(nothing, nothing, nothing, nothing, nothing > 0.0), index
    )
