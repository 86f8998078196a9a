"""How many false alarms a stream's own quiet hours promise: what its scores do while nothing is wrong.

A score that rises above `CALM` of its limit and comes back without an alarm is an excursion. Their heights
above `CALM` are taken to be exponential, cut off at the limit (an excursion that became an alarm is left
out: whether it was a false one cannot be told from here). With N excursions in H hours and the tail's
steepness θ, fitted to their mean height,

    expected alarms = N / H · q / (1 - q),    q = exp(-θ (1 - `CALM`)).

θ begins at the design's (scores are nats divided by a limit of nats, so e^-x per nat), worth
`PRIOR_EXCURSIONS`. Assumes that the tail goes on as it began: a kind of accident that never came near
in these hours is not foreseen.

Measured (simulated, four streams of 72 h each, 30 alarms a month asked so that there are some to count):
alarms a month that came, and the mean of those expected: steady 30, 69; diurnal 100, 83; few slots 133, 188.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import Condition, base

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors import Findings

CALM = 0.5
"""Share of the limit above which a score is an excursion: high enough to be rare, low enough to be seen."""

APART_SECONDS = 900.0  # two peaks closer than this are one excursion
PRIOR_EXCURSIONS = 5.0
"""Excursions that the design's own tail is worth: a day or two of a busy stream outweighs it."""

LEAST_HOURS = 6.0
"""Quiet hours below which nothing is said."""

LEAST_STEEPNESS = 0.5
"""The flattest tail (in 1 ÷ limits) that is searched for: flatter ones promise alarms all day."""

BISECTIONS = 50
"""Halvings in the search for the tail: as many as a double has digits."""

_DTYPE = np.dtype(
    [
        ("seconds", "f8"),  # quiet
        ("peak", "f8"),  # highest score of the excursion under way, limits
        ("high_at", "f8"),  # last high score, unix seconds
        ("count", "f8"),  # excursions that ended
        ("excess", "f8"),  # sum of what their peaks exceeded, limits
    ]
)


@dataclass(frozen=True, slots=True)
class Calibration:
    """False alarms of any severity expected in 30 days, with a 95 % interval, from so many quiet `hours`.

    `expected`, `low` and `high` are NaN where the hours are too few to say.
    """

    hours: float
    expected: float
    low: float
    high: float


class Excursions:
    """What the scores of each stream did in its quiet hours; rows as in the pipeline's state."""

    def __init__(self) -> None:
        self._rows = np.zeros(0, _DTYPE)

    def see(self, counts: Counts, findings: Findings) -> None:
        """Take in the scores of one round."""
        missing = int(counts.rows.max(initial=-1)) + 1 - len(self._rows)
        if missing > 0:
            self._rows = np.concatenate([self._rows, np.zeros(missing, _DTYPE)])
        rows = self._rows[counts.rows]
        quiet = findings.condition == Condition.OK
        score = np.maximum(findings.score_down, findings.score_up)
        high = quiet & (score > CALM)
        over = quiet & ~high & (rows["peak"] > 0.0) & (counts.at - rows["high_at"] > APART_SECONDS)
        rows["seconds"] += np.where(quiet & ~counts.gap, np.nan_to_num(counts.seconds), 0.0)
        rows["count"] += over
        rows["excess"] += np.where(over, np.minimum(rows["peak"], 1.0) - CALM, 0.0)
        kept = np.where(quiet & ~over, rows["peak"], 0.0)
        rows["peak"] = np.where(high, np.maximum(kept, score), kept)
        rows["high_at"] = np.where(high, counts.at, rows["high_at"])
        self._rows[counts.rows] = rows

    def of_stream(self, plan: base.DetectionPlan, row: int) -> Calibration:
        """Return what is expected of one stream."""
        return _calibration(plan, self._rows[row : row + 1])

    def of_all(self, plan: base.DetectionPlan) -> Calibration:
        """Return what is expected of a stream, from the quiet hours of all."""
        return _calibration(plan, self._rows)


def _calibration(plan: base.DetectionPlan, rows: npt.NDArray[np.void]) -> Calibration:
    seconds, number, excess = (float(rows[name].sum()) for name in ("seconds", "count", "excess"))
    hours = seconds / 3600.0
    if hours < LEAST_HOURS:
        return Calibration(hours, math.nan, math.nan, math.nan)
    mean = (excess + PRIOR_EXCURSIONS / base.nats(plan)) / (number + PRIOR_EXCURSIONS)
    steepness = _steepness(mean)
    beyond = math.exp(-steepness * (1.0 - CALM))
    expected = (number + 0.5) / seconds * base.MONTH_SECONDS * beyond / (1.0 - beyond)
    # the number of excursions is a Poisson count, and how steep their tail is has an error of its own,
    # which is larger the less of the tail lies below the limit (Fisher information of the cut exponential)
    cut = 1.0 - CALM
    known = (number + PRIOR_EXCURSIONS) * (steepness**-2 - cut**2 * beyond / (1.0 - beyond) ** 2)
    tail = cut / (1.0 - beyond) / math.sqrt(max(known, 1e-9))
    factor = math.exp(1.96 * math.hypot(1.0 / math.sqrt(number + 0.5), tail))
    return Calibration(hours, expected, expected / factor, expected * factor)


def _steepness(mean: float) -> float:
    """Return θ of the exponential heights that are cut off at 1 - `CALM` and have this mean."""
    cut = 1.0 - CALM
    low, high = LEAST_STEEPNESS, 1e3
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        if 1.0 / middle - cut / math.expm1(min(middle * cut, 500.0)) > mean:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0
