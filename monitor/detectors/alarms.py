"""What the detectors saw in a batch, and the alarms that opens, updates and closes.

Several detectors that see one change make one trouble: the surest word on a fall is taken first (dead, far
fallen, level, shape, trend), and a stream with an open trouble opens no other, it only gets worse or better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base, floor, level, plunge, reference, scores, shape, trend, troubles
from monitor.detectors.base import Alarm, Level

if TYPE_CHECKING:
    from monitor.detectors.base import Action, Bools, Floats, Kind, Severity, State
    from monitor.detectors.evidence import Trials

DETECTORS = ("regime", floor.NAME, plunge.NAME, level.NAME, shape.NAME, trend.NAME)
SEVERITIES: dict[Kind, Severity] = {
    "collapse": "critical",
    "dead_draft": "critical",
    "improvement": "info",
    "regime_change": "info",
}
LEAST_SHIFT = 0.15
LONG_AGO_SECONDS = 150.0
SLOW_SECONDS = 3600.0
BENEFIT_LOST = 0.6
SURE = 1.96
EVERY_POSITION = (1 << base.POSITIONS) - 1


@dataclass(slots=True)
class Sightings:
    """What was seen in B rows. Scores in units of their limits, times in unix seconds.

    plunge, dead, alive, silent [B]: of the interval. down, up (level), trend_down, trend_up, with the time
    each began, shape [B, 7, 2], over (the open trouble is), score, variance [B, 8] (level and contrasts),
    trend_shift, trend_origin [B]: of full buckets, 0 in rows that have none.
    """

    plunge: Floats
    plunge_since: Floats
    dead: Floats
    alive: Floats
    silent: Floats
    full: Bools
    down: Floats
    down_since: Floats
    up: Floats
    up_since: Floats
    trend_down: Floats
    trend_down_since: Floats
    trend_up: Floats
    trend_up_since: Floats
    trend_shift: Floats
    trend_origin: Floats
    shape: Floats
    score: Floats
    over: Bools

    def falls(self) -> Floats:
        """Return the highest score [B] of any fall."""
        most = np.maximum(np.maximum(self.down, self.plunge), np.maximum(self.trend_down, self.dead))
        result: Floats = np.maximum(most, self.shape.max(tuple(range(1, self.shape.ndim))))
        return result

    def rises(self) -> Floats:
        """Return the highest score [B] of any rise."""
        result: Floats = np.maximum(self.up, self.trend_up)
        return result


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One row's new trouble; `shift` is NaN where the bucket itself says how far it moved."""

    kind: Kind
    detector: str
    score: float
    since: float
    channel: int = 0
    positions: int = EVERY_POSITION
    shift: float = float("nan")


def settle(plan: base.Plan, state: State, trials: Trials, rate: Floats, seen: Sightings) -> list[Alarm]:
    """Open, update and close troubles by what was seen and return the alarms this makes; `state` is changed."""
    kind = state["trouble"]["kind"]
    strongest = np.maximum(np.maximum(seen.falls(), seen.rises()), seen.silent)
    over = seen.over | ((kind == troubles.DEAD) & (seen.alive >= 1.0)) | ((kind == troubles.SILENT) & (trials.drafts > 0.0))
    open_ = kind > 0
    news = over | (strongest >= 1.0) | (open_ & seen.full & (kind != troubles.COLLAPSE))
    alarms: list[Alarm] = []
    for row in np.flatnonzero(news).tolist():
        case = _Case(plan, state, trials, rate, seen, row)
        if open_[row]:
            alarms += case.go_on(over=bool(over[row]))
        else:
            alarms += case.begin()
    return alarms


