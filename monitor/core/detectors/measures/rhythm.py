"""What a stream's level is expected to be at an hour of the day and in a part of the week.

The day is a mean and two harmonics, learnt by recursive least squares with a prior, so that an unlearnt day
is wide and not wrong, and it may change from day to day. What the week adds is in `week`; while a weekend is
not known, the day learns little from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors.measures import week

if TYPE_CHECKING:
    from monitor.core.detectors.base import Floats, State

DAY = 86400.0
"""Seconds of a day."""

PRIOR_SD = np.array([0.5, 0.25, 0.25, 0.06, 0.06])
"""Logits (standard deviations) that mean, first and second harmonic may have before a day was seen: twice
the largest swings in the simulations."""

DAILY_SD = np.array([0.03, 0.02, 0.02, 0.01, 0.01])
"""Logits that each may change by from one day to the next."""

TERMS = len(PRIOR_SD)
UNKNOWN_SHARE = 0.5
"""Share of the day's variance that counts as not known: the rest the noise of blocks has already."""

BLOCK_SECONDS = 300.0
"""Seconds of the blocks that the day is learnt from."""

WANDER_SECONDS = 7200.0
"""Seconds (e-folding) for which the level strays from the rhythm: what DETECTION's traffic is made with,
and public reports' load tests look like."""

WEEKEND_SECONDS = 2 * DAY
"""Seconds for which what the week adds stays: a weekend."""

FIRST_DAY_SD = 0.35
"""Logits (standard deviation) by which half a first day may leave its begin; less of it the less."""

_DAILY = np.diag(DAILY_SD**2)
"""`DAILY_SD` as a covariance."""

DTYPE = np.dtype(
    [
        ("theta", "f4", TERMS),  # level, first and second harmonic of the day, logits
        ("covariance", "f4", (TERMS, TERMS)),  # of that, logits²
        ("week", week.DTYPE),
    ]
)


@dataclass(frozen=True, slots=True)
class Expectation:
    """What B blocks were expected to be, and by what that is learnt.

    level [B]: logits; unknown, of_week [B]: variance of the level, and of what the week adds to it; terms,
    spreading [B, 5]: regressors of the day and their covariance with what is learnt.
    """

    at: Floats
    level: Floats
    unknown: Floats
    of_week: Floats
    terms: Floats
    spreading: Floats

    @property
    def of_day(self) -> Floats:
        """The variance of what the day adds."""
        variance: Floats = (self.spreading * self.terms).sum(1)
        return variance


def allocate(state: State) -> None:
    """Set fresh rows to what is assumed before anything was learnt."""
    state["covariance"] = np.diag(PRIOR_SD**2)
    week.allocate(state["week"])


def at_time(state: State, times: Floats) -> Floats:
    """Return the expected level [B] at a time."""
    level: Floats = (of_day(times) * state["theta"]).sum(1) + week.adds(state["week"], times)
    return level


def strayed(age: Floats, wander: Floats | float) -> Floats:
    """Return the variance [B] of how far a stream may be from where it began, of which no day was seen yet.

    age [B]: seconds since; wander: variance of how far the level strays from the rhythm.
    """
    swing = FIRST_DAY_SD * np.sin(np.pi / DAY * np.minimum(np.maximum(age, 0.0), 0.5 * DAY))
    result: Floats = swing * swing - 2.0 * wander * np.expm1(-np.maximum(age, 0.0) / WANDER_SECONDS)
    return result


def of_day(times: Floats) -> Floats:
    """Return the regressors [B, 5] of the day (UTC): mean, first and second harmonic."""
    angle = 2.0 * np.pi / DAY * (times % DAY)
    return np.stack(
        [np.ones(len(times)), np.sin(angle), np.cos(angle), np.sin(2.0 * angle), np.cos(2.0 * angle)], 1
    )


def expect(state: State, times: Floats) -> Expectation:
    """Return what is expected of blocks around a time."""
    terms = of_day(times)
    spreading = (state["covariance"] * terms[:, None, :]).sum(2)
    of_week = week.unknown(state["week"], times)
    unknown = UNKNOWN_SHARE * (spreading * terms).sum(1) + of_week
    return Expectation(times, at_time(state, times), unknown, of_week, terms, spreading)


def learn(
    state: State, expectation: Expectation, surprise: Floats, noise: Floats, wander: Floats, days: Floats
) -> Floats:
    """Move towards blocks that were a `surprise`, and return how far each term moved per logit of it [B, 5].

    noise, wander [B]: variance of a block by itself, and of what lasts; days [B]: its length, 0 where unused.
    """
    use = days > 0.0
    lasting = WANDER_SECONDS * wander + WEEKEND_SECONDS * expectation.of_week
    error = noise + 2.0 / BLOCK_SECONDS * lasting
    gain = expectation.spreading / (error + expectation.of_day)[:, None] * use[:, None]
    state["theta"] += gain * surprise[:, None]
    state["covariance"] += days[:, None, None] * _DAILY - gain[:, :, None] * expectation.spreading[:, None, :]
    of_slot = week.WANDER_SHARE * wander + UNKNOWN_SHARE * state["covariance"][:, 0, 0]
    week.learn(state["week"], expectation.at, surprise, of_slot, use)
    return gain


def rebase(state: State, shift: Floats, variance: float) -> None:
    """Move the level of every hour by `shift` [B], which is known up to a variance."""
    state["theta"][:, 0] += shift
    state["covariance"][:, 0, 0] += variance
