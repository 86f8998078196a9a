"""What is wrong with one stream: the kind of trouble that explains what several detectors saw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base, floor, level, plunge, shape, trend
from monitor.core.detectors.measures import reference, scores

if TYPE_CHECKING:
    from monitor.core.detectors.base import Floats, Indices, State
    from monitor.core.detectors.measures.evidence import Trials
    from monitor.core.detectors.sightings import Sightings
    from monitor.core.vocabulary import Kind

SLOW_SECONDS = 3600.0
"""Seconds that a fall takes at least to be a decay."""

BENEFIT_LOST = 0.6
"""Share of what speculation adds that must be gone for a fall to be a collapse whatever share of MAL it is:
with less left a draft model does not pay its own time."""

NEAR_LIMIT = 0.5
"""Share of its limit from which on a contrast may be the boundary of the change, and a fall a plunge."""

NOTEWORTHY = 1.05
"""Times what the judged positions accept from which on the others have a part in the MAL's interval."""

EVERY_POSITION = (1 << base.POSITIONS) - 1
"""The mask of all positions."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A new trouble: its kind, who saw it, since when, which channel (0 level, s contrast s) must come back.

    `positions` is a bit mask; `shift` is how far the level moved, NaN where the interval itself tells;
    `between` are the times that it may have begun at where that is not known to the interval.
    """

    kind: Kind
    detector: str
    score: float
    since: float
    channel: int = 0
    positions: int = EVERY_POSITION
    shift: float = math.nan
    between: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a batch, with all that is known of it."""

    plan: base.DetectionPlan
    state: State
    trials: Trials
    seen: Sightings
    row: int

    @property
    def one(self) -> Indices:
        """The row as an index of one, for what works on arrays of rows."""
        return np.array([self.row])

    def part(self, name: str) -> State:
        """Return a detector's columns of the row; what is written to them is written to the state."""
        view: State = self.state[name][self.row : self.row + 1]
        return view


def of(case: Case) -> Diagnosis | None:
    """Return what is wrong by the surest detector that is over its limit, None where nothing is."""
    seen, row = case.seen, case.row
    if max(seen.dead[row], seen.plunge[row]) >= 1.0:
        return _far_fall(case)
    if seen.level[row, 0] >= 1.0:
        shift = level.estimate(case.state["level"], row, -1.0)
        return _fall(case, "drop", level.NAME, seen.level[row], shift)
    if seen.shape[row].max() >= 1.0:
        return _other_shape(case)
    if seen.trend[row, 0] >= 1.0:
        kind: Kind = "decay" if case.trials.at[row] - seen.trend[row, 2] > SLOW_SECONDS else "drop"
        return _fall(case, kind, trend.NAME, seen.trend[row], float(seen.trend_shift[row]))
    return _rise(case) or _silence(case)


def _rise(case: Case) -> Diagnosis | None:
    for name, seen in ((level.NAME, case.seen.level[case.row]), (trend.NAME, case.seen.trend[case.row])):
        if seen[1] >= 1.0:
            by_level = name == level.NAME
            shift = (
                level.estimate(case.state["level"], case.row, 1.0)
                if by_level
                else case.seen.trend_shift[case.row]
            )
            between = _between(case, name, 1.0, float(seen[3]))
            return Diagnosis(
                "improvement", name, float(seen[1]), float(seen[3]), shift=float(shift), between=between
            )
    return None


def _silence(case: Case) -> Diagnosis | None:
    if case.seen.silent[case.row] < 1.0:
        return None
    since = float(case.state["floor"]["silent_since"][case.row])
    return Diagnosis("speculation_silent", floor.NAME, float(case.seen.silent[case.row]), since)


def _far_fall(case: Case) -> Diagnosis:
    """Tell a draft that was never alive from one that fell, and a collapse from a drop."""
    seen, row = case.seen, case.row
    fell = seen.plunge[row] >= 1.0
    since = float((case.state["plunge"] if fell else case.state["floor"])["since"][row])
    # where nothing was drafted for a while before, it may have begun then
    between = (float(case.state["plunge"]["after"][row]), since) if fell else None
    score, name = float(max(seen.plunge[row], seen.dead[row])), plunge.NAME if fell else floor.NAME
    kind: Kind = "drop"
    if case.state["baseline"]["sums"][row, base.DRAFTS] < plunge.LEAST_DRAFTS:
        kind = "dead_draft"
    elif seen.dead[row] >= 1.0 or collapsed(case, missing_now(case)):
        kind = "collapse"
    return Diagnosis(kind, name, score, since, between=between)


