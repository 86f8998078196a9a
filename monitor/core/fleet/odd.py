"""`odd`: one replica fell below the others (cumulative sums of what it does not share with them).

With z the level of a replica less that of the others, in its standard errors, the next z is predicted from
running means of the last ones (`MEMORIES` periods; the weights are learnt from all replicas of the group,
which share their traffic). A step of δ logits leaves

    s(a) = δ / error · (1 - Σ weight · response(a)),   a periods after it began,

in the surprise e: in full at first, then what the running means have not yet taken for the level. For each
of the sizes δ in `SIZES` a sum runs from where it pays best to begin

    S = max(S + l(a), l(0), 0),   l(a) = (-s(a) (e + doubt) - s(a)² / 2) / variance of e,

doubt being the error of the offset that the replica has had all along. A sum that grows slowly looks at fewer
independent stretches in a month than one that grows fast, so the limit of each size is the nats of the plan,
`EXTRA_NATS` and ln(what a period is worth to it). It grows where the tail of the group's own excursions is
heavier than e^-x: requests that last for many minutes leave replicas apart for as long.

Assumes that replicas differ by an offset that lasts for hours, and that what is left comes and goes within
minutes. Cannot see a replica that was the odd one from the start, nor who is right where half of them fall.

Measured (`make bench-detection`, four groups of eight replicas): MAL 3.4 → 2.9 on one at 5,000 drafts a
scrape `fleet-one-partial` 100 % in 1.2 min, at 8 slots `fleet-one-medium` 100 % in 20 min; 3.4 → 3.2
`fleet-one-small` 100 % in 42 min. By other measurements (24 groups): 1.3, 23 and 27 min. A slide of 0.65
logits in 4 h after 85 min. False alarms: 0.3 a month; none in 576 h of long requests. A matched filter
that is told size and noise takes 1.2, 20 and 24 min at one alarm a month: the requests of one replica say
no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base, troubles
from monitor.core.fleet import groupwise

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats, Indices, State

SIZES = np.array([0.13, 0.25, 0.5, 1.0])
"""Logits of the falls that are looked for: each twice the last, so that one between two is found nearly as
soon."""

MEMORIES = np.array([1.0, 4.0, 20.0])
"""Periods over which the running means go: one, a minute, five minutes; requests last no longer."""

PRIOR_WEIGHTS = np.array([0.40, 0.24, 0.03])
"""Weights of these before the group's own were learnt: regression on simulated fleets."""

PRIOR_PERIODS = 500.0
"""Replica-periods that they are worth: a quarter of an hour of eight replicas."""

LEARNING_PERIODS = 20000.0
"""Replica-periods (e-folding) over which the weights are learnt."""

SOLVE_EVERY = 60
"""Periods from one solution to the next."""

EXTRA_NATS = 0.45
"""Nats on top of the plan's (measured: 0.3 false alarms a month for one asked)."""

LEAST_LIMIT = 3.0
"""Nats that no limit is below, however rarely a sum looks anew."""

WORTH = (0.02, 1.0)
"""The least and most that a period is worth to a sum, for how many looks it has in a month."""

LARGEST_LOSS = -0.3
"""Share of the limit that one period may take away."""

SPREAD_PERIODS = 60.0
"""Periods that the prior of the surprise's variance is worth."""

SPREAD_MEMORY = 3000.0
"""Periods over which it is learnt: half a day."""

LEAST_SPREAD = 0.05
"""The least variance that is believed."""

OFFSET_PERIODS = 1920.0
"""Periods over which the offset of a replica is a mean: eight hours."""

WARM_PERIODS = 120.0
"""Periods before a replica is judged: half an hour."""

DOUBT_PERIODS = 60.0
"""Periods that the prior of the offset is worth, which is in doubt by so much."""

EXCURSION, OVER = 4.0, 1.0
"""Nats above which a peak is an excursion, and below which it is over."""

EXCURSIONS_PRIOR = 20.0
"""Excursions that a tail as it should be is worth."""

