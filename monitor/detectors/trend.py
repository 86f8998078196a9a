"""`trend`: the last minutes to hours lie below what this hour of the day has always been."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base, scores

if TYPE_CHECKING:
    from monitor.detectors.base import Bools, Floats, Ints, State

NAME = "trend"

BLOCK_SECONDS = 290.0
STALE_SECONDS = 3600.0
START_BLOCKS = 6
WINDOWS = np.array([900.0, 2700.0, 9000.0])
DAY = 86400.0
HARMONICS = np.array([1.0, 2.0])
PRIOR_SD = np.array([0.5, 0.25, 0.25, 0.06, 0.06])
DAILY_SD = np.array([0.03, 0.02, 0.02, 0.01, 0.01])
WANDER_SECONDS = 7200.0
WANDER_PRIOR = 0.07**2
UNKNOWN_SHARE = 0.5
NOISE_SHARE = 1.3
WANDER_LEAST = 0.035**2
LARGEST_NOISE = 0.12**2
WANDER_PRIOR_BLOCKS = 144.0
WANDER_MEMORY_BLOCKS = 1440.0
SPREAD_PRIOR = 120.0
SPREAD_PRIOR_BLOCKS = 6.0
SPREAD_MEMORY_BLOCKS = 600.0
LEAST_SHARE_VARIANCE = 0.002
CALM = 0.6
LARGEST = 1.5

_TERMS = 1 + 2 * len(HARMONICS)
_SHRINK = 1.0 / (1.0 + WINDOWS / WANDER_SECONDS)
_AUTOCORRELATION = 2.0 * WANDER_SECONDS / (BLOCK_SECONDS + 10.0)

DTYPE = np.dtype(
    [
        ("trials", "f8", base.POSITIONS),
        ("successes", "f8", base.POSITIONS),
        ("began_at", "f8"),
        ("rate", "f8", base.POSITIONS),
        ("theta", "f8", _TERMS),
        ("covariance", "f8", (_TERMS, _TERMS)),
        ("blocks", "f8"),
        ("weight", "f8", len(WINDOWS)),
        ("sum", "f8", len(WINDOWS)),
        ("noise", "f8", len(WINDOWS)),
        ("last_at", "f8"),
        ("last", "f8"),
        ("last_information", "f8"),
        ("spread", "f8"),
        ("wander", "f8"),
        ("shift", "f8"),
        ("wanted", "f8"),
        ("down_since", "f8"),
        ("up_since", "f8"),
    ],
)


def allocate(state: State) -> None:
    """Set fresh rows to what is assumed before anything was learnt."""
    state["covariance"] = np.diag(PRIOR_SD**2)
    state["spread"] = SPREAD_PRIOR
    state["wander"] = WANDER_PRIOR


def restart(state: State) -> None:
    """Forget the recent windows; the rhythm stays."""
    for name in ("weight", "sum", "noise", "last_information"):
        state[name] = 0.0


def forget(state: State, positions_kept: Ints) -> None:
    """Drop the reference of the positions from `positions_kept` [B] on and the block at hand."""
    state["rate"] = np.where(positions_kept[:, None] <= np.arange(base.POSITIONS), 0.0, state["rate"])
    state["trials"] = 0.0


def gather(state: State, bucket: State, at: Floats) -> Bools:
    """Add full buckets to their blocks of five minutes and return which of these are full."""
    fresh = (state["trials"][:, 0] <= 0.0) | (bucket["began_at"] - state["began_at"] > STALE_SECONDS)
    state["began_at"] = np.where(fresh, bucket["began_at"], state["began_at"])
    for name in ("trials", "successes"):
        state[name] = np.where(fresh[:, None], 0.0, state[name]) + bucket[name]
    full: Bools = at - state["began_at"] >= BLOCK_SECONDS
    return full


def step(plan: base.Plan, state: State, rate: Floats, known: Bools, at: Floats, on: Bools) -> base.Verdict:
    """Return the verdict on full blocks; `rate` [B, 8] is the baseline the first block is measured against."""
    reference = np.where(known & (state["rate"] <= 0.0), rate, state["rate"])
    state["rate"] = reference
    block = scores.against(state["trials"], state["successes"], reference, known)
    score = np.clip(block.level, -LARGEST, LARGEST)
    information = np.maximum(block.level_information, 1.0)
    state["trials"] = 0.0
    state["successes"] = 0.0
    terms = _terms(at - 0.5 * BLOCK_SECONDS)
    residual = score - (terms * state["theta"]).sum(1)
    spread = state["spread"]
    noise = spread / information
    lag = at - state["last_at"]
    fade = np.exp(-np.maximum(lag, 0.0)[:, None] / WINDOWS)
    share = (1.0 / (noise + LEAST_SHARE_VARIANCE))[:, None]
    weight = state["weight"] * fade + share
    total = state["sum"] * fade + share * residual[:, None]
    squares = state["noise"] * fade * fade + share * share * noise[:, None]
    spreading = (state["covariance"] * terms[:, None, :]).sum(2)
    unknown = (spreading * terms).sum(1)
    mean = total / weight
    variance = NOISE_SHARE * squares / (weight * weight) + state["wander"][:, None] * _SHRINK + UNKNOWN_SHARE * unknown[:, None]
    z = np.where(squares < LARGEST_NOISE * weight * weight, mean / np.sqrt(variance), 0.0)
    limit = np.sqrt(2.0 * (base.nats(plan) + base.TREND_SHARE))
    down, up = np.maximum(-z.min(1), 0.0) / limit, np.maximum(z.max(1), 0.0) / limit
    _since(state, z[:, 0], at)
    row = np.arange(len(at))
    state["shift"] = np.where(down > up, mean[row, z.argmin(1)], mean[row, z.argmax(1)])
    state["wanted"] = score - residual
    calm = on & (np.maximum(down, up) < CALM)
    updating = on & (np.maximum(down, up) < 1.0)
    state["weight"] = np.where(on[:, None], weight, state["weight"])
    state["sum"] = np.where(on[:, None], total, state["sum"])
    state["noise"] = np.where(on[:, None], squares, state["noise"])
    # what two neighbours differ by is noise of few requests; what an hour keeps is wander
    neighbours = on & (lag < 3.0 * BLOCK_SECONDS) & (state["last_information"] > 0.0)
    both = 1.0 / information + 1.0 / np.maximum(state["last_information"], 1e-9)
    change = (residual - state["last"]) ** 2 / np.where(neighbours, both, 1.0)
    gain = neighbours / (SPREAD_PRIOR_BLOCKS + np.minimum(state["blocks"], SPREAD_MEMORY_BLOCKS))
    state["spread"] = np.maximum(spread + gain * (np.minimum(change, 10.0 * spread) - spread), 1.0)
    kept = mean[:, 1] ** 2 - squares[:, 1] / (weight[:, 1] ** 2)
    kept = np.clip(kept / _SHRINK[1], 0.0, 9.0 * state["wander"])
    gain = calm / (WANDER_PRIOR_BLOCKS + np.minimum(state["blocks"], WANDER_MEMORY_BLOCKS))
    state["wander"] = np.maximum(state["wander"] + gain * (kept - state["wander"]), WANDER_LEAST)
    _learn(state, terms, spreading, unknown, residual, noise, updating, lag)
    state["last_at"] = at
    state["last"] = residual
    state["last_information"] = np.where(on, information, 0.0)
    state["blocks"] += on
    active = on & (state["blocks"] > START_BLOCKS)
    return base.Verdict(
        np.where(active, down, 0.0), np.where(active, up, 0.0), state["down_since"].copy(), state["up_since"].copy()
    )


def _terms(at: Floats) -> Floats:
    angle = 2.0 * np.pi * (at % DAY)[:, None] / DAY * HARMONICS
    return np.concatenate([np.ones((len(at), 1)), np.sin(angle[:, :1]), np.cos(angle[:, :1]), np.sin(angle[:, 1:]), np.cos(angle[:, 1:])], 1)


def _since(state: State, z: Floats, at: Floats) -> None:
    """Remember when the shortest window last was on the other side of one standard deviation."""
    state["down_since"] = np.where((z > -1.0) | (state["down_since"] == 0.0), at - BLOCK_SECONDS, state["down_since"])
    state["up_since"] = np.where((z < 1.0) | (state["up_since"] == 0.0), at - BLOCK_SECONDS, state["up_since"])


def _learn(
    state: State, terms: Floats, spreading: Floats, unknown: Floats, residual: Floats, noise: Floats, use: Bools, lag: Floats
) -> None:
    """Move the rhythm towards the block (recursive least squares; the rhythm itself may change from day to day)."""
    error = noise + _AUTOCORRELATION * state["wander"]
    gain = spreading / (error + unknown)[:, None] * use[:, None]
    state["theta"] += gain * residual[:, None]
    days = np.where(use, np.clip(lag, 0.0, DAY) / DAY, 0.0)
    covariance = state["covariance"] - gain[:, :, None] * spreading[:, None, :]
    state["covariance"] = covariance + days[:, None, None] * np.diag(DAILY_SD**2)


def against(state: State, rate: Floats) -> Floats:
    """Return the level [B] that the rhythm expects, as a score against `rate`, from its last block."""
    weight = rate * (1.0 - rate) * np.cumprod(np.concatenate([np.ones((len(rate), 1)), rate[:, :-1]], 1), 1)
    own = np.where(state["rate"] > 0.0, state["rate"], rate)
    moved = np.log(own / (1.0 - own)) - np.log(rate / (1.0 - rate))
    return state["wanted"] + (weight * moved).sum(1) / weight.sum(1)


def rhythm(state: State, at: Floats) -> Floats:
    """Return what the daily rhythm [B] adds to the level at a time."""
    result: Floats = (_terms(at) * state["theta"]).sum(1)
    return result
