"""What is said of groups and replicas once they were compared: named, held back, or said once for all.

A replica's alarm is held back while its group explains it. A fall of the level is explained where the
comparison does not support it (`SUPPORTED` of its limit), a collapse by most replicas plunging at once, a
fall of late positions by most replicas having one. A trouble that is held back is said as soon as it is not
explained any more, unless it is over by then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from monitor import table
from monitor.detectors import alarms, base, diagnosis, reference, sightings, troubles
from monitor.detectors.diagnosis import Case, Diagnosis
from monitor.detectors.evidence import Trials
from monitor.fleet import odd

if TYPE_CHECKING:
    from monitor.detectors.base import Action, Alarm, Indices, Kind, Severity, State

LEAST_REPLICAS = 3
EXPLAINED = 0.5
FEW = 0.25
SUPPORTED = 0.6
UNEXPLAINED_TURNS = 40.0
HELD_KINDS = ("drop", "decay", "collapse")
NOTHING, LEVEL, TAIL = 0.0, 1.0, 2.0

STREAM_FIELDS = [
    ("rate", "f8", base.POSITIONS),
    ("known", "f8", base.POSITIONS),
    ("drafted", "f8"),
    ("single", "f8"),
    ("spread", "f8"),
    ("troubled", "f8"),
    ("plunging", "f8"),
    ("tailing", "f8"),
    ("held", "f8"),
]
GROUP_FIELDS = [("members", "f8"), ("plunging", "f8"), ("tailing", "f8"), ("said", "f8")]


@dataclass(frozen=True, slots=True)
class FleetAlarm:
    """A change of what the replicas of `group` have in common; `rows` are their rows in the state.

    `shift` is how far the common level moved, in logits (0 where only late `positions` fell); before and
    after are means over the replicas.
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
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Words:
    """All that is needed to say something, and what was said: of the batch, of named rows, of groups.

    `streams` and `groups` are the fleet's state, `everyone` is the detectors' of the same streams.
    """

    plan: base.Plan
    streams: State
    groups: State
    everyone: State
    kept: list[Alarm]
    named: list[tuple[int, Alarm]]
    common: list[FleetAlarm]

    def judge(self, row: int, alarm: Alarm, shift: float) -> None:
        """Say what the detectors raised about a stream, unless its group explains it."""
        held = self.streams["held"]
        if alarm.action == "open":
            held[row] = self._explained(row, alarm.kind, shift)
            if held[row] and alarm.kind == "tail_drop":
                self._of_tails(row, alarm)
        if not held[row] or alarm.action == "note":
            self.kept.append(alarm)
        elif alarm.action == "close":
            held[row] = 0.0

    def _explained(self, row: int, kind: Kind, shift: float) -> bool:
        """Return whether the trouble of one stream is what its whole group does: not seen to be its own."""
        number = int(self.streams["group"][row])
        if number < 0 or self.groups["members"][number] < LEAST_REPLICAS:
            return False
        if kind == "tail_drop":
            return float(self.groups["tailing"][number]) > EXPLAINED
        if kind not in HELD_KINDS or shift >= 0.0:
            return False
        if kind == "collapse" and self.groups["said"][number] == NOTHING:
            return float(self.groups["plunging"][number]) > EXPLAINED
        own = self.streams["odd"][row]
        return float(own["score"]) < SUPPORTED and float(own["seen"]) >= odd.WARM_PERIODS

    def of_replica(self, row: int, at: float) -> None:
        """Say of a replica, in the turn that ends at `at`, what is seen to be its own."""
        streams, kind = self.streams, int(self.everyone["trouble"]["kind"][row])
        score = float(streams["odd"]["score"][row])
        if kind == 0:
            if score >= 1.0 and streams["sums"][row, base.DRAFTS] > 0.0:
                self._name(row, at)
        elif streams["held"][row] > 0.0 and self._its_own(row, troubles.KINDS[kind - 1]):
            streams["held"][row], streams["troubled"][row] = 0.0, 1.0
            case = self._case(row, at)
            self.named.append((row, replace(alarms.said(case, "open"), index=row)))

    def _its_own(self, row: int, kind: Kind) -> bool:
        """Return whether a trouble that was held back is not explained any more."""
        number = int(self.streams["group"][row])
        if kind == "tail_drop":
            few = self.groups["tailing"][number] <= FEW
            self.streams["held"][row] += few
            return bool(self.streams["held"][row] > UNEXPLAINED_TURNS)
        if kind == "collapse" and not self._explained(row, kind, -1.0):
            return True
        return float(self.streams["odd"]["score"][row]) >= 1.0

    def _name(self, row: int, at: float) -> None:
        """Open the trouble of a replica that fell below the others."""
        streams, case = self.streams, self._case(row, at)
        shift = min(odd.shift(streams["odd"], row), -alarms.LEAST_SHIFT)
        lost = diagnosis.collapsed(case, diagnosis.missing_after(case, shift))
        score, since = float(streams["odd"]["score"][row]), odd.since(streams["odd"], row)
        found = Diagnosis("collapse" if lost else "drop", "fleet", score, since, shift=shift)
        alarm = alarms.opened(case, found)
        self.named.append((row, replace(alarm, index=row)))
        odd.restart(streams["odd"][row : row + 1])
        streams["troubled"][row] = 1.0

    def _case(self, row: int, at: float) -> Case:
        """Return one stream with what it did in this turn, to say something of it."""
        own = self.streams[row : row + 1]
        sums, nothing = own["sums"].copy(), np.zeros(1)
        drafts = sums[:, base.DRAFTS]
        trials = Trials(
            at=np.array([at]),
            began_at=own["began_at"].copy(),
            drafts=drafts,
            accepted=sums[:, base.ACCEPTED],
            proposed=drafts,
            lump=np.zeros(1, bool),
            sums=sums,
            drafted=own["drafted"].copy(),
            single=own["single"] > 0.0,
        )
        seen = sightings.of_intervals(nothing, nothing, nothing, nothing, nothing > 0.0)
        return Case(self.plan, self.everyone[row : row + 1], trials, seen, 0)

    def of_group(self, number: int, rows: Indices, at: float, *, closes: bool) -> None:
        """Say what the replicas `rows` of a group have in common, once while it lasts."""
        group = self.groups[number]
        if group["said"] == NOTHING and group["shared"]["open"] > 0.0:
            self.groups["said"][number] = LEVEL
            self.common.append(self._of_level(number, rows, at, "open"))
        elif group["said"] == LEVEL and closes:
            self.groups["said"][number] = NOTHING
            self.common.append(self._of_level(number, rows, at, "close"))
        elif group["said"] == TAIL and group["tailing"] <= FEW and group["shared"]["open"] == 0.0:
            self.groups["said"][number] = NOTHING
            self.common.append(replace(self._of_level(number, rows, at, "close"), kind="tail_drop"))

    def _of_level(self, number: int, rows: Indices, at: float, action: Action) -> FleetAlarm:
        state, part = self.groups["shared"][number : number + 1], table.keep(self.streams, rows)
        shift, origin = float(state["shift"][0]), float(state["origin"][0])
        before, after = (_mean_level(part, by) for by in (origin, origin + shift))
        lost = before.mal - after.mal
        collapsed = lost >= self.plan.collapse_ratio * before.mal
        collapsed = collapsed or lost >= diagnosis.BENEFIT_LOST * (before.mal - 1.0)
        change = min(float(state["change_at"][0]), at)
        margin = float(self.groups["seconds"][number])
        return FleetAlarm(
            group=number,
            rows=tuple(rows.tolist()),
            kind="collapse" if collapsed else "drop",
            severity="critical" if collapsed else "warning",
            action=action,
            change_point_at=change,
            change_point_low=change - margin,
            change_point_high=min(change + margin, at),
            raised_at=at,
            shift=shift,
            before=before,
            after=after,
            score=float(state["score"][0]),
        )

    def _of_tails(self, row: int, alarm: Alarm) -> None:
        """Say that late positions fell on most replicas, from the first alarm that says so of one of them."""
        number = int(self.streams["group"][row])
        if self.groups["said"][number] != NOTHING:
            return
        self.groups["said"][number] = TAIL
        rows = np.flatnonzero(
            (self.streams["group"] == number) & (self.streams["turn"] >= self.groups["turn"][number] - 1)
        )
        part = table.keep(self.everyone, rows)
        before = part["baseline"]["local"].sum(0)
        after = part["trouble"]["recent"].sum(0)
        self.common.append(
            FleetAlarm(
                group=number,
                rows=tuple(rows.tolist()),
                kind=alarm.kind,
                severity=alarm.severity,
                action="open",
                change_point_at=alarm.change_point_at,
                change_point_low=alarm.change_point_low,
                change_point_high=alarm.change_point_high,
                raised_at=alarm.raised_at,
                shift=0.0,
                before=diagnosis.measured(part, before, 0),
                after=diagnosis.measured(part, after, 0),
                score=alarm.score,
                positions=alarm.positions,
            )
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