EXCURSIONS_MEMORY = 500.0
"""Excursions (e-folding) that are remembered."""

LARGEST_EXCESS = 12.0
"""Nats above `EXCURSION` that one peak counts for."""

TAIL_GAIN, STEEPEST_TAIL = 2.0, 2.5
"""How much the limit grows for a tail beyond 1, and the heaviest tail that is believed: long requests leave
replicas apart for as long, and the sums' peaks are not independent."""

WINSOR = 4.0
"""Errors that one surprise counts for at most in learning, and up to which means follow."""

CALM = 0.55
"""Share of the limit above which a period teaches nothing."""

SILENT_SECONDS = 600.0
"""Seconds without news after which means and sums begin anew."""

SIZE_PRIOR = 4.0
"""Prior (in the units of the power) that draws the estimated size to 0: the largest of four sums is an
optimist."""

_GAINS = 1.0 - np.exp(-1.0 / MEMORIES)
"""How far each mean moves towards a new period; the first is the period itself."""

_GAINS[0] = 1.0
_OLDEST = 127
"""The oldest age (periods) at which what a step leaves is tabled; later it is the same."""

_RESPONSE = 1.0 - (1.0 - _GAINS[None, :]) ** np.arange(_OLDEST + 1)[:, None]
"""How much of a step each mean has taken in, by age."""

_FEATURES = len(MEMORIES)

DTYPE = np.dtype(
    [
        ("offset", "f8"),  # usual distance from the others, logits
        ("seen", "f8"),  # turns it was learnt from
        ("last_at", "f8"),  # last turn, unix seconds
        ("means", "f8", _FEATURES),  # of the scaled distance, by memory
        ("spread", "f8"),  # variance of the surprise
        ("sums", "f8", len(SIZES)),  # likelihood ratio of a fall, by size, nats
        ("age", "i8", len(SIZES)),  # turns since each left 0
        ("since", "f8", len(SIZES)),  # when it did, unix seconds
        ("pull", "f8", len(SIZES)),  # Σ g e of each
        ("power", "f8", len(SIZES)),  # Σ g² of each
        ("peak", "f8"),  # highest sum of the excursion under way, nats
        ("best", "i8"),  # size that scores highest
        ("score", "f8"),  # of that size, units of the limit
        ("named", "f8"),  # fall that was told, logits; 0: none
        ("back", "f8"),  # evidence of being back, nats
    ],
)
LEARNT_DTYPE = np.dtype(
    [
        ("gram", "f8", (_FEATURES, _FEATURES)),  # products of the means, faded: XᵀX
        ("cross", "f8", _FEATURES),  # products of means and distance, faded: Xᵀy
        ("weights", "f8", _FEATURES),  # of the means in the prediction
        ("periods", "i8"),  # turns seen
        ("excursions", "f8"),  # excursions that ended, with the prior, faded
        ("excess", "f8"),  # sum of what their peaks exceeded, nats
    ],
)


def allocate(state: State) -> None:
    """Set fresh rows to what is assumed before anything was learnt."""
    state["spread"] = 1.0


def allocate_learnt(learnt: State) -> None:
    """Set fresh groups to what is assumed before anything was learnt."""
    learnt["gram"] = PRIOR_PERIODS * np.eye(_FEATURES)
    learnt["cross"] = PRIOR_PERIODS * PRIOR_WEIGHTS
    learnt["weights"] = PRIOR_WEIGHTS
    learnt["excursions"] = learnt["excess"] = EXCURSIONS_PRIOR


def restart(state: State) -> None:
    """Forget the sums; what was learnt of the noise stays."""
    for name in ("sums", "age", "score", "peak"):
        state[name] = 0.0


@dataclass(frozen=True, slots=True)
class Apart:
    """How far replicas [M] are apart from the others of their group in one turn.

    level, variance: in logits, and its variance while nothing is wrong; began_at: unix seconds; undisturbed:
    without an open trouble.
    """

    level: Floats
    variance: Floats
    began_at: Floats
    undisturbed: Bools