@dataclass(frozen=True, slots=True)
class _Case:
    """One row of a batch that has something to settle."""

    plan: base.Plan
    state: State
    trials: Trials
    rate: Floats
    seen: Sightings
    row: int

    def go_on(self, *, over: bool) -> list[Alarm]:
        """Close the open trouble or make it worse, if there is reason to."""
        trouble, row = self.state["trouble"], self.row
        kind = int(trouble["kind"][row])
        if over:
            alarm = self._alarm("close")
            self._close()
            return [alarm]
        fallen = self.seen.plunge[row] >= 1.0 and self._collapsed(self._missing_now())
        if kind == troubles.IMPROVEMENT:
            if not fallen:
                return []
            alarm = self._alarm("close")
            self._close(restart=False)
            return [alarm, *self.begin()]
        if kind in (troubles.COLLAPSE, troubles.DEAD, troubles.SILENT):
            return []
        sunk = trouble["buckets"][row] > 1.0 / troubles.FOLLOW and self._collapsed(
            self._missing_after(float(trouble["shift"][row, 0]))
        )
        if not (fallen or sunk):
            return []
        trouble["kind"][row] = troubles.COLLAPSE
        trouble["positions"][row] = EVERY_POSITION
        trouble["channel"][row] = 0
        trouble["origin"][row, 1] = trouble["origin"][row, 0]
        now = self.seen.score[row] if self.seen.full[row] and not fallen else self._interval_score()
        deepest = min(float(now[0] - trouble["origin"][row, 0]), float(trouble["shift"][row, 0]))
        trouble["shift"][row] = trouble["first_shift"][row] = deepest
        return [self._alarm("update")]

    def begin(self) -> list[Alarm]:
        """Open a trouble if a detector is over its limit."""
        found = self._diagnose()
        if found is None:
            return []
        trouble, row, at = self.state["trouble"], self.row, float(self.trials.at[self.row])
        origin = self._origin()
        # a bucket may hold what was before a sudden fall too
        sudden = found.detector in (plunge.NAME, floor.NAME)
        score = self.seen.score[row] if self.seen.full[row] and not sudden else self._interval_score()
        if found.detector == trend.NAME:
            origin[0] = self.seen.trend_origin[row]
        far = score - origin
        shift = np.array([far[0] if np.isnan(found.shift) else found.shift, far[found.channel]])
        sign = 1.0 if found.kind == "improvement" else -1.0
        if found.channel == 0:
            shift[:] = sign * max(sign * shift[0], LEAST_SHIFT)
        elif found.kind == "tail_drop" or sign * shift[0] < LEAST_SHIFT:
            shift[0] = 0.0  # the level did not move with it: only the contrast must come back
        trouble["kind"][row] = troubles.CODE[found.kind]
        trouble["opened_at"][row] = at
        trouble["change_at"][row] = min(found.since, at)
        spread = max(float(self.trials.seconds[row]), 1.0)
        trouble["change_low"][row] = found.since - spread
        trouble["change_high"][row] = min(found.since + spread, at)
        trouble["score"][row] = found.score
        trouble["detector"][row] = DETECTORS.index(found.detector)
        trouble["positions"][row] = found.positions
        trouble["channel"][row] = found.channel
        trouble["origin"][row] = origin[0], origin[found.channel]
        trouble["shift"][row] = trouble["first_shift"][row] = shift
        one = slice(row, row + 1)
        trouble["rhythm"][row] = trend.rhythm(self.state["trend"][one], self.trials.at[one])[0]
        for name in ("window", "scatter", "buckets", "streak"):
            trouble[name][row] = 0.0
        self._first_after(at - found.since)
        return [self._alarm("open")]

    def _first_after(self, ago: float) -> None:
        """Start the sums of what came after the change: this interval, or the last minutes of a slow change."""
        row, after = self.row, self.state["trouble"]["after"]
        if ago > LONG_AGO_SECONDS:
            after[row] = self.state["trouble"]["recent"][row]
        else:
            for name in troubles.SUMS.names or ():
                after[name][row] = getattr(self.trials, name)[row]

    def _diagnose(self) -> Diagnosis | None:
        """Return what is wrong by the surest detector that is over its limit."""
        seen, row = self.seen, self.row
        known = bool(self.state["baseline"]["drafts"][row] >= plunge.LEAST_DRAFTS)
        if seen.dead[row] >= 1.0 or seen.plunge[row] >= 1.0:
            by_plunge = seen.plunge[row] >= 1.0
            since = seen.plunge_since[row] if by_plunge else self.state["floor"]["since"][row]
            score = float(max(seen.plunge[row], seen.dead[row]))
            name = plunge.NAME if by_plunge else floor.NAME
            if not known:
                return Diagnosis("dead_draft", name, score, float(since))
            sunk = seen.dead[row] >= 1.0 or self._collapsed(self._missing_now())
            return Diagnosis("collapse" if sunk else "drop", name, score, float(since))
        if seen.down[row] >= 1.0:
            shift = level.estimate(self.state["level"], row, -1.0)
            return self._fall("drop", level.NAME, float(seen.down[row]), float(seen.down_since[row]), shift)
        if seen.shape[row].max() >= 1.0:
            return self._diagnose_shape()
        if seen.trend_down[row] >= 1.0:
            since = float(seen.trend_down_since[row])
            kind: Kind = "decay" if self.trials.at[row] - since > SLOW_SECONDS else "drop"
            return self._fall(kind, trend.NAME, float(seen.trend_down[row]), since, float(seen.trend_shift[row]))
        if seen.up[row] >= 1.0:
            shift = level.estimate(self.state["level"], row, 1.0)
            return Diagnosis("improvement", level.NAME, float(seen.up[row]), float(seen.up_since[row]), shift=shift)
        if seen.trend_up[row] >= 1.0:
            score, since = float(seen.trend_up[row]), float(seen.trend_up_since[row])
            return Diagnosis("improvement", trend.NAME, score, since, shift=float(seen.trend_shift[row]))
        if seen.silent[row] >= 1.0:
            since = float(self.state["floor"]["silent_since"][row])
            return Diagnosis("speculation_silent", floor.NAME, float(seen.silent[row]), since)
        return None

    def _fall(self, kind: Kind, detector: str, score: float, since: float, shift: float) -> Diagnosis:
        if self._collapsed(self._missing_after(shift)):
            kind = "collapse"
        return Diagnosis(kind, detector, score, since, shift=shift)

    def _diagnose_shape(self) -> Diagnosis:
        """Tell a fall of late positions from one of early positions, which lets the late ones seem to rise."""
        seen, row = self.seen, self.row
        best = int(seen.shape[row].argmax())
        contrast, rising = best >> 1, best & 1
        score, since = float(seen.shape[row, contrast, rising]), shape.since(self.state["shape"], row, contrast, rising)
        channel = contrast + 1
        if not rising:
            positions = EVERY_POSITION & (EVERY_POSITION << channel)
            return Diagnosis("tail_drop", shape.NAME, score, since, channel, positions)
        kind: Kind = "collapse" if self._collapsed(self._missing_now()) else "drop"
        return Diagnosis(kind, shape.NAME, score, since, channel, (1 << channel) - 1)

    def _origin(self) -> Floats:
        """Return where level and contrasts [8] stood in the hour before."""
        one = slice(self.row, self.row + 1)
        local = self.state["baseline"]["local"]
        known = self.state["baseline"]["trials"][one] >= reference.KNOWN_TRIALS
        before = scores.against(local["trials"][one], local["successes"][one], self.rate[one], known)
        return np.concatenate([before.level, before.contrast[0]])

    def _interval_score(self) -> Floats:
        """Return level and contrasts [8] of the interval alone, for a change that no full bucket has shown yet."""
        one = slice(self.row, self.row + 1)
        known = self.state["baseline"]["trials"][one] >= reference.KNOWN_TRIALS
        now = scores.against(self.trials.trials[one], self.trials.successes[one], self.rate[one], known)
        return np.concatenate([now.level, now.contrast[0]])

    def _missing_now(self) -> tuple[float, float]:
        """Return the share of MAL and of its benefit that this interval misses."""
        row = self.row
        drafted = self.trials.drafted[row : row + 1].astype(np.float64)
        one = slice(row, row + 1)
        promised = float(reference.expected_accepted(self.rate[one], drafted, drafted, self.trials.single[one])[0])
        kept = float(self.trials.accepted[row] / max(self.trials.drafts[row], 1.0))
        return (promised - kept) / (1.0 + promised), (promised - kept) / promised

    def _missing_after(self, shift: float) -> tuple[float, float]:
        """Return the share of MAL and of its benefit that a shift in logit costs."""
        one = slice(self.row, self.row + 1)
        drafted = self.trials.drafted[one].astype(np.float64)
        odds = self.rate[one] / (1.0 - self.rate[one]) * np.exp(self.state["level"]["local"][self.row])
        less = odds * np.exp(shift)
        single = self.trials.single[one]
        before = float(reference.expected_accepted(odds / (1.0 + odds), drafted, drafted, single)[0])
        after = float(reference.expected_accepted(less / (1.0 + less), drafted, drafted, single)[0])
        return (before - after) / (1.0 + before), (before - after) / before

    def _collapsed(self, missing: tuple[float, float]) -> bool:
        return missing[0] >= self.plan.collapse_ratio or missing[1] >= BENEFIT_LOST

    def _close(self, *, restart: bool = True) -> None:
        trouble, row = self.state["trouble"], self.row
        trouble["kind"][row] = 0
        if restart:
            one = slice(row, row + 1)
            for name, detector in (("level", level), ("shape", shape), ("plunge", plunge), ("trend", trend)):
                detector.restart(self.state[name][one])
            floor.restart(self.state["floor"][one])

    def _alarm(self, action: Action) -> Alarm:
        trouble, row = self.state["trouble"], self.row
        kind = troubles.KINDS[int(trouble["kind"][row]) - 1]
        mask, drafted = int(trouble["positions"][row]), int(self.trials.drafted[row])
        return Alarm(
            index=row,
            kind=kind,
            severity=SEVERITIES.get(kind, "warning"),
            action=action,
            change_point_at=float(trouble["change_at"][row]),
            change_point_low=float(trouble["change_low"][row]),
            change_point_high=float(trouble["change_high"][row]),
            raised_at=float(self.trials.at[row]),
            positions=tuple(j for j in range(min(drafted, base.POSITIONS)) if mask >> j & 1),
            before=measured(self.state, self.state["baseline"]["local"], row),
            after=measured(self.state, trouble["after"], row),
            score=float(trouble["score"][row]),
            detector=DETECTORS[int(trouble["detector"][row])],
        )


