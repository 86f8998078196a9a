"""`odd`: one replica fell below the others (cumulative sums of what it does not share with them).

With d the level of a replica less that of the others and e = d - ρ d' its surprise after the last period's
d', a step of size δ puts δ into the first surprise and (1-ρ) δ into every later one. The sum for δ is

    S = max(S + later(e), first(e), 0),   later and first the log likelihood ratios of those two means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base

if TYPE_CHECKING:
    from monitor.detectors.base import Bools, Floats, State

SIZES = np.array([0.12, 0.25, 0.5, 1.0])
DEAD_BAND = 0.02
EXTRA_NATS = -2.0
LARGEST_LOSS = -0.3
PRIOR_PERIODS = 60.0
MEMORY_PERIODS = 3000.0
PRIOR_CORRELATION, LARGEST_CORRELATION = 0.55, 0.9
LASTING = np.array([1.6, 1.4, 1.2, 1.1])
OFFSET_PERIODS = 960.0
WARM_PERIODS = 120.0
WINSOR = 4.0
CALM = 0.5
OWN_KEPT = 0.6

DTYPE = np.dtype(
    [
        ("offset", "f8"),
        ("seen", "f8"),
        ("last", "f8"),
        ("product", "f8"),
        ("square", "f8"),
        ("scale", "f8"),
        ("sums", "f8", len(SIZES)),
        ("since", "f8", len(SIZES)),
        ("own", "f8"),
        ("score", "f8"),
    ],
)


def allocate(state: State) -> None:
    """Set fresh rows to what is assumed before anything was learnt."""
    state["product"] = PRIOR_CORRELATION * PRIOR_PERIODS
    state["square"] = PRIOR_PERIODS
    state["scale"] = 1.0


def restart(state: State) -> None:
    """Forget the sums; what was learnt of the noise stays."""
    state["sums"] = 0.0
    state["score"] = 0.0


def step(
    plan: base.Plan, state: State, apart: Floats, variance: Floats, began_at: float, undisturbed: Bools
) -> None:
    """Take in how far the replicas [M] are apart from the others in one period, and score their falls.

    variance [M]: of `apart` while nothing is wrong; undisturbed [M]: without an open trouble.
    """
    deviation = apart - state["offset"]
    correlation = np.minimum(state["product"] / state["square"], LARGEST_CORRELATION)
    noise = state["scale"] * variance * (1.0 - correlation * correlation)
    surprise = deviation - correlation * state["last"]
    limit = base.nats(plan) + EXTRA_NATS
    rest = (1.0 - correlation)[:, None]
    error = noise[:, None]
    fallen = -surprise[:, None]
    first = (SIZES * (fallen - DEAD_BAND) - 0.5 * SIZES * SIZES) / error
    later = (SIZES * rest * (fallen - DEAD_BAND * rest) - 0.5 * (SIZES * rest) ** 2) / (LASTING * error)
    most = (base.bucket_share(variance, deviation) * limit)[:, None]
    first, later = np.minimum(first, most), base.clip(later, LARGEST_LOSS * limit, most)
    old = state["sums"]
    new = np.maximum(np.maximum(old + later, first), 0.0)
    begins = (new > 0.0) & ((old <= 0.0) | (first > old + later))
    state["since"] = np.where(begins, began_at, state["since"])
    state["sums"] = np.where(undisturbed[:, None], new, 0.0)
    warm = undisturbed & (state["seen"] >= WARM_PERIODS)
    state["score"] = np.where(warm, new.max(1) / limit, 0.0)
    state["own"] = OWN_KEPT * state["own"] + (1.0 - OWN_KEPT) * deviation
    _learn(state, deviation, surprise, variance, undisturbed & (new.max(1) < CALM * limit))
    state["last"] = deviation


def _learn(state: State, deviation: Floats, surprise: Floats, variance: Floats, calm: Bools) -> None:
    """Learn from calm periods how a replica differs from the others, and how that comes and goes."""
    seen = np.minimum(state["seen"] + calm, MEMORY_PERIODS)
    state["seen"] = seen
    state["offset"] += calm * deviation / np.minimum(np.maximum(seen, 1.0), OFFSET_PERIODS)
    error = np.sqrt(variance)
    now, before = (
        base.clip(deviation / error, -WINSOR, WINSOR),
        base.clip(state["last"] / error, -WINSOR, WINSOR),
    )
    fade = 1.0 - calm / MEMORY_PERIODS
    state["product"] = state["product"] * fade + calm * now * before
    state["square"] = state["square"] * fade + calm * now * now
    correlation = np.minimum(state["product"] / state["square"], LARGEST_CORRELATION)
    ratio = np.minimum(surprise * surprise / (variance * (1.0 - correlation * correlation)), WINSOR * WINSOR)
    state["scale"] = np.maximum(
        state["scale"] + calm * (ratio - state["scale"]) / (PRIOR_PERIODS + seen), 0.05
    )


def since(state: State, row: int) -> float:
    """Return when the fall of one replica began, unix seconds."""
    return float(state["since"][row, int(state["sums"][row].argmax())])