def step(plan: base.DetectionPlan, state: State, learnt: State, group_of_row: Indices, apart: Apart) -> None:
    """Take in what one turn showed of the replicas [M], and score their falls.

    learnt [G]: what is known of the groups; group_of_row [M]: ascending.
    """
    began_at, undisturbed = apart.began_at, apart.undisturbed
    resumed = began_at - state["last_at"] > SILENT_SECONDS
    state["means"] *= ~resumed[:, None]
    state["sums"] *= ~resumed[:, None]
    state["last_at"] = began_at
    deviation, error = apart.level - state["offset"], np.sqrt(apart.variance)
    _return(state, deviation, apart)
    weights = learnt["weights"][group_of_row]
    predicted = (state["means"] * weights).sum(1)
    surprise = deviation / error - predicted
    warm = state["seen"] >= WARM_PERIODS
    limit = base.nats(plan) + EXTRA_NATS
    _sum_up(
        state, weights, surprise, error, limit * base.bucket_share(apart.variance, deviation), limit, began_at
    )
    state["sums"] *= (undisturbed & warm)[:, None]
    lasting = SIZES / error[:, None] * _left(weights)[:, None]
    worth = base.clip(lasting * lasting / state["spread"][:, None], *WORTH)
    tail = base.clip(learnt["excess"] / learnt["excursions"], 1.0, STEEPEST_TAIL)
    reached = EXCURSION + np.maximum(limit - EXCURSION, 0.0) * (1.0 + TAIL_GAIN * (tail - 1.0))
    scores = state["sums"] / np.maximum(reached[group_of_row][:, None] + np.log(worth), LEAST_LIMIT)
    state["best"] = scores.argmax(1)
    state["score"] = scores.max(1)
    _excursions(state, learnt, group_of_row, ((state["sums"] - np.log(worth)) * (state["sums"] > 0.0)).max(1))
    calm = undisturbed & (state["score"] < CALM)
    _learn(state, learnt, group_of_row, deviation / error, surprise, calm)
    state["offset"] += calm * deviation / np.minimum(state["seen"], OFFSET_PERIODS).clip(1.0)
    reach = WINSOR * np.sqrt(state["spread"])
    followed = predicted + base.clip(surprise, -reach, reach)
    state["means"] += _GAINS * (followed[:, None] - state["means"])


def _return(state: State, deviation: Floats, apart: Apart) -> None:
    """Sum up what speaks for it that replicas which were named are level with the others again."""
    named = state["named"] * ~apart.undisturbed
    nats = troubles.nats_of_return(named, deviation, troubles.CORRELATED * apart.variance)
    state["named"], state["back"] = named, np.maximum(state["back"] + nats, 0.0)


def _left(weights: Floats) -> Floats:
    """Return how much of a step [M] stays in the surprise for good."""
    result: Floats = 1.0 - weights.sum(1)
    return result


def _sum_up(
    state: State,
    weights: Floats,
    surprise: Floats,
    error: Floats,
    most: Floats,
    limit: float,
    began_at: Floats,
) -> None:
    """Let the sums of all sizes grow or begin anew with a surprise; a period is worth `most` [M] at most."""
    spread = state["spread"][:, None]
    seen = np.minimum(state["seen"] + DOUBT_PERIODS, 2.0 * OFFSET_PERIODS)
    doubt = (np.sqrt(state["spread"] / seen) / np.maximum(_left(weights), 0.05))[:, None]
    age = np.minimum(state["age"], _OLDEST)
    lately = 1.0 - (_RESPONSE[age] * weights[:, None, :]).sum(2)
    sizes = SIZES / error[:, None]
    first = (-sizes * (surprise[:, None] + doubt) - 0.5 * sizes * sizes) / spread
    later = (-sizes * lately * (surprise[:, None] + doubt * lately) - 0.5 * (sizes * lately) ** 2) / spread
    first = np.minimum(first, most[:, None])
    longer = state["sums"] + base.clip(later, LARGEST_LOSS * limit, most[:, None])
    new = np.maximum(np.maximum(longer, first), 0.0)
    begins = (new > 0.0) & ((state["sums"] <= 0.0) | (first > longer))
    signal = np.where(begins, 1.0, lately) / error[:, None]
    state["since"] = np.where(begins, began_at[:, None], state["since"])
    state["age"] = np.where(begins, 1, state["age"] + 1) * (new > 0.0)
    state["pull"] = state["pull"] * ~begins - signal * surprise[:, None] / spread
    state["power"] = state["power"] * ~begins + signal * signal / spread
    state["sums"] = new