def measured(state: State, sums: State, row: int) -> Level:
    """Return the level that sums of counts show, with an interval that counts requests, not tokens."""
    drafts, accepted = float(sums["drafts"][row]), float(sums["accepted"][row])
    if drafts <= 0.0:
        return Level(float("nan"), float("nan"), float("nan"), (), 0.0)
    trials, successes = sums["trials"][row], sums["successes"][row]
    tried = trials > 0.0
    conditional = successes[tried] / trials[tried]
    inner = np.clip(conditional, 0.02, 0.98)
    information = float((trials[tried] * inner * (1.0 - inner)).sum())
    error = np.sqrt(float(state["noise"]["spread"][row, 0]) / max(information, 1e-9))
    # how far the MAL moves with the logit of every position together
    slope = float((np.cumprod(inner) * np.cumsum(1.0 - inner)).sum())
    mal = 1.0 + accepted / drafts
    width = SURE * float(error) * slope
    return Level(mal, max(mal - width, 1.0), mal + width, tuple(conditional.tolist()), drafts)


def regime_note(state: State, trials: Trials, row: int) -> Alarm:
    """Return the note that a stream began a new regime at this reading."""
    at = float(trials.at[row])
    before = measured(state, state["baseline"]["local"], row)
    now = Level(float("nan"), float("nan"), float("nan"), (), 0.0)
    return Alarm(row, "regime_change", "info", "note", at, at, at, at, (), before, now, 0.0, "regime")
