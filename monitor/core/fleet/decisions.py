"""What is said of groups and replicas once they were compared: named, held back, or said once for all.

A replica's alarm is held back while its group explains it. A fall of the level is explained where the
comparison does not support it (`SUPPORTED` of its limit), a fall far and at once by most replicas plunging, a
fall of late positions by most replicas having one. What is held back of many is said once, of the group; what
is held back of one is said as soon as it is not explained any more, unless it is over by then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import tables
from monitor.core.detectors import base, floor, plunge, sightings
from monitor.core.detectors.measures import reference
from monitor.core.detectors.measures.evidence import Trials
from monitor.core.detectors.troubles import alarms, diagnosis
from monitor.core.detectors.troubles.diagnosis import Case, Diagnosis
from monitor.core.fleet import odd
from monitor.core.vocabulary import TROUBLES, Kind, Severity

if TYPE_CHECKING:
    from monitor.core.detectors.base import Action, Alarm, Indices, State
    from monitor.core.fleet import shared

LEAST_REPLICAS = 3
"""Replicas that make a fleet: of two there is no telling who is odd."""

EXPLAINED = 0.5
"""Share of the replicas that must do the same for one's alarm to be held back."""

FEW = 0.25
"""Share of the replicas below which nobody else does it any more."""

SUPPORTED = 0.6
"""Share of `odd`'s limit from which on the comparison supports that a fall is a replica's own."""

UNEXPLAINED_TURNS = 40.0
"""Turns for which a fall of late positions must be one replica's alone to be told late: ten minutes at 15
s."""

HELD_KINDS = ("drop", "decay", "collapse")
AT_ONCE = (plunge.NAME, floor.NAME)
MANY, LEAST_HELD = 0.3, 2
"""Share of the replicas, and how many at least, whose alarms are held back before the group is told of."""

NOTHING, LEVEL, HELD, TAILS = 0.0, 1.0, 2.0, 3.0
"""What was said of a group: nothing, that its level fell, what was held back of many, that late positions
fell."""

PRESENT_SECONDS = 300.0
"""Over how long where a group stands now is averaged, in seconds (exponentially): minutes, so that a group
with few requests does not jump, and a change that grows is told soon."""

STREAM_FIELDS = [
    ("rate", "f8", base.POSITIONS),  # baseline's conditional acceptance
    ("known", "f8", base.POSITIONS),  # 1 where the position has one
    ("drafted", "f8"),  # positions that nearly all drafts have
    ("single", "f8"),  # 1 where only the mean is known
    ("spread", "f8"),  # variance of the level over binomial variance
    ("troubled", "f8"),  # 1 where a trouble of its own is open
    ("plunging", "f8"),  # 1 where `plunge` is near
    ("tailing", "f8"),  # 1 where `shape` sees late positions fall
    ("held", "f8"),  # 1 and more: turns that a trouble is held back
]
GROUP_FIELDS = [
    ("members", "f8"),  # replicas compared in the last turn
    ("plunging", "f8"),  # share of those that plunge
    ("tailing", "f8"),  # share of those whose late positions fall
    ("held", "f8"),  # share of those with a trouble held back
    ("said", "f8"),  # `NOTHING`, `LEVEL`, `HELD` or `TAILS`
    ("collapsed", "f8"),  # 1 where it was called a collapse
    ("present", "f8", 2),  # drafts, accepted tokens of the last minutes
]


