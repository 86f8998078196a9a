"""`plunge`: acceptance fell far and at once (likelihood of the counts of single intervals, two at least).

With n trials and x successes at a position whose odds are o while all is well and o' = o exp(-`SIZE`) after
the fall, an interval is worth

    Σ (n ln((1 + o) / (1 + o')) - `SIZE` x) / φ    nats,   φ = variance of the level ÷ binomial variance,

and the score is a cumulative sum of that (Page 1954), never below 0. o is the baseline's, moved to the
level of the last 40 minutes and down by a dead band (`DEAD_BAND` logits and 1.5 errors of the baseline).

An interval is worth half the limit at most, so one torn page cannot alarm, and less where few requests made
it (`SHARE` times the square of the requests that the level's variance tells, at least `LEAST_SHARE`). How
far a request may lie off by itself is known, too: with z the depth of the fall in errors of the interval,
the share goes with (z / `USUAL_DEPTH`)². A hard request lies 3 errors low for minutes, a collapse 5 and more.

Falls that passed by themselves within minutes are requests, too: their peaks tell how much the limit must
grow so that as many of them as came reach it no oftener than asked (`_excursions`).

Works from 20 s and 500 drafts of baseline on. Cannot see falls of less than about 1.4 logits (MAL 3.4 → 1.8):
those are `level`'s.

Measured (`make bench-detection`; found and in the median, of all detectors): MAL 3.4 → 1.1 at 15 s
scrapes `collapse-high` 100 % in 0.4 min, at 2 s `collapse-fast-2s` 100 % in 0.1 min, at 8 slots
`collapse-medium` 100 % in 0.4 min, at about one request at a time `collapse-low` 100 % in 2.0 min, after
a night `collapse-overnight` 100 % in 0.5 min. By other measurements: change time off by 0.1 min. False
alarms: none in 1,728 h at about one request at a time; where requests have the tails of a t distribution
with 4 degrees of freedom, six a month at one request at a time, one at 8 slots.

Page, Continuous inspection schemes, Biometrika 1954.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.detectors.measures import noise, reference

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats, State
    from monitor.core.detectors.measures.evidence import Trials

NAME = "plunge"

SIZE = 2.2
"""Logits of the fall that is looked for: 3.4 → 1.4. A collapse to 1.1 is 3 and more; half as much is no
plunge."""

DEAD_BAND = 0.30
"""Logits that the level may be down before anything counts: a daily swing."""

DOUBT_ERRORS = 1.5
"""Standard errors of the baseline that are added to it."""

EXTRA_NATS = 0.5
"""Nats on top of the plan's: what was measured to bring false alarms to what is asked."""

SHARE, LEAST_SHARE, LARGEST_SHARE = 0.008, 0.10, 0.5
"""Share of the limit that an interval may be worth: SHARE times the square of its requests, between
LEAST_SHARE and LARGEST_SHARE. At one request at a time a dozen intervals are needed, from eight on two."""

OTHER_SHARE = 0.26
"""The least share where the interval before had no drafts: it is of other requests, which is news."""

USUAL_DEPTH = 4.6
"""Errors of an interval that a collapse is deep: shares go with the square of depth over this."""

DEPTHS = 0.35, 1.4
"""The least and the most that such a quotient may be."""

LARGEST_LOSS = -0.5
"""Share of the limit that one good interval may take away: a moment of luck does not end a fall."""

EXCURSION, EXCURSIONS_PRIOR, EXCESS_PRIOR = 0.2, 12.0, 0.12
"""Share of the limit above which a peak is an excursion; how many the prior is worth, and its mean height
above."""

LARGEST_EXCESS, FARTHEST = 1.0, 2.0
"""Limits above `EXCURSION` that one peak counts for, and times that the limit may grow."""

LEAST_HISTORY = 6 * 3600.0
"""Seconds that a stream's age counts as at least: two excursions in ten minutes are not hundreds a month."""

STRONG, STRENGTH_GAIN = 0.15, 0.4
"""Share of a fall's likeness at which it has begun, and how fast (gain an interval) the likeness is
followed."""

LEAST_SECONDS = 20.0
"""Seconds of baseline before anything is told: two intervals."""

LEAST_BUCKETS = 3
"""Buckets of baseline before anything is told."""

LEAST_DRAFTS = 500.0
"""Drafts of baseline before anything is told: some requests. Also what a stream must have had to be
healthy."""

DTYPE = np.dtype(
    [
        ("sum", "f8"),  # likelihood ratio of a plunge, nats
        ("since", "f8"),  # when it left 0, unix seconds
        ("after", "f8"),  # last interval before it, unix seconds
        ("strength", "f8"),  # what dates the fall: the best interval's likeness
        ("last_at", "f8"),  # of the last interval with drafts, unix seconds
        ("peak", "f4"),  # highest score of the excursion under way, limits
        ("excursions", "f4"),  # excursions that ended
        ("excess", "f4"),  # sum of what their peaks exceeded, limits
    ],
)


def restart(state: State, *, passed: bool) -> None:
    """Forget the sum; a fall that did not pass by itself within minutes is no excursion of the stream."""
    if passed:
        _count(state, state["peak"] > EXCURSION)
    state["sum"] = state["peak"] = 0.0


def ready(baseline: State, trials: Trials) -> Bools:
    """Return the rows [B] whose baseline is known well enough to tell a plunge."""
    result: Bools = (
        (trials.drafts > 0.0)
        & (baseline["sums"][:, base.DRAFTS] >= LEAST_DRAFTS)
        & (baseline["buckets"] >= LEAST_BUCKETS)
        & (trials.at - baseline["began_at"] >= LEAST_SECONDS)
    )
    return result


