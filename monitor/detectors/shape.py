"""`shape`: some positions moved against the others (contrasts, a bank of cumulative sums)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base

if TYPE_CHECKING:
    from monitor.detectors.base import Bools, Floats, State

NAME = "shape"

CONTRASTS = base.POSITIONS - 1
SIZES = np.array([0.25, 0.7, 2.0])
DEAD_BAND = 0.08
FLOOR = 5e-4
EXCURSION = 2.0
EXCURSION_PRIOR = 12.0
EXCURSION_MEMORY = 300.0
EXCURSION_LARGEST = 12.0
STEEPEST_TAIL = 2.5
CALM = 0.3
LEAST_SHARE = -0.3
CORRELATION_PRIOR = 30.0
CORRELATION_MEMORY = 3000.0

_BANK = (CONTRASTS, 2, len(SIZES))
DTYPE = np.dtype(
    [
        ("sums", "f4", _BANK),
        ("since", "f4", _BANK),
        ("epoch", "f8"),
        ("last", "f4", CONTRASTS),
        ("product", "f4", CONTRASTS),
        ("square", "f4", CONTRASTS),
        ("peak", "f4", (CONTRASTS, 2)),
        ("excursions", "f4", (CONTRASTS, 2)),
        ("excess", "f4", (CONTRASTS, 2)),
    ],
)


def allocate(state: State) -> None:
    """Set fresh rows to what is assumed before anything was learnt."""
    state["product"] = 0.2 * CORRELATION_PRIOR
    state["square"] = CORRELATION_PRIOR
    state["excursions"] = EXCURSION_PRIOR
    state["excess"] = EXCURSION_PRIOR


def restart(state: State) -> None:
    """Forget the sums; what was learnt of the noise stays."""
    state["sums"] = 0.0
    state["peak"] = 0.0


def limit(state: State, plan: base.Plan) -> Floats:
    """Return the decision limit [B, 7, 2] in nats for falls and rises of each contrast."""
    nats = base.nats(plan) + base.SHAPE_SHARE
    tail = np.clip(state["excess"] / state["excursions"], 1.0, STEEPEST_TAIL)
    result: Floats = EXCURSION + (nats - EXCURSION) * tail
    return result


def step(
    plan: base.Plan,
    state: State,
    contrast: Floats,
    variance: Floats,
    uncertainty: Floats,
    began_at: Floats,
    age: Floats,
    on: Bools,
) -> Floats:
    """Return the scores [B, 7, 2] of full buckets, falls first, in units of the limit.

    contrast [B, 7], variance [B, 8] (the level's first) of the bucket; uncertainty [B, 7]: variance of the baseline's own contrast.
    """
    correlation = np.clip(state["product"] / state["square"], 0.0, 0.85)
    inflated = variance[:, 1:] * (1.0 + correlation) / (1.0 - correlation)
    band = DEAD_BAND * (1.0 + np.exp(-age / 5400.0))[:, None] + 1.5 * np.sqrt(uncertainty)
    limits = limit(state, plan)
    share = np.clip(0.014 / variance[:, :1], 0.07, 0.5)[:, None]
    beyond = np.stack([-contrast - band, contrast - band], 2)[..., None]
    gain = (SIZES * beyond - 0.5 * SIZES * SIZES) / inflated[..., None, None]
    wide = limits[..., None]
    gain = np.clip(gain, LEAST_SHARE * wide, share[..., None] * wide + 0.01)
    old = state["sums"]
    new = np.where(on[..., None, None], np.maximum(old + gain, 0.0), old)
    epoch = np.where(state["epoch"] > 0.0, state["epoch"], began_at)
    state["epoch"] = epoch
    since = (began_at - epoch)[:, None, None, None]
    state["since"] = np.where((old <= 0.0) & (new > 0.0), since, state["since"])
    state["sums"] = new
    top = new.max(3)
    _excursions(state, top, on)
    ratio: Floats = np.where(on[..., None], top / limits, 0.0)
    return ratio


def _excursions(state: State, top: Floats, on: Bools) -> None:
    peak = state["peak"]
    over = (top <= 0.0) & (peak > EXCURSION) & on[..., None]
    fade = np.where(over & (state["excursions"] > EXCURSION_MEMORY), 1.0 - 1.0 / EXCURSION_MEMORY, 1.0)
    state["excursions"] = (state["excursions"] + over) * fade
    state["excess"] = (state["excess"] + over * np.minimum(peak - EXCURSION, EXCURSION_LARGEST)) * fade
    state["peak"] = np.where(top <= 0.0, 0.0, np.maximum(peak, top))


def learn(state: State, contrast: Floats, variance: Floats, use: Bools) -> None:
    """Learn how a contrast follows its last value from calm buckets."""
    scaled = np.clip(contrast / np.sqrt(variance), -4.0, 4.0)
    fade = np.where(use, 1.0 - 1.0 / CORRELATION_MEMORY, 1.0)
    state["product"] = state["product"] * fade + use * scaled * state["last"]
    state["square"] = state["square"] * fade + use * scaled * scaled
    state["last"] = np.where(use, scaled, state["last"])


def since(state: State, row: int, contrast: int, direction: int) -> float:
    """Return when the excursion of one contrast began, unix seconds."""
    best = int(state["sums"][row, contrast, direction].argmax())
    return float(state["epoch"][row] + state["since"][row, contrast, direction, best])
