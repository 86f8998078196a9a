"""The step time fits: the plain step time is told where the history tells it, and only there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from monitor.core.economics import fits
from tests.economics import made

BASE, PER_REQUEST, DRAFT, VERIFY = 0.012, 0.0004, 0.0011, 0.00005


def seconds(batch_size: float, drafted: float) -> float:
    """The step time of the made engine."""
    return BASE + PER_REQUEST * batch_size + (DRAFT + VERIFY * batch_size) * drafted


def history(*intervals: tuple[float, float], noise: float = 0.01, seed: int = 1) -> np.ndarray:
    """The state after intervals of (batch size, draft tokens a step), each with relative noise."""
    rng = np.random.default_rng(seed)
    state = np.zeros(1, fits.DTYPE)
    for batch_size, drafted in intervals:
        took = seconds(batch_size, drafted) * float(rng.normal(1.0, noise))
        fits.add(state, made.interval(took, batch_size, drafted), np.array([math.nan]))
    return state


def test_steps_without_drafts_measure_the_plain_step_time() -> None:
    """Forty intervals with speculation off give the plain step at any batch size, within two errors."""
    state = history(*[(4.0 + n % 12, 0.0) for n in range(40)])
    told = fits.undrafted(state, np.array([8.0]))
    assert abs(told.seconds[0] - seconds(8.0, 0.0)) < 2.0 * told.error[0]
    assert told.error[0] < 0.05 * told.seconds[0]


def test_a_constant_depth_tells_no_plain_step_time() -> None:
    """Where every step had four draft tokens, what a step without them takes cannot be known."""
    state = history(*[(4.0 + n % 12, 4.0) for n in range(400)])
    assert math.isnan(fits.plain(state, np.array([8.0])).seconds[0])
    assert fits.at(state, np.array([8.0]), np.array([4.0])).seconds[0] == pytest.approx(
        seconds(8.0, 4.0), rel=0.02
    )


def test_a_depth_that_varies_tells_it_with_its_error() -> None:
    """Depths of 1 to 5 at batches of 4 to 15 extrapolate to a step without drafts, and the error covers it."""
    misses = 0
    for seed in range(20):
        state = history(*[(4.0 + n % 12, 1.0 + n % 5) for n in range(200)], seed=seed)
        told = fits.plain(state, np.array([8.0]))
        misses += abs(told.seconds[0] - seconds(8.0, 0.0)) > 1.96 * told.error[0]
    assert misses <= 2


def test_the_batch_effect_is_the_ratio_of_two_step_times() -> None:
    """From 4 to 12 requests the made engine's step grows by what its own slope says."""
    state = history(*[(4.0 + n % 12, 4.0) for n in range(200)])
    effect = fits.batch_effect(state, np.array([4.0]), np.array([12.0]), np.array([4.0]))
    assert effect[0] == pytest.approx(math.log(seconds(12.0, 4.0) / seconds(4.0, 4.0)), abs=0.02)


def test_a_page_without_step_times_leaves_no_trace() -> None:
    """Intervals whose step time is unknown change nothing, and nothing is told."""
    state = np.zeros(1, fits.DTYPE)
    fits.add(state, made.interval(math.nan, 8.0, 4.0), np.array([math.nan]))
    assert not state["drafted"].any()
    assert math.isnan(fits.plain(state, np.array([8.0])).seconds[0])
