"""`level`: a step in acceptance, told from wander by its first minutes (whitened likelihood ratio)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base

if TYPE_CHECKING:
    from monitor.detectors.base import Bools, Floats, State

NAME = "level"

MEMORIES = np.array([1.0, 3.0, 10.0, 40.0, 160.0, 640.0])
PRIOR_WEIGHTS = np.array([0.30, 0.20, 0.12, 0.12, 0.10, 0.05])
PRIOR_BUCKETS = 80.0
LEARNING_BUCKETS = 6000.0
SOLVE_EVERY = 60
SPREAD_PRIOR = 60.0
SPREAD_MEMORY = 2000.0
GENERATIONS = 6
SLOTS = 8
CANDIDATES = GENERATIONS * SLOTS
DEAD_BAND = 0.04
SETTLING_SECONDS = 5 * 3600.0
EXCURSION = 2.0
EXCURSION_PRIOR = 15.0
EXCURSION_MEMORY = 300.0
EXCURSION_LARGEST = 12.0
STEEPEST_TAIL = 1.6
LONGEST_AGE = 1023
CALM = 0.5
SILENT_SECONDS = 1800.0
RESUMING_BUCKETS = 8.0
LOCAL_BUCKETS = 160.0

_GAINS = 1.0 - np.exp(-1.0 / MEMORIES)
_GAINS[0] = 1.0
_FEATURES = len(MEMORIES)
_AGES = np.unique(np.rint(np.geomspace(1, 600, 40)).astype(np.int64) - 1)
_GRID = len(_AGES)
_GRID_OF_AGE = np.clip(np.searchsorted(_AGES, np.arange(LONGEST_AGE + 1)), 0, _GRID - 1)
_RESPONSE = 1.0 - (1.0 - _GAINS[None, :]) ** _AGES[:, None]
_GENERATION_OF = np.array([min((i & -i).bit_length() - 1, GENERATIONS - 1) if i else GENERATIONS - 1 for i in range(1 << GENERATIONS)])
_CANDIDATE = np.arange(CANDIDATES)

DTYPE = np.dtype(
    [
        ("resumed", "f8"),
        ("last_at", "f8"),
        ("local", "f8"),
        ("local_buckets", "f8"),
        ("means", "f8", _FEATURES),
        ("gram", "f4", (_FEATURES, _FEATURES)),
        ("cross", "f8", _FEATURES),
        ("weights", "f8", _FEATURES),
        ("signature", "f4", _GRID),
        ("spread", "f8"),
        ("learnt", "f8"),
        ("pull", "f4", CANDIDATES),
        ("power", "f4", CANDIDATES),
        ("age", "i2", CANDIDATES),
        ("born_at", "f4", CANDIDATES),
        ("epoch", "f8"),
        ("bucket", "i8"),
        ("peak", "f8", 2),
        ("excursions", "f8", 2),
        ("excess", "f8", 2),
    ],
)


def allocate(state: State) -> None:
    """Set fresh rows to what is assumed before anything was learnt."""
    state["gram"] = PRIOR_BUCKETS * np.eye(_FEATURES)
    state["cross"] = PRIOR_BUCKETS * PRIOR_WEIGHTS
    state["weights"] = PRIOR_WEIGHTS
    state["signature"] = 1.0 - (_RESPONSE * PRIOR_WEIGHTS).sum(1)
    state["spread"] = 1.0
    state["age"] = -1
    state["excursions"] = EXCURSION_PRIOR
    state["excess"] = EXCURSION_PRIOR


def restart(state: State) -> None:
    """Forget all candidate changes; what was learnt of the wander stays."""
    state["age"] = -1
    state["peak"] = 0.0


def limit(state: State, plan: base.Plan) -> Floats:
    """Return the decision limit [B, 2] in nats for falls and rises."""
    nats = base.nats(plan) + base.LEVEL_SHARE
    tail = np.clip(state["excess"] / state["excursions"], 1.0, STEEPEST_TAIL)
    result: Floats = EXCURSION + (nats - EXCURSION) * tail
    return result


def step(
    plan: base.Plan,
    state: State,
    score: Floats,
    variance: Floats,
    began_at: Floats,
    at: Floats,
    age: Floats,
    on: Bools,
    learning: Bools,
) -> base.Verdict:
    """Return the verdict on full buckets whose level is `score` [B] with `variance` [B]."""
    resumed = np.where(began_at - state["last_at"] > SILENT_SECONDS, 0.0, state["resumed"]) + 1.0
    state["resumed"], state["last_at"] = resumed, at
    on = on & (resumed > RESUMING_BUCKETS)
    state["age"] = np.where((resumed <= RESUMING_BUCKETS)[:, None], -1, state["age"])
    root = np.sqrt(variance)
    scaled = score / root
    means, weights = state["means"], state["weights"]
    predicted = (means * weights).sum(1)
    sigma = np.sqrt(state["spread"])
    surprise = scaled - predicted
    limits = limit(state, plan)
    cap = np.sqrt(2.0 * limits.min(1) * base.bucket_share(variance, score)) + 0.02
    bounded = np.clip(surprise / sigma, -cap, cap)
    power, pull = _candidates(state, bounded, root * sigma, began_at)
    band = (DEAD_BAND * (1.0 + 3.0 * np.exp(-age / SETTLING_SECONDS)))[:, None]
    double = 2.0 * power
    fall = np.maximum(-pull - band * power, 0.0) ** 2 / double
    rise = np.maximum(pull - band * power, 0.0) ** 2 / double
    best_fall, best_rise = fall.argmax(1), rise.argmax(1)
    row = np.arange(len(score))
    statistic = np.stack([fall[row, best_fall], rise[row, best_rise]], 1)
    _excursions(state, statistic, on)
    ratio = statistic / limits
    calm = learning & (resumed > RESUMING_BUCKETS) & (ratio.max(1) < CALM)
    _learn(state, scaled, predicted, surprise, sigma, calm)
    ratio = np.where(on[:, None], ratio, 0.0)
    born_at = state["born_at"]
    epoch = state["epoch"]
    return base.Verdict(
        ratio[:, 0], ratio[:, 1], epoch + born_at[row, best_fall], epoch + born_at[row, best_rise]
    )


def follow(state: State, score: Floats, calm: Bools) -> None:
    """Let the local level (the last 40 minutes or so) follow calm buckets."""
    seen = np.minimum(state["local_buckets"] + calm, LOCAL_BUCKETS)
    state["local_buckets"] = seen
    state["local"] += calm * (score - state["local"]) / np.maximum(seen, 1.0)


def _candidates(state: State, surprise: Floats, scale: Floats, began_at: Floats) -> tuple[Floats, Floats]:
    """Begin a candidate change with this bucket, give every candidate its evidence, return (power, pull)."""
    bucket = state["bucket"]
    generation = _GENERATION_OF[bucket & ((1 << GENERATIONS) - 1)]
    slot = (bucket >> np.minimum(generation + 1, GENERATIONS)) & (SLOTS - 1)
    new = (generation * SLOTS + slot)[:, None] == _CANDIDATE
    age = state["age"]
    age = np.where(new, 0, np.where(age >= 0, np.minimum(age + 1, LONGEST_AGE), -1))
    state["age"] = age
    epoch = np.where(state["epoch"] > 0.0, state["epoch"], began_at)
    state["epoch"] = epoch
    state["born_at"] = np.where(new, (began_at - epoch)[:, None], state["born_at"])
    alive = age >= 0
    signature = np.take_along_axis(state["signature"], _GRID_OF_AGE[age], 1) / scale[:, None]
    signature *= alive
    keep = alive & ~new
    pull = state["pull"] * keep + signature * surprise[:, None]
    power = state["power"] * keep + signature * signature
    state["pull"], state["power"] = pull, power
    state["bucket"] = bucket + 1
    return np.maximum(power, 1e-9), pull


def _excursions(state: State, statistic: Floats, on: Bools) -> None:
    """Learn how steeply the statistic's tail falls from the peaks of its excursions."""
    peak = state["peak"]
    over = (statistic < 1.0) & (peak > EXCURSION) & on[:, None]
    fade = np.where(over & (state["excursions"] > EXCURSION_MEMORY), 1.0 - 1.0 / EXCURSION_MEMORY, 1.0)
    state["excursions"] = (state["excursions"] + over) * fade
    state["excess"] = (state["excess"] + over * np.minimum(peak - EXCURSION, EXCURSION_LARGEST)) * fade
    state["peak"] = np.where(statistic < 1.0, 0.0, np.maximum(peak, statistic))