@dataclass(frozen=True, slots=True)
class FleetAlarm:
    """A change of what the replicas of `group` have in common; `rows` are their rows in the state.

    `shift` is how far the common level moved, in logits (0 where it is said from the alarms of replicas);
    before and after are means over the replicas; `positions` are those of a fall of late positions.
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
class Present:
    """Where the replicas of a group with an open change stand `at` the end of a turn.

    Drafts and accepted tokens are those of the last minutes, the latest counting most; `latest_mal` is of
    the turn alone.
    """

    group: int
    at: float
    drafts: float
    accepted: float
    latest_mal: float


@dataclass(frozen=True, slots=True)
class Decided:
    """All that is needed to say something, and what was said: of the batch, of named rows, of groups.

    `streams` and `groups` are the fleet's state, `everyone` is the detectors' of the same streams.
    """

    plan: base.DetectionPlan
    streams: State
    groups: State
    everyone: State
    kept: list[Alarm]
    named: list[tuple[int, Alarm]]
    common: list[FleetAlarm]
    present: list[Present]

    def judge(self, row: int, alarm: Alarm, shift: float) -> None:
        """Say what the detectors raised about a stream, unless its group explains it."""
        held = self.streams["held"]
        if alarm.action == "open":
            held[row] = self._explained(row, alarm.kind, alarm.detector, shift)
            if held[row]:
                self._of_many(row, alarm)
        if not held[row] or alarm.action == "note":
            self.kept.append(alarm)
        elif alarm.action == "close":
            held[row] = 0.0

    def _explained(self, row: int, kind: Kind, detector: str, shift: float) -> bool:
        """Return whether the trouble of one stream is what its whole group does: not seen to be its own."""
        number = int(self.streams["group"][row])
        if number < 0 or self.groups["members"][number] < LEAST_REPLICAS:
            return False
        if kind == "tail_drop":
            return float(self.groups["tailing"][number]) > EXPLAINED
        if kind not in HELD_KINDS or shift >= 0.0:
            return False
        if detector in AT_ONCE and self._plunges_together(number):
            return float(self.groups["plunging"][number]) > EXPLAINED
        own = self.streams["odd"][row]
        return float(own["score"]) < SUPPORTED and float(own["seen"]) >= odd.WARM_PERIODS

    def _plunges_together(self, number: int) -> bool:
        """Return whether a fall far and at once is judged by how many plunge, not by the comparison.

        In the turn in which all fall, those that are scraped late still look better than the others: the
        comparison would name everyone who was scraped early.
        """
        return bool(self.groups["said"][number] == NOTHING or self.groups["plunging"][number] > EXPLAINED)

    def _of_many(self, row: int, alarm: Alarm) -> None:
        """Say once of the group what is held back of many replicas, from the alarm of the last of them.

        Late positions are held back only where most replicas show it, so that the first alarm is enough.
        """
        number = int(self.streams["group"][row])
        if self.groups["said"][number] != NOTHING:
            return
        members = np.flatnonzero(
            (self.streams["group"] == number) & (self.streams["turn"] >= self.groups["turn"][number] - 1)
        )
        held = int((self.streams["held"][members] > 0.0).sum())
        if alarm.kind == "tail_drop" or held >= max(LEAST_HELD, MANY * len(members)):
            self.groups["collapsed"][number] = alarm.kind == "collapse"
            self.groups["said"][number] = TAILS if alarm.kind == "tail_drop" else HELD
            self.groups["present"][number] = 0.0
            self.common.append(self._from_one(number, members, alarm))

    def of_replica(self, row: int, now: float) -> None:
        """Say of a replica, in the turn that ends at `now`, what is seen to be its own."""
        streams, kind = self.streams, int(self.everyone["trouble"]["kind"][row])
        score = float(streams["odd"]["score"][row])
        if kind == 0:
            if score >= 1.0 and streams["sums"][row, base.DRAFTS] > 0.0:
                self._name(row, now)
        elif streams["odd"]["named"][row] < 0.0:
            self._go_on(row, now)
        elif streams["held"][row] > 0.0 and self._its_own(row, TROUBLES[kind - 1]):
            streams["held"][row], streams["troubled"][row] = 0.0, 1.0
            case = self._case(row, now)
            self.named.append((row, replace(alarms.said(case, "open"), index=row)))

    def _its_own(self, row: int, kind: Kind) -> bool:
        """Return whether a trouble that was held back is not explained any more."""
        number = int(self.streams["group"][row])
        if kind == "tail_drop":
            few = self.groups["tailing"][number] <= FEW
            self.streams["held"][row] += few
            return bool(self.streams["held"][row] > UNEXPLAINED_TURNS)
        detector = alarms.SEERS[int(self.everyone["trouble"]["detector"][row])]
        if detector in AT_ONCE and self._plunges_together(number):
            return not self._explained(row, kind, detector, -1.0)
        return float(self.streams["odd"]["score"][row]) >= 1.0

    def _name(self, row: int, now: float) -> None:
        """Open the trouble of a replica that fell below the others."""
        streams, case = self.streams, self._case(row, now)
        shift = min(odd.shift(streams["odd"], row), -alarms.LEAST_SHIFT)
        lost = diagnosis.collapsed(case, diagnosis.missing_after(case, shift))
        score, since = float(streams["odd"]["score"][row]), odd.since(streams["odd"], row)
        found = Diagnosis("collapse" if lost else "drop", "fleet", score, since, shift=shift)
        alarm = alarms.opened(case, found)
        self.named.append((row, replace(alarm, index=row)))
        odd.name(streams["odd"], row, shift)
        streams["troubled"][row] = 1.0

    def _go_on(self, row: int, now: float) -> None:
        """Close the trouble of a replica that is level with the others again, and only then.

        What showed against the others alone is too small to be seen to be over by the replica alone.
        """
        if odd.over(self.streams["odd"], row):
            self.named.append((row, replace(alarms.closed(self._case(row, now)), index=row)))
            self.streams["troubled"][row] = 0.0
        else:
            self.everyone["trouble"]["back"][row] = 0.0

    def _case(self, row: int, now: float) -> Case:
        """Return one stream with what it did in this turn, to say something of it."""
        own = self.streams[row : row + 1]
        sums, nothing = own["sums"].copy(), np.zeros(1)
        drafts = sums[:, base.DRAFTS]
        trials = Trials(
            at=np.array([now]),
            began_at=own["began_at"].copy(),
            drafts=drafts,
            accepted=sums[:, base.ACCEPTED],
            proposed=drafts,
            lump=np.zeros(1, bool),
            sums=sums,
            drafted=own["drafted"].copy(),
            depth=reference.depth(sums),
            single=own["single"] > 0.0,
        )
        seen = sightings.of_intervals(nothing, nothing, nothing, nothing, nothing > 0.0)
        return Case(self.plan, self.everyone[row : row + 1], trials, seen, 0)

    def of_group(self, number: int, rows: Indices, now: float, news: shared.News) -> None:
        """Say what the replicas `rows` of a group have in common, once while it lasts."""
        group, said = self.groups[number], float(self.groups["said"][number])
        open_ = bool(group["shared"]["open"] > 0.0)
        action: Action | None = None
        if open_ and said in (NOTHING, HELD):
            self.groups["said"][number] = LEVEL
            self.groups["present"][number] *= said != NOTHING
            action = "open" if said == NOTHING else "update"
        elif said == LEVEL and news == "grows":
            action = "update"
        elif self._over(number, news):
            self.groups["said"][number] = NOTHING
            action = "close"
        if action is not None:
            alarm = self._of_level(number, rows, now, action)
            worst, collapsed = bool(group["collapsed"]), alarm.kind == "collapse"
            if action != "update" or (collapsed and not worst):
                self.common.append(alarm)
            self.groups["collapsed"][number] = collapsed or (worst and action == "update")
        if self.groups["said"][number] != NOTHING:
            self._look(number, rows, now)

    def _look(self, number: int, rows: Indices, now: float) -> None:
        """Note where the replicas of a group stand in this turn, and stood in the last minutes."""
        drafts, accepted = self.streams["sums"][rows][:, [base.DRAFTS, base.ACCEPTED]].sum(0).tolist()
        kept = np.exp(-float(self.groups["seconds"][number]) / PRESENT_SECONDS)
        self.groups["present"][number] = self.groups["present"][number] * kept + (drafts, accepted)
        if drafts > 0.0:
            of_late, kept_of_late = self.groups["present"][number].tolist()
            self.present.append(Present(number, now, of_late, kept_of_late, 1.0 + accepted / drafts))

    def _over(self, number: int, news: shared.News) -> bool:
        """Return whether what was said of a group is not so any more."""
        group = self.groups[number]
        if group["said"] == LEVEL or group["shared"]["open"] > 0.0:
            return bool(group["said"] == LEVEL and news == "closes")
        return bool(group["tailing" if group["said"] == TAILS else "held"] <= FEW)

    def _of_level(self, number: int, rows: Indices, now: float, action: Action) -> FleetAlarm:
        state, part = self.groups["shared"][number : number + 1], tables.keep(self.streams, rows)
        shift, origin = float(state["shift"][0]), float(state["origin"][0])
        before, after = (_mean_level(part, by) for by in (origin, origin + shift))
        lost = before.mal - after.mal
        collapsed = lost >= self.plan.collapse_ratio * before.mal
        collapsed = collapsed or lost >= diagnosis.BENEFIT_LOST * (before.mal - 1.0)
        change = min(float(state["change_at"][0]), now)
        margin = float(self.groups["seconds"][number])
        return FleetAlarm(
            group=number,
            rows=tuple(rows.tolist()),
            kind="collapse" if collapsed else "drop",
            severity="critical" if collapsed else "warning",
            action=action,
            change_point_at=change,
            change_point_low=change - margin,
            change_point_high=min(change + margin, now),
            raised_at=now,
            shift=shift,
            before=before,
            after=after,
            score=float(state["score"][0]),
        )

    def _from_one(self, number: int, rows: Indices, alarm: Alarm) -> FleetAlarm:
        """Return the alarm of one replica as that of all of them, with what they all did before and after."""
        part = tables.keep(self.everyone, rows)
        held = self.streams["held"][rows] > 0.0
        return FleetAlarm(
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
            before=diagnosis.measured(part, part["baseline"]["local"].sum(0), 0),
            after=diagnosis.measured(part, part["trouble"]["after"][held].sum(0), 0),
            score=alarm.score,
            positions=alarm.positions if alarm.kind == "tail_drop" else (),
        )


def _mean_level(part: State, shift: float) -> base.Level:
    """Return the mean over replicas of what their baselines promise, all shifted by as many logits."""
    odds = part["rate"] / (1.0 - part["rate"]) * np.exp(shift)
    rate = odds / (1.0 + odds)
    known, single = (part["known"] > 0.0).sum(1).astype(np.float64), part["single"] > 0.0
    drafted = np.where(single, part["drafted"], known)
    mal = 1.0 + reference.expected_accepted(rate, drafted, single)
    weight = part["sums"][:, base.DRAFTS]
    mean = float((mal * weight).sum() / weight.sum())
    conditional = tuple(rate[:, : int(known.max())].mean(0).tolist())
    return base.Level(mean, float(mal.min()), float(mal.max()), conditional, float(weight.sum()))
