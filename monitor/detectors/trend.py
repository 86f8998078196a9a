"""`trend`: the last minutes to hours lie below what this hour of the day has always been.

Blocks of five minutes are compared with a daily rhythm (mean and two harmonics of the day, recursive least
squares with a prior, so that an unlearnt day is wide and not wrong). Of the residuals r, weighted by the
requests behind them, means over the last 15, 45 and 150 minutes are divided by their error

    z = mean / √(noise of few requests + wander · 1/(1 + window/2 h) + what is not known of the rhythm)

and |z| is held against √(2 · nats). Noise is learnt from how neighbouring blocks differ, wander from how far
an hour strays from the rhythm; both start from priors (`WANDER_PRIOR` 0.07² logits²).

Finds slow decay, and drops too small for their first minutes to show. Needs about a day to be sharp. Cannot
tell a decay from traffic that changed for good; a warning, unless a quarter of MAL is lost.

Measured (simulated, held-out seeds): a slide of 0.65 logits in 4 h found after 120-130 min, of 0.5 in 8 h
after 320-360 min, 96-100 %; MAL 3.4 → 2.9 at 8 slots after 20 min (96 %), at about one request at a time
75-83 % within 8 h. False alarms: 0.3 a month.

Roberts, Control chart tests based on geometric moving averages, Technometrics 1959.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base, evidence, reference, scores

if TYPE_CHECKING:
    from monitor.detectors.base import Bools, Floats, State

NAME = "trend"

BLOCK_SECONDS = 290.0
START_BLOCKS = 6
WINDOWS = np.array([900.0, 2700.0, 9000.0])
DAY = 86400.0
PRIOR_SD = np.array([0.5, 0.25, 0.25, 0.06, 0.06])
DAILY_SD = np.array([0.03, 0.02, 0.02, 0.01, 0.01])
WANDER_SECONDS = 7200.0
WANDER_PRIOR = 0.07**2
WANDER_LEAST = 0.035**2
WANDER_BLOCKS = 144.0
WANDER_MEMORY = 1440.0
SPREAD_PRIOR = 120.0
SPREAD_BLOCKS = 6.0
SPREAD_MEMORY = 600.0
WINSOR = 10.0
LEAST_SHARE_VARIANCE = 0.002
UNKNOWN_SHARE = 0.5
NOISE_SHARE = 1.3
LARGEST_NOISE = 0.09**2
LARGEST_SCORE = 1.5
EXTRA_NATS = -7.0
CALM = 0.6

_SHRINK = 1.0 / (1.0 + WINDOWS / WANDER_SECONDS)
_AUTOCORRELATION = 2.0 * WANDER_SECONDS / (BLOCK_SECONDS + 10.0)
_TERMS = len(PRIOR_SD)
_DAILY = np.diag(DAILY_SD**2)

DTYPE = np.dtype(
    [
        ("sums", "f8", base.NUM_SUMS),
        ("began_at", "f8"),
        ("rate", "f8", base.POSITIONS),
        ("theta", "f4", _TERMS),
        ("covariance", "f4", (_TERMS, _TERMS)),
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
        ("expected", "f8"),
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
    """Forget the recent windows and the block at hand; the rhythm stays."""
    for name in ("sums", "weight", "sum", "noise", "last_information"):
        state[name] = 0.0


def forget(state: State, positions_kept: Floats) -> None:
    """Drop the reference of the positions from `positions_kept` [B] on and the block at hand."""
    state["rate"] *= positions_kept[:, None] > np.arange(base.POSITIONS)
    state["sums"] = 0.0


def gather(state: State, bucket: State, at: Floats) -> Bools:
    """Add full buckets to their blocks of five minutes and return which of these are full."""
    sums, began = state["sums"], state["began_at"]
    fresh = (sums[:, base.DRAFTS] <= 0.0) | (bucket["began_at"] - began > evidence.STALE_SECONDS)
    began = np.where(fresh, bucket["began_at"], began)
    state["began_at"] = began
    sums *= ~fresh[:, None]
    sums += bucket["sums"]
    full: Bools = at - began >= BLOCK_SECONDS
    return full


def step(plan: base.Plan, state: State, baseline: State, at: Floats, on: Bools) -> base.Verdict:
    """Return the verdict on full blocks; rows take part where `on`."""
    known = reference.known(baseline)
    state["rate"] = np.where(known & (state["rate"] <= 0.0), baseline["rate"], state["rate"])
    block = scores.against(state["sums"], np.where(known, state["rate"], 0.5), known)
    state["sums"] = 0.0
    score = base.clip(block.shift[:, 0], -LARGEST_SCORE, LARGEST_SCORE)
    information = np.maximum(block.information[:, 0], 1.0)
    terms = _terms(at - 0.5 * BLOCK_SECONDS)
    state["expected"] = (terms * state["theta"]).sum(1)
    residual = score - state["expected"]
    spreading = (state["covariance"] * terms[:, None, :]).sum(2)
    unknown = (spreading * terms).sum(1)
    lag = np.maximum(at - state["last_at"], 0.0)
    mean, error = _windows(state, residual, information, lag, on)
    variance = NOISE_SHARE * error + state["wander"][:, None] * _SHRINK + UNKNOWN_SHARE * unknown[:, None]
    z = mean / np.sqrt(variance) * (error < LARGEST_NOISE)
    limit = np.sqrt(2.0 * (base.nats(plan) + EXTRA_NATS))
    down, up = np.maximum(-z.min(1), 0.0) / limit, np.maximum(z.max(1), 0.0) / limit
    row = np.arange(len(at))
    state["shift"] = mean[row, np.where(down > up, z.argmin(1), z.argmax(1))]
    _since(state, z[:, 0], at)
    highest = np.maximum(down, up)
    _learn_noise(state, residual, information, lag, on)
    _learn_wander(state, mean[:, 1], error[:, 1], on & (highest < CALM))
    _learn_rhythm(state, terms, spreading, residual, state["spread"] / information, on & (highest < 1.0))
    state["last_at"], state["last"] = at, residual
    state["last_information"] = information * on
    state["blocks"] += on
    active = on & (state["blocks"] > START_BLOCKS)
    return base.Verdict(down * active, up * active, state["down_since"].copy(), state["up_since"].copy())


def _windows(
    state: State, residual: Floats, information: Floats, lag: Floats, on: Bools
) -> tuple[Floats, Floats]:
    """Return the mean residual [B, 3] of each window and its variance from few requests."""
    noise = state["spread"] / information
    fade = np.exp(-lag[:, None] / WINDOWS)
    share = (1.0 / (noise + LEAST_SHARE_VARIANCE))[:, None]
    weight = state["weight"] * fade + share
    total = state["sum"] * fade + share * residual[:, None]
    squares = state["noise"] * fade * fade + share * share * noise[:, None]
    taking = on[:, None]
    state["weight"] = np.where(taking, weight, state["weight"])
    state["sum"] = np.where(taking, total, state["sum"])
    state["noise"] = np.where(taking, squares, state["noise"])
    return total / weight, squares / (weight * weight)


def _terms(at: Floats) -> Floats:
    """Return the regressors [B, 5] of the daily rhythm: mean, first and second harmonic of the day (UTC)."""
    angle = 2.0 * np.pi / DAY * (at % DAY)
    return np.stack(
        [np.ones(len(at)), np.sin(angle), np.cos(angle), np.sin(2.0 * angle), np.cos(2.0 * angle)], 1
    )


def _since(state: State, z: Floats, at: Floats) -> None:
    """Remember when the shortest window last was on the other side of one standard deviation."""
    began = at - BLOCK_SECONDS
    state["down_since"] = np.where((z > -1.0) | (state["down_since"] == 0.0), began, state["down_since"])
    state["up_since"] = np.where((z < 1.0) | (state["up_since"] == 0.0), began, state["up_since"])


def _learn_noise(state: State, residual: Floats, information: Floats, lag: Floats, on: Bools) -> None:
    """Learn what few requests do to a block from how much neighbours differ."""
    spread, before = state["spread"], state["last_information"]
    use = on & (before > 0.0) & (lag < 3.0 * BLOCK_SECONDS)
    both = 1.0 / information + 1.0 / np.maximum(before, 1e-9)
    change = np.minimum((residual - state["last"]) ** 2 / np.where(use, both, 1.0), WINSOR * spread)
    gain = use / (SPREAD_BLOCKS + np.minimum(state["blocks"], SPREAD_MEMORY))
    state["spread"] = np.maximum(spread + gain * (change - spread), 1.0)


def _learn_wander(state: State, mean: Floats, error: Floats, calm: Bools) -> None:
    """Learn how far an hour's mean strays from the rhythm while nothing is wrong."""
    wander = state["wander"]
    strayed = base.clip((mean * mean - error) / _SHRINK[1], 0.0, 9.0 * wander)
    gain = calm / (WANDER_BLOCKS + np.minimum(state["blocks"], WANDER_MEMORY))
    state["wander"] = np.maximum(wander + gain * (strayed - wander), WANDER_LEAST)