def _learn(state: State, scaled: Floats, predicted: Floats, surprise: Floats, sigma: Floats, calm: Bools) -> None:
    """Let running means follow the score, and learn how they predict it from calm buckets."""
    means = state["means"]
    spread = state["spread"]
    followed = predicted + np.clip(surprise, -4.0 * sigma, 4.0 * sigma)
    followed = np.where(state["resumed"] <= RESUMING_BUCKETS, scaled, followed)
    fade = np.where(calm, 1.0 - 1.0 / LEARNING_BUCKETS, 1.0)[:, None]
    fresh = PRIOR_BUCKETS * (1.0 - fade)
    calm_means = means * calm[:, None]
    state["gram"] = state["gram"] * fade[:, :, None] + calm_means[:, :, None] * means[:, None, :] + fresh[:, :, None] * np.eye(_FEATURES)
    state["cross"] = state["cross"] * fade + calm_means * followed[:, None] + fresh * PRIOR_WEIGHTS
    learnt = np.minimum(state["learnt"] + calm, SPREAD_MEMORY)
    state["learnt"] = learnt
    gain = calm / (SPREAD_PRIOR + learnt)
    state["spread"] = np.maximum(spread + gain * (np.minimum(surprise * surprise, 12.0 * spread) - spread), 0.02)
    # after a silence the level may be another: running means begin anew as plain means
    gains = np.maximum(_GAINS, 1.0 / state["resumed"][:, None])
    state["means"] = means + gains * (followed[:, None] - means)
    due = state["bucket"] % SOLVE_EVERY == 0
    if due.any():
        weights = np.linalg.solve(state["gram"][due], state["cross"][due][..., None])[..., 0]
        state["weights"][due] = weights
        state["signature"][due] = 1.0 - (_RESPONSE * weights[:, None, :]).sum(2)


def estimate(state: State, row: int, sign: float) -> float:
    """Return the most likely size, in logits, of the fall (`sign` -1) or rise (+1) in one row."""
    power = np.maximum(state["power"][row], 1e-9)
    pull = np.maximum(sign * state["pull"][row], 0.0)
    best = int((pull * pull / power * (state["age"][row] >= 0)).argmax())
    return float(sign * pull[best] / power[best])