def doubt(baseline: State, spread: Floats) -> Floats:
    """Return the logits [B] by which a baseline of few requests may be too high (`DOUBT_ERRORS` errors)."""
    result: Floats = DOUBT_ERRORS * np.sqrt(spread / np.maximum(baseline["information"][:, 0], 1.0))
    return result


def step(
    plan: base.DetectionPlan, state: State, trials: Trials, baseline: State, spread: Floats, local: Floats
) -> Floats:
    """Return the score [B] in units of the limit.

    spread [B]: variance of the level over binomial variance; local [B]: where the level stood lately.
    """
    rate, known = baseline["rate"], reference.known(baseline)
    tried = trials.sums[:, base.TRIALS] * known
    won = trials.sums[:, base.SUCCESSES] * known
    band = DEAD_BAND + doubt(baseline, spread)
    unharmed = rate / (1.0 - rate) * np.exp(local - band)[:, None]
    fallen = unharmed * np.exp(-SIZE)
    lost = np.log((1.0 + unharmed) / (1.0 + fallen))
    nats = (tried * lost).sum(1) - SIZE * won.sum(1)
    on = ready(baseline, trials)
    last_at = state["last_at"].copy()
    state["last_at"] = np.where(trials.drafts > 0.0, trials.at, last_at)
    old = state["sum"]
    active = on & ((nats > 0.0) | (old > 0.0))
    if not active.any():
        return np.zeros(len(nats))
    # the requests behind the interval are told by its drafts, not by the few trials a collapse leaves
    reach = np.cumprod(np.concatenate([tried[:, :1], rate[:, :-1]], 1), 1)
    information = np.maximum((reach * rate * (1.0 - rate) * (tried > 0.0)).sum(1), 1e-9)
    dispersion = np.maximum(spread + noise.LEVEL_FLOOR * information, 1.0)
    limit = base.nats(plan) + EXTRA_NATS
    # in errors of the interval: one request may be hard, but not that hard
    requests = information / dispersion
    odds = (won[:, 0] + 0.5) / (tried[:, 0] - won[:, 0] + 0.5)
    depth = np.log(unharmed[:, 0] / odds) * np.sqrt(requests)
    share = _share(requests, depth, other=last_at < trials.began_at)
    new = old + base.clip(nats / dispersion, LARGEST_LOSS * limit, share * limit + 0.01)
    new = np.where(active, np.maximum(new, 0.0), old)
    fall = (tried * (lost - SIZE * fallen / (1.0 + fallen))).sum(1)
    likeness = base.clip(nats / np.maximum(fall, 1e-9), 0.0, 1.0)
    _date(state, trials, likeness, active, last_at)
    state["sum"] = new
    score: Floats = np.where(active, new / limit, 0.0)
    grown = _excursions(plan, state, score, trials.at - baseline["began_at"])
    result: Floats = score / grown
    return result


def _excursions(plan: base.DetectionPlan, state: State, score: Floats, age: Floats) -> Floats:
    """Learn from falls that passed by themselves, and return by how much [B] the limit grows for them.

    Peaks above `EXCURSION` fall off exponentially; the limit is where as many of them as came in the `age`
    [B] of the stream (seconds) reach it as rarely as the plan allows.
    """
    peak = np.maximum(state["peak"], score)
    state["peak"] = peak
    _count(state, (score <= 0.0) & (peak > EXCURSION))
    state["peak"] *= score > 0.0
    number = state["excursions"]
    mean = (EXCESS_PRIOR * EXCURSIONS_PRIOR + state["excess"]) / (EXCURSIONS_PRIOR + number)
    monthly = number * base.MONTH_SECONDS / np.maximum(age, LEAST_HISTORY) / plan.false_alarms_per_month
    grown: Floats = base.clip(EXCURSION + mean * np.log(np.maximum(monthly, 1e-9)), 1.0, FARTHEST)
    return grown


def _count(state: State, ended: Bools) -> None:
    """Take excursions that `ended` [B] into what is known of them."""
    state["excursions"] += ended
    state["excess"] += ended * np.minimum(state["peak"] - EXCURSION, LARGEST_EXCESS)


def _share(requests: Floats, depth: Floats, *, other: Bools) -> Floats:
    """Return the share [B] of the limit that an interval of so many requests may contribute.

    depth [B]: how far it fell, in its own errors; other [B]: after an interval without drafts, so that it
    is of other requests than the one before.
    """
    strength = base.clip(depth / USUAL_DEPTH, *DEPTHS) ** 2
    least = np.where(other, OTHER_SHARE, LEAST_SHARE)
    return base.clip(SHARE * requests * requests * strength, least * strength, LARGEST_SHARE)


def _date(state: State, trials: Trials, likeness: Floats, active: Bools, last_at: Floats) -> None:
    """Remember when intervals first looked like the fall itself, not halfway, and what came before.

    likeness [B]: from 0 (the baseline) to 1 (the fall); last_at [B]: end of the last interval with drafts.
    """
    before = state["strength"] * (state["sum"] > 0.0)
    strength = np.where(active, before + STRENGTH_GAIN * (likeness - before), state["strength"])
    began = np.where(likeness < STRONG, trials.at, trials.began_at)
    anew = active & ((before < STRONG) | (strength < STRONG))
    after = np.where(last_at > 0.0, np.minimum(last_at, began), began)
    state["since"] = np.where(anew, began, state["since"])
    state["after"] = np.where(anew, after, state["after"])
    state["strength"] = strength