def _excursions(state: State, learnt: State, group_of_row: Indices, height: Floats) -> None:
    """Learn how steeply the tail of the sums falls, from the peaks of the excursions of all replicas."""
    peak, low = state["peak"], height < OVER
    over = low & (peak > EXCURSION)
    if over.any():
        first = groupwise.starts(group_of_row)
        number = groupwise.total(over.astype(np.float64), first)
        excess = groupwise.total(np.where(over, np.minimum(peak - EXCURSION, LARGEST_EXCESS), 0.0), first)
        full = (number > 0.0) & (learnt["excursions"] > EXCURSIONS_MEMORY)
        fade = np.where(full, 1.0 - 1.0 / EXCURSIONS_MEMORY, 1.0)
        learnt["excursions"] = learnt["excursions"] * fade + number
        learnt["excess"] = learnt["excess"] * fade + excess
    state["peak"] = np.maximum(peak, height) * ~low


def _learn(
    state: State, learnt: State, group_of_row: Indices, level: Floats, surprise: Floats, calm: Bools
) -> None:
    """Learn from calm periods how noisy a replica is, and how the group's noise comes and goes."""
    seen = np.minimum(state["seen"] + calm, SPREAD_MEMORY)
    state["seen"] = seen
    spread = state["spread"]
    sample = np.minimum(surprise * surprise, WINSOR * WINSOR * spread)
    state["spread"] = np.maximum(spread + calm * (sample - spread) / (SPREAD_PERIODS + seen), LEAST_SPREAD)
    first = groupwise.starts(group_of_row)
    means = state["means"] * calm[:, None]
    followed = base.clip(level, -WINSOR, WINSOR)
    fade = 1.0 - groupwise.total(calm.astype(np.float64), first) / LEARNING_PERIODS
    fresh = PRIOR_PERIODS * (1.0 - fade)
    gram = groupwise.total(means[:, :, None] * means[:, None, :], first)
    learnt["gram"] = learnt["gram"] * fade[:, None, None] + gram + fresh[:, None, None] * np.eye(_FEATURES)
    cross = groupwise.total(means * followed[:, None], first)
    learnt["cross"] = learnt["cross"] * fade[:, None] + cross + fresh[:, None] * PRIOR_WEIGHTS
    learnt["periods"] += 1
    due = np.flatnonzero(learnt["periods"] % SOLVE_EVERY == 0)
    if len(due):
        learnt["weights"][due] = np.linalg.solve(learnt["gram"][due], learnt["cross"][due][..., None])[..., 0]


def shift(state: State, row: int) -> float:
    """Return the most likely size of the fall of one replica, in logits, below 0."""
    best = int(state["best"][row])
    return -max(float(state["pull"][row, best]), 0.0) / (float(state["power"][row, best]) + SIZE_PRIOR)


def since(state: State, row: int) -> float:
    """Return when the fall of one replica began, unix seconds."""
    return float(state["since"][row, int(state["best"][row])])


def name(state: State, row: int, shift: float) -> None:
    """Let one replica be the odd one out, by a fall of `shift` logits, and begin its sums anew."""
    restart(state[row : row + 1])
    state["named"][row], state["back"][row] = shift, 0.0


def over(state: State, row: int) -> bool:
    """Return whether one replica that was named has proven to be level with the others again."""
    return bool(state["back"][row] >= troubles.NATS)
