"""`shared`: the level that the replicas of a model have in common fell (`level` on their mean)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from monitor.detectors import base, level

if TYPE_CHECKING:
    from monitor.detectors.base import Floats, State

OPEN_KEPT = 0.975
BACK = 0.35
LEAST_PERIODS = 8.0
RISE_SCORE, RISE_SHARE = 0.75, 0.5
WARM_PERIODS = 60.0
WARM_SECONDS = 1800.0
FLOOR = 0.001
WINSOR = 2.0

DTYPE = np.dtype(
    [
        ("level", level.DTYPE),
        ("began_at", "f8"),
        ("periods", "f8"),
        ("open", "f8"),
        ("change_at", "f8"),
        ("shift", "f8"),
        ("origin", "f8"),
        ("mean", "f8"),
        ("open_periods", "f8"),
        ("score", "f8"),
    ],
)


def allocate(state: State) -> None:
    """Set fresh rows to what is assumed before anything was learnt."""
    level.allocate(state["level"])


def parts(score: Floats, variance: Floats) -> tuple[float, Floats, Floats]:
    """Return what replicas [M] have in common, what each is apart from the others, and the variance of that.

    One replica that is far off moves the common part by no more than `WINSOR` of its errors.
    """
    middle = float(np.median(score))
    error = np.sqrt(variance)
    bounded = base.clip(score, middle - WINSOR * error, middle + WINSOR * error)
    weight = 1.0 / variance
    total, weights = float((weight * bounded).sum()), float(weight.sum())
    others = (total - weight * bounded) / (weights - weight)
    return total / weights, score - others, variance + 1.0 / (weights - weight)


def step(
    plan: base.Plan, state: State, score: float, variance: float, began_at: float, at: float
) -> Literal["open", "close"] | None:
    """Take in the common level of a period of one group (`state` of length 1); return what it makes of it.

    A trouble closes when a step back of half its size at least was found, or when the mean of the last
    minutes is nearer to where it came from.
    """
    state["began_at"] = np.where(state["periods"] > 0.0, state["began_at"], began_at)
    state["periods"] += 1.0
    scores = np.zeros((1, base.POSITIONS))
    scores[0, 0] = score
    variances = np.full((1, base.POSITIONS), variance + FLOOR)
    age = at - state["began_at"]
    usable = np.ones((1, base.POSITIONS), bool)
    bucket = base.Bucket(
        np.array([at]), np.array([began_at]), age, scores, 1.0 / variances, variances, usable
    )
    warm = (state["periods"] >= WARM_PERIODS) & (age >= WARM_SECONDS)
    calm = state["open"] == 0.0
    verdict = level.step(plan, state["level"], bucket, warm, calm)
    level.follow(state["level"], scores[:, 0], calm & (np.maximum(verdict.down, verdict.up) < level.CALM))
    state["score"] = verdict.down
    if state["open"][0]:
        return _go_on(state, score, float(verdict.up[0]))
    if verdict.down[0] < 1.0:
        return None
    state["open"] = 1.0
    state["change_at"] = min(float(verdict.down_since[0]), at)
    state["shift"] = state["mean"] = level.estimate(state["level"], 0, -1.0)
    state["origin"] = state["level"]["local"]
    state["open_periods"] = 0.0
    level.restart(state["level"])
    return "open"


def _go_on(state: State, score: float, rise: float) -> Literal["close"] | None:
    state["mean"] = OPEN_KEPT * state["mean"] + (1.0 - OPEN_KEPT) * (score - state["origin"])
    state["open_periods"] += 1.0
    shift = float(state["shift"][0])
    turned = rise >= RISE_SCORE and level.estimate(state["level"], 0, 1.0) > -RISE_SHARE * shift
    back = float(state["mean"][0]) > BACK * shift
    if state["open_periods"][0] < LEAST_PERIODS or not (turned or back):
        return None
    state["open"] = 0.0
    level.restart(state["level"])
    return "close"