def _fall(case: Case, kind: Kind, detector: str, seen: Floats, shift: float) -> Diagnosis:
    # a slide is no page: it becomes a collapse once it is seen to last down there
    plunging = detector == level.NAME and case.seen.plunge[case.row] >= NEAR_LIMIT
    if (detector != trend.NAME and collapsed(case, missing_after(case, shift))) or (
        plunging and collapsed(case, missing_now(case))
    ):
        kind = "collapse"
    since = float(seen[2])
    between = _between(case, detector, -1.0, since)
    return Diagnosis(kind, detector, float(seen[0]), since, shift=shift, between=between)


def _between(case: Case, detector: str, sign: float, since: float) -> tuple[float, float]:
    """Return the times that a step or a slide may have begun at, unix seconds."""
    if detector == level.NAME:
        return level.span(case.state["level"], case.row, sign)
    return since - float(trend.WINDOWS[-1]), float(case.trials.at[case.row])


def _other_shape(case: Case) -> Diagnosis:
    """Tell a fall of late positions from one of early positions, which lets the late ones seem to rise.

    Late positions that rise by themselves would show as a rising level, too, and are news of another kind.
    """
    seen = case.seen.shape[case.row]
    which = int(seen.argmax())
    rising = which % 2
    score, since = float(seen[which]), shape.since(case.state["shape"], case.row, which)
    channel = _boundary(case, rising)
    if not rising:
        positions = EVERY_POSITION & (EVERY_POSITION << channel)
        return Diagnosis("tail_drop", shape.NAME, score, since, channel, positions)
    kind: Kind = "collapse" if collapsed(case, missing_now(case)) else "drop"
    return Diagnosis(kind, shape.NAME, score, since, channel, (1 << channel) - 1)


def _boundary(case: Case, rising: int) -> int:
    """Return the contrast that shows the change most clearly, of those that are near their limit.

    A fall from position 3 on lets the contrasts beside 3 fall, too; the true boundary has the most of it.
    """
    baseline = case.part("baseline")
    found = scores.against(case.part("trouble")["recent"], baseline["rate"], reference.known(baseline))
    sign = 1.0 if rising else -1.0
    clarity = sign * found.shift[0, 1:] * np.sqrt(found.information[0, 1:])
    near = case.seen.shape[case.row, rising::2] >= NEAR_LIMIT
    return int(np.where(near, clarity, -np.inf).argmax()) + 1


def origin(case: Case) -> Floats:
    """Return where level and contrasts [8] stood in the hour before."""
    baseline = case.part("baseline")
    before: Floats = scores.against(baseline["local"], baseline["rate"], reference.known(baseline)).shift[0]
    return before


def fell_by(case: Case) -> float:
    """Return by how many logits the level fell, on the mean since the open trouble began."""
    baseline, after = case.part("baseline"), case.part("trouble")["after"]
    level = scores.against(after, baseline["rate"], reference.known(baseline)).shift[0, 0]
    return min(float(level - case.state["trouble"]["origin"][case.row, 0]), 0.0)


def now(case: Case) -> Floats:
    """Return level and contrasts [8] of the full bucket, or of the interval where none is full."""
    baseline = case.part("baseline")
    interval = scores.against(case.trials.sums[case.one], baseline["rate"], reference.known(baseline))
    seen: Floats = case.seen.score[case.row] if case.seen.full[case.row] else interval.shift[0]
    return seen.copy()


def missing_now(case: Case) -> tuple[float, float]:
    """Return the share of the baseline's MAL and of its benefit that this interval misses."""
    return _missing(case, case.trials.sums[case.row])


def missing_lately(case: Case) -> tuple[float, float]:
    """Return the share of the baseline's MAL and of its benefit that the last full buckets miss."""
    return _missing(case, case.state["trouble"]["recent"][case.row])


def further_now(case: Case) -> bool:
    """Return whether this interval misses as much as a collapse of what the open trouble left."""
    return _further(case, case.trials.sums[case.row])


def further_lately(case: Case) -> bool:
    """Return whether the last full buckets miss as much as a collapse of what the open trouble left."""
    return _further(case, case.state["trouble"]["recent"][case.row])


