"""`shape`: some positions moved against the others (contrasts, a bank of cumulative sums)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base

if TYPE_CHECKING:
    from monitor.detectors.base import Bools, Bucket, Floats, State

NAME = "shape"

CONTRASTS = base.POSITIONS - 1
SIZES = np.array([0.2, 0.6, 2.0])
DEAD_BAND = 0.08
SETTLING, SETTLING_SECONDS = 2.0, 3 * 3600.0
DOUBT_ERRORS = 1.5
EXTRA_NATS = 3.0
EXCURSION = 2.0
EXCURSIONS_PRIOR = 12.0
EXCURSIONS_MEMORY = 300.0
LARGEST_EXCESS = 12.0
STEEPEST_TAIL = 2.5
SHARE, LEAST_SHARE, LARGEST_SHARE = 0.012, 0.05, 0.65
LARGEST_LOSS = -0.3
CORRELATION_PRIOR = 30.0
CORRELATION_MEMORY = 3000.0
LARGEST_CORRELATION = 0.85
WINSOR_ERRORS = 4.0

_BANK = (CONTRASTS, 2, len(SIZES))
DTYPE = np.dtype(
    [
        ("sums", "f4", _BANK),
        ("since", "f4", _BANK),
        ("epoch", "f8"),
        ("last", "f4", base.POSITIONS),
        ("product", "f4", base.POSITIONS),
        ("square", "f4", base.POSITIONS),
        ("peak", "f4", (CONTRASTS, 2)),
        ("excursions", "f4", (CONTRASTS, 2)),
        ("excess", "f4", (CONTRASTS, 2)),
    ],
)


def allocate(state: State) -> None:
    """Set fresh rows to what is assumed before anything was learnt."""
    state["product"] = 0.2 * CORRELATION_PRIOR
    state["square"] = CORRELATION_PRIOR
    state["excursions"] = EXCURSIONS_PRIOR
    state["excess"] = EXCURSIONS_PRIOR


def restart(state: State) -> None:
    """Forget the sums; what was learnt of the noise stays."""
    state["sums"] = 0.0
    state["peak"] = 0.0


def limits(plan: base.Plan, state: State) -> Floats:
    """Return the decision limit [B, 7, 2] in nats for falls and rises of each contrast."""
    nats = base.nats(plan) + EXTRA_NATS
    tail = base.clip(state["excess"] / state["excursions"], 1.0, STEEPEST_TAIL)
    result: Floats = EXCURSION + (nats - EXCURSION) * tail
    return result


def step(plan: base.Plan, state: State, bucket: Bucket, baseline: State, spread: Floats, on: Bools) -> Floats:
    """Return the scores [B, 14] of full buckets: fall and rise of each contrast, in units of the limit.

    spread [B, 8]: variance of the scores over binomial variance, which also tells how well the baseline
    knows its own contrasts; rows alarm where `on`.
    """
    contrast = bucket.score[:, 1:]
    doubt = spread[:, 1:] / np.maximum(baseline["information"][:, 1:], 1.0)
    settling = DEAD_BAND * (1.0 + SETTLING * np.exp(-bucket.age / SETTLING_SECONDS))
    beyond = np.abs(contrast) - settling[:, None] - DOUBT_ERRORS * np.sqrt(doubt)
    watched = on[:, None] & bucket.usable[:, 1:]
    old = state["sums"]
    active = (watched & (beyond > 0.0)).any(1) | (old > 0.0).any((1, 2, 3))
    if not active.any():
        return np.zeros((len(contrast), 2 * CONTRASTS))
    correlation = base.clip(state["product"][:, 1:] / state["square"][:, 1:], 0.0, LARGEST_CORRELATION)
    variance = bucket.variance[:, 1:] * (1.0 + correlation) / (1.0 - correlation)
    limit = limits(plan, state)
    share = base.clip(SHARE / bucket.variance[:, :1], LEAST_SHARE, LARGEST_SHARE)[:, None]
    # on the other side of the dead band lies what speaks against a change
    inward = 2.0 * np.abs(contrast)
    sides = np.stack([beyond - inward * (contrast > 0.0), beyond - inward * (contrast < 0.0)], 2)[..., None]
    gain = (SIZES * sides - 0.5 * SIZES * SIZES) / variance[..., None, None]
    gain = base.clip(gain, LARGEST_LOSS * limit[..., None], (share * limit)[..., None] + 0.01)
    new = np.where(watched[..., None, None], np.maximum(old + gain, 0.0), old)
    epoch = np.where((state["epoch"] > 0.0) | ~active, state["epoch"], bucket.began_at)
    since = (bucket.began_at - epoch)[:, None, None, None]
    state["since"] = np.where((old <= 0.0) & (new > 0.0), since, state["since"])
    state["sums"], state["epoch"] = new, epoch
    top = new.max(3)
    _excursions(state, top, watched)
    ratio: Floats = (top / limit * watched[..., None]).reshape(len(contrast), -1)
    return ratio


def _excursions(state: State, top: Floats, watched: Bools) -> None:
    """Learn how steeply the tail of each sum falls from the peaks of its excursions."""
    peak, low = state["peak"], top <= 0.0
    over = low & (peak > EXCURSION) & watched[..., None]
    if over.any():
        fade = np.where(over & (state["excursions"] > EXCURSIONS_MEMORY), 1.0 - 1.0 / EXCURSIONS_MEMORY, 1.0)
        state["excursions"] = (state["excursions"] + over) * fade
        state["excess"] = (state["excess"] + over * np.minimum(peak - EXCURSION, LARGEST_EXCESS)) * fade
    state["peak"] = np.maximum(peak, top) * ~low


def learn(state: State, bucket: Bucket, use: Bools) -> None:
    """Learn how a score follows its last value from calm buckets (`use` [B, 8], the level's first)."""
    scaled = base.clip(bucket.score / np.sqrt(bucket.variance), -WINSOR_ERRORS, WINSOR_ERRORS) * use
    fade = 1.0 - use / CORRELATION_MEMORY
    state["product"] = state["product"] * fade + scaled * state["last"]
    state["square"] = state["square"] * fade + scaled * scaled
    state["last"] = np.where(use, scaled, state["last"])


def since(state: State, row: int, which: int) -> float:
    """Return when the excursion of one of the 14 scores began, unix seconds."""
    sums = state["sums"][row].reshape(2 * CONTRASTS, -1)[which]
    return float(
        state["epoch"][row] + state["since"][row].reshape(2 * CONTRASTS, -1)[which, int(sums.argmax())]
    )