def _learn_rhythm(
    state: State, terms: Floats, spreading: Floats, residual: Floats, noise: Floats, use: Bools
) -> None:
    """Move the rhythm towards the block (recursive least squares; it may change from day to day)."""
    error = noise + _AUTOCORRELATION * state["wander"]
    gain = spreading / (error + (spreading * terms).sum(1))[:, None] * use[:, None]
    state["theta"] += gain * residual[:, None]
    days = use * (BLOCK_SECONDS / DAY)
    state["covariance"] += days[:, None, None] * _DAILY - gain[:, :, None] * spreading[:, None, :]


def against(state: State, rate: Floats) -> Floats:
    """Return the level [B] that the rhythm expected of its last block, as a score against `rate`."""
    weight = rate * (1.0 - rate) * np.cumprod(np.concatenate([np.ones((len(rate), 1)), rate[:, :-1]], 1), 1)
    own = np.where(state["rate"] > 0.0, state["rate"], rate)
    moved = np.log(own / (1.0 - own)) - np.log(rate / (1.0 - rate))
    result: Floats = state["expected"] + (weight * moved).sum(1) / weight.sum(1)
    return result


def rhythm(state: State, at: Floats) -> Floats:
    """Return what the daily rhythm [B] adds to the level at a time."""
    result: Floats = (_terms(at) * state["theta"]).sum(1)
    return result
