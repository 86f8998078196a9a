"""Positions that move against the others, bucket by bucket, against the formulas of the docstring in plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.detectors import base, shape
from tests.heart import made_trials
from tests.heart.made_trials import START

if TYPE_CHECKING:
    from collections.abc import Callable

    from monitor.core.detectors.base import Bucket, State

PLAN = base.DetectionPlan()
RATES = (0.8, 0.76, 0.73, 0.7, 0.68, 0.66, 0.64, 0.62)
SPREAD = 10.0


def bucket(
    number: int, contrasts: list[float], *, level_variance: float, variance: float, age: float
) -> Bucket:
    """Return one full bucket whose contrasts stand where they are said to."""
    variances = np.array([[level_variance, *[variance] * shape.CONTRASTS]])
    at = np.array([START + 15.0 * number])
    return base.Bucket(
        at,
        at - 15.0,
        np.array([age]),
        np.array([[0.0, *contrasts]]),
        1.0 / variances,
        variances,
        np.ones((1, 8), bool),
    )


def fresh() -> State:
    """Return a stream that was never seen."""
    state = np.zeros(1, shape.DTYPE)
    shape.allocate(state)
    return state


@dataclass
class Reference:
    """The bank of sums of one stream, written as the docstring has it; correlation 0.2 as at first."""

    level_variance: float
    variance: float
    age: float
    information: list[float]
    sums: dict[tuple[int, int, float], float] = field(default_factory=dict)

    def step(self, contrasts: list[float]) -> list[float]:
        """Return the score of the fall and of the rise of each contrast."""
        few = min(max(self.level_variance / 0.035 - 0.5, 0.0), 1.0)
        variance = self.variance * 1.2 / 0.8 * (1 + 0.35 * few)
        band = 0.08 * (1 + 2 * math.exp(-self.age / (3 * 3600)))
        share = min(max(0.012 / self.level_variance, 0.05), 0.6)
        scores = []
        for which, contrast in enumerate(contrasts):
            outside = abs(contrast) - band - 3 * math.sqrt(SPREAD / self.information[which])
            mixed = 0.5 * math.sqrt(self.level_variance) * (1 + few)
            fall = outside - 2 * abs(contrast) * (contrast > 0)
            rise = outside - 2 * abs(contrast) * (contrast < 0) - mixed
            for side, (move, extra) in enumerate([(fall, 1.5), (rise, 5.5)]):
                limit = base.nats(PLAN) + extra
                for size in (0.25, 0.7, 2.0):
                    gain = (size * move - size * size / 2) / variance
                    gain = min(max(gain, -0.3 * limit), share * limit + 0.01)
                    before = self.sums.get((which, side, size), 0.0)
                    self.sums[which, side, size] = max(before + gain, 0.0)
                scores.append(max(self.sums[which, side, size] for size in (0.25, 0.7, 2.0)) / limit)
        return scores


def _late(size: float) -> list[float]:
    return [0.1 * size, 0.3 * size, size, 0.8 * size, 0.5 * size, 0.2 * size, 0.0]


SEQUENCES: dict[str, tuple[float, float, float, list[list[float]]]] = {
    "busy, late positions fall": (0.01, 0.002, 1e6, [_late(0.0)] * 2 + [_late(-0.8)] * 4 + [_late(0.1)] * 3),
    "busy, late positions rise": (0.01, 0.002, 1e6, [_late(0.6)] * 3 + [_late(-0.1)] * 2),
    "few requests": (0.06, 0.02, 1e6, [_late(-0.9), _late(0.7), *[_late(-0.9)] * 8, _late(0.9)]),
    "some requests, young": (0.03, 0.01, 7200.0, [_late(-0.5), _late(-0.5), _late(0.2), _late(-0.5)]),
    "a small fall for long": (0.005, 0.001, 1e6, [_late(-0.3)] * 10),
}


@pytest.mark.parametrize(("level_variance", "variance", "age", "moves"), SEQUENCES.values(), ids=SEQUENCES)
def test_the_scores_are_the_sums_of_the_docstring(
    level_variance: float, variance: float, age: float, moves: list[list[float]]
) -> None:
    """Each contrast's fall and rise sums up beyond its band, cut at the bucket's share, in units of its limit."""
    state, baseline = fresh(), made_trials.baseline(2e5, RATES)
    own = Reference(level_variance, variance, age, baseline["information"][0, 1:].tolist())
    for number, contrasts in enumerate(moves):
        seen = bucket(number, contrasts, level_variance=level_variance, variance=variance, age=age)
        scores = shape.step(PLAN, state, seen, baseline, np.full((1, 8), SPREAD), np.ones((1, 7), bool))
        assert scores[0] == pytest.approx(own.step(contrasts), rel=1e-4, abs=1e-6)
    assert own.sums


def _fallen(state: State, moves: list[float], on: Callable[[int], bool] = lambda _: True) -> list[float]:
    """Return the score of the fall of the third contrast, bucket by bucket."""
    baseline, told = made_trials.baseline(2e5, RATES), []
    for number, move in enumerate(moves):
        seen = bucket(number, _late(move), level_variance=0.01, variance=0.002, age=1e6)
        watched = np.full((1, 7), on(number))
        told.append(float(shape.step(PLAN, state, seen, baseline, np.full((1, 8), SPREAD), watched)[0, 4]))
    return told


def test_it_is_dated_to_where_its_sum_began() -> None:
    """A fall began with the bucket from which its sum has not been zero since."""
    state = fresh()
    _fallen(state, [-0.8, 0.8, 0.8, 0.0, -0.8, -0.8])
    assert shape.since(state, 0, 4) == pytest.approx(START + 15.0 * 3, abs=1e-3)


def test_what_is_not_watched_scores_nothing() -> None:
    """Where contrasts are not watched the sums stand still, and nothing is told."""
    state = fresh()
    told = _fallen(state, [-0.8, -0.8, -0.8], on=lambda number: number != 1)
    assert told[1] == 0.0
    assert told[2] == pytest.approx(2 * told[0], rel=0.2)


def test_correlated_scores_tell_less() -> None:
    """Scores that follow their last value are learnt to, and then enlarge the variance."""
    state = fresh()
    for number in range(400):
        swing = 0.05 * math.sin(number / 10)
        seen = bucket(number, [swing] * 7, level_variance=0.01, variance=0.002, age=1e6)
        shape.learn(state, seen, np.ones((1, 8), bool))
    assert state["product"][0, 1:] / state["square"][0, 1:] == pytest.approx([0.93] * 7, abs=0.05)
    held = state["product"].copy(), state["square"].copy(), state["last"].copy()
    shape.learn(state, seen, np.zeros((1, 8), bool))
    assert all(
        (state[name] == kept).all() for name, kept in zip(("product", "square", "last"), held, strict=True)
    )
    assert _fallen(state, [-0.4])[0] < 0.5 * _fallen(fresh(), [-0.4])[0]


def test_learning_is_a_mean_of_products() -> None:
    """Products of neighbours over squares, each cut at four errors, fading over three thousand buckets."""
    state, product, square, last = fresh(), 0.2 * 30, 30.0, 0.0
    for number, move in enumerate([0.05, -0.02, 0.4, 0.03, 0.01]):
        seen = bucket(number, [move] * 7, level_variance=0.01, variance=0.002, age=1e6)
        shape.learn(state, seen, np.ones((1, 8), bool))
        scaled = min(max(move / math.sqrt(0.002), -4.0), 4.0)
        product, square, last = (
            product * (1 - 1 / 3000) + scaled * last,
            square * (1 - 1 / 3000) + scaled**2,
            scaled,
        )
    assert (state["product"][0, 3], state["square"][0, 3]) == (pytest.approx(product), pytest.approx(square))


def test_a_restart_forgets_sums_and_peaks() -> None:
    """What was gathered is gone, what was learnt stays."""
    state = fresh()
    _fallen(state, [-0.8, -0.8])
    learnt = state["square"].copy()
    shape.restart(state)
    assert not state["sums"].any()
    assert not state["peak"].any()
    assert (state["square"] == learnt).all()
