"""`plunge`: acceptance fell far and at once (likelihood of the counts of single scrapes, two at least)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base

if TYPE_CHECKING:
    from monitor.detectors.base import Bools, Floats, State

NAME = "plunge"

SIZES = np.array([1.0, 2.2])
DEAD_BAND = 0.30
SHARES = np.array([[0.010, 0.04, 0.5], [0.045, 0.18, 0.5]])
LEAST_SHARE = -0.5
LEAST_SECONDS = 20.0
LEAST_BUCKETS = 3
LEAST_DRAFTS = 500.0

DTYPE = np.dtype([("sums", "f8", len(SIZES)), ("since", "f8", len(SIZES))])


def restart(state: State) -> None:
    """Forget the sums."""
    state["sums"] = 0.0


def step(
    plan: base.Plan,
    state: State,
    trials: Floats,
    successes: Floats,
    rate: Floats,
    local: Floats,
    spread: Floats,
    floor: float,
    uncertainty: Floats,
    began_at: Floats,
    on: Bools,
) -> tuple[Floats, Floats]:
    """Return (score [B] in units of the limit, when the fall began [B]).

    trials, successes, rate [B, 8] (0 trials where a position is not known); spread [B]: variance of the
    level over binomial variance; uncertainty [B]: variance of the baseline's level.
    """
    band = DEAD_BAND + 1.5 * np.sqrt(uncertainty)
    unharmed = rate / (1.0 - rate) * np.exp(local - band)[:, None]
    fallen = unharmed[:, None, :] * np.exp(-SIZES)[:, None]
    lost = np.log((1.0 + unharmed[:, None, :]) / (1.0 + fallen))
    reach = np.cumprod(np.concatenate([trials[:, :1], rate[:, :-1]], 1), 1)
    information = (reach * rate * (1.0 - rate) * (trials > 0.0)).sum(1)
    dispersion = np.maximum(spread + floor * information, 1.0)
    nats = (trials[:, None, :] * lost).sum(2) - SIZES * successes.sum(1)[:, None]
    limits = base.nats(plan) + base.PLUNGE_SHARE
    variance = dispersion / np.maximum(information, 1e-9)
    share = np.clip(SHARES[:, 0] / variance[:, None], SHARES[:, 1], SHARES[:, 2])
    gain = np.clip(nats / dispersion[:, None], LEAST_SHARE * limits, share * limits + 0.01)
    old = state["sums"]
    new = np.where(on[:, None], np.maximum(old + gain, 0.0), old)
    since = np.where((old <= 0.0) & (new > 0.0), began_at[:, None], state["since"])
    state["sums"], state["since"] = new, since
    best = new.argmax(1)
    row = np.arange(len(best))
    return np.where(on, new[row, best] / limits, 0.0), since[row, best]