def _further(case: Case, sums: Floats) -> bool:
    left = _kept(at_length(case, case.state["trouble"]["after"][case.row], sums))
    lost = left - _kept(sums)
    return collapsed(case, (lost / (1.0 + left), lost / max(left, 1e-9)))


def _kept(sums: Floats) -> float:
    return float(sums[base.ACCEPTED] / max(sums[base.DRAFTS], 1.0))


def at_length(case: Case, sums: Floats, moved: Floats) -> Floats:
    """Return sums [19] as their drafts would be with the mean length of those in the sums `moved` [19]."""
    baseline, own, other = case.part("baseline"), reference.depth(sums[None]), reference.depth(moved[None])
    if not np.abs(other - own)[0] > reference.SAME_LENGTH * own[0]:
        return sums
    grown = reference.at_depth(baseline, other)[0] / max(reference.at_depth(baseline, own)[0], 1e-9)
    result = sums.copy()
    result[base.ACCEPTED] *= grown
    result[base.TOKENS] = sums[base.DRAFTS] * other[0]
    return result


def _missing(case: Case, sums: Floats) -> tuple[float, float]:
    promised = float(reference.at_depth(case.part("baseline"), reference.depth(sums[None]))[0])
    kept = _kept(sums)
    return (promised - kept) / (1.0 + promised), (promised - kept) / max(promised, 1e-9)


def missing_after(case: Case, shift: float) -> tuple[float, float]:
    """Return the share of the present MAL and of its benefit that a shift in logit costs."""
    rate = reference.likely(case.part("baseline"))
    odds = rate / (1.0 - rate) * np.exp(case.state["level"]["local"][case.row])
    # of lengths that are mixed, what drafts of the mean length lose
    single = case.trials.single[case.one]
    drafted = np.where(single, case.trials.drafted[case.one], np.rint(case.trials.depth[case.one]))
    before = float(reference.expected_accepted(odds / (1.0 + odds), drafted, single)[0])
    odds = odds * np.exp(shift)
    after = float(reference.expected_accepted(odds / (1.0 + odds), drafted, single)[0])
    return (before - after) / (1.0 + before), (before - after) / before


def collapsed(case: Case, missing: tuple[float, float]) -> bool:
    """Return whether so much of MAL, or of its excess over 1, is missing that speculation hardly pays."""
    return missing[0] >= case.plan.collapse_ratio or missing[1] >= BENEFIT_LOST


def before(case: Case, after: Floats) -> base.Level:
    """Return the level of the hour before, for drafts as long as those of the sums `after` [19]."""
    local = at_length(case, case.state["baseline"]["local"][case.row], after)
    return measured(case.state, local, case.row)


def fallen(case: Case, after: Floats) -> bool:
    """Return whether drafts of the sums `after` [19] kept less than the hour before promises their length."""
    local = at_length(case, case.state["baseline"]["local"][case.row], after)
    return local[base.DRAFTS] <= 0.0 or _kept(after) < _kept(local)


def measured(state: State, sums: Floats, row: int) -> base.Level:
    """Return the level that sums [19] of counts show, with an interval that counts requests, not tokens."""
    drafts, accepted = float(sums[base.DRAFTS]), float(sums[base.ACCEPTED])
    if drafts <= 0.0:
        return base.UNKNOWN_LEVEL
    trials, successes = sums[base.TRIALS], sums[base.SUCCESSES]
    tried = trials > 0.0
    conditional = np.minimum(successes[tried] / trials[tried], 1.0)
    inner = base.clip(conditional, 0.02, 0.98)
    information = float((trials[tried] * inner * (1.0 - inner)).sum())
    error = math.sqrt(float(state["noise"]["spread"][row, 0]) / max(information, 1e-9))
    # how far the MAL moves with the logit of every position together
    slope = float((np.cumprod(inner) * np.cumsum(1.0 - inner)).sum())
    kept = accepted / drafts
    # where lengths are mixed, positions that were not judged have their part in the MAL, too
    unjudged = kept / max(float(np.cumprod(inner).sum()), 1e-9)
    slope *= unjudged if unjudged > NOTEWORTHY else 1.0
    mal, width = 1.0 + kept, 1.96 * error * slope
    return base.Level(mal, max(mal - width, 1.0), mal + width, tuple(conditional.tolist()), drafts)
