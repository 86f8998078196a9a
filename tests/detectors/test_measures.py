"""The measures under the detectors: trials, scores and noise, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.detectors import base
from monitor.core.detectors.measures import evidence, noise, reference, scores
from monitor.core.detectors.troubles import diagnosis
from tests.detectors import simulated

NO_LENGTH = np.full(1, np.nan)


def test_position_j_was_tried_as_often_as_the_one_before_was_accepted() -> None:
    """Trials are drafts for position 0 and the accepted tokens of the position before for the others."""
    accepted = np.array([[700.0, 500.0, 300.0]])
    trials = evidence.from_counts(simulated.counts(0.0, 15.0, np.array([1000.0]), accepted), NO_LENGTH)
    assert trials.sums[0, base.TRIALS].tolist() == [1000, 700, 500, 0, 0, 0, 0, 0]
    assert trials.sums[0, base.SUCCESSES].tolist() == [700, 500, 300, 0, 0, 0, 0, 0]


def test_positions_from_the_eighth_on_are_pooled() -> None:
    """The eighth column holds all positions from the eighth on, so the width of the page does not matter."""
    accepted = np.array([[900, 800, 700, 600, 500, 400, 300, 200, 100, 50]], float)
    trials = evidence.from_counts(simulated.counts(0.0, 15.0, np.array([1000.0]), accepted), NO_LENGTH)
    assert trials.sums[0, 7] == 300 + 200 + 100
    assert trials.sums[0, base.POSITIONS + 7] == 200 + 100 + 50


@pytest.mark.parametrize(
    ("tokens", "kept", "drafted"),
    [
        (4.0, (900, 800, 700, 600), 4),
        (3.97, (900, 800, 700, 600), 4),
        (2.0, (900, 800, 0, 0), 2),
        (2.01, (900, 800, 4, 2), 2),
        (3.0, (900, 800, 700, 0), 3),
        (2.0, (90, 60, 30, 15), 1),
        (1.96, (900, 700, 500, 300), 1),
        (3.0, (900, 800, 700, 200), 1),
        (3.9, (900, 800, 700, 550), 2),
        (3.5, (900, 800, 700, 600), 1),
        (2.0, (20, 2, 0, 0), 2),
        (2.4, (20, 2, 0, 0), 1),
        (np.nan, (900, 800, 700, 600), 4),
    ],
    ids=[
        "full",
        "nearly full",
        "adapted to 2",
        "adapted to 2, a few stray",
        "adapted to 3",
        "1 to 4, 2 on the mean",
        "1 to 4, nearly 2 on the mean",
        "1 to 4, 3 on the mean",
        "a tenth ends early",
        "mixed lengths",
        "dead at 2",
        "dead and mixed",
        "unknown",
    ],
)
def test_only_what_was_drafted_is_judged(tokens: float, kept: tuple[int, ...], drafted: int) -> None:
    """Positions count that the mean length and what was accepted past it prove nearly every draft to have had."""
    accepted = np.array([kept], float)
    counts = simulated.counts(
        0.0, 15.0, np.array([1000.0]), accepted, draft_tokens=np.array([tokens * 1000.0])
    )
    trials = evidence.from_counts(counts, NO_LENGTH)
    assert trials.drafted[0] == drafted
    judged = [1000, *kept[: drafted - 1]]
    assert trials.sums[0, base.TRIALS].tolist()[: len(judged)] == judged
    assert trials.sums[0, base.TRIALS].sum() == sum(judged)


def test_drafts_that_end_early_as_often_as_ever_are_judged() -> None:
    """A tenth of the drafts without their last token leaves all positions judged where that is usual."""
    counts = simulated.counts(
        0.0,
        15.0,
        np.array([1000.0]),
        np.array([[900.0, 800.0, 700.0, 550.0]]),
        draft_tokens=np.array([3900.0]),
    )
    assert evidence.from_counts(counts, np.array([3.91])).drafted[0] == 4
    assert evidence.from_counts(counts, np.array([4.0])).drafted[0] == 2


def test_a_score_is_the_shift_in_logit() -> None:
    """Counts that follow a shifted rate exactly score that shift, whatever the position's rate."""
    rate = np.array([[0.8, 0.7, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5]])
    moved = simulated.shifted(rate.copy(), -0.4)
    sums = np.zeros((1, base.NUM_SUMS))
    tried = 1e6 * np.cumprod(np.concatenate([[1.0], moved[0, :-1]]))
    sums[0, base.TRIALS], sums[0, base.SUCCESSES] = tried, tried * moved[0]
    found = scores.against(sums, rate, np.ones((1, 8), bool))
    assert found.shift[0, 0] == pytest.approx(-0.4, abs=0.02)
    assert np.abs(found.shift[0, 1:]).max() < 0.03


def test_contrasts_see_what_levels_cannot() -> None:
    """A fall from position 3 on shows in contrast 3 in full, in the level only in part."""
    rate = np.full((1, 8), 0.7)
    moved = simulated.shifted(rate.copy(), -0.5, slice(3, None))
    sums = np.zeros((1, base.NUM_SUMS))
    tried = 1e6 * np.cumprod(np.concatenate([[1.0], moved[0, :-1]]))
    sums[0, base.TRIALS], sums[0, base.SUCCESSES] = tried, tried * moved[0]
    found = scores.against(sums, rate, np.ones((1, 8), bool))
    assert found.shift[0, 3] == pytest.approx(-0.5, abs=0.02)
    assert -0.25 < found.shift[0, 0] < -0.05


def test_noise_is_learnt_from_the_stream() -> None:
    """Scores that vary five times more than counting would make them teach a spread of five."""
    state = np.zeros(1, noise.DTYPE)
    noise.allocate(state)
    rng = np.random.default_rng(3)
    information = np.full((1, 8), 500.0)
    for _ in range(2000):
        error = np.sqrt(5.0 / information + noise.FLOORS)
        noise.learn(state, rng.normal(size=(1, 8)) * error, information, np.ones((1, 8), bool))
    assert state["spread"][0] == pytest.approx(np.full(8, 5.0), rel=0.2)


def test_promised_tokens_agree_with_the_sum_of_products() -> None:
    """Expected accepted tokens are the sum of products of conditional rates, also past the eighth position."""
    rate = np.full((1, 8), 0.8)
    found = reference.expected_accepted(rate, np.array([12.0]), np.zeros(1, bool))
    assert found[0] == pytest.approx(sum(0.8**j for j in range(1, 13)))


def test_the_interval_of_a_level_counts_requests_not_tokens() -> None:
    """With 40 times the variance of counting, the interval of a MAL is √40 times as wide."""
    sums = np.zeros(base.NUM_SUMS)
    sums[0], sums[base.POSITIONS], sums[base.DRAFTS], sums[base.ACCEPTED] = 1000.0, 800.0, 1000.0, 800.0
    state = np.zeros(1, [("noise", noise.DTYPE)])
    widths = []
    for spread in (1.0, 40.0):
        state["noise"]["spread"] = spread
        level = diagnosis.measured(state, sums, 0)
        widths.append(level.mal_high - level.mal)
    assert widths[0] == pytest.approx(1.96 * np.sqrt(0.8 * 0.2 / 1000.0), rel=0.02)
    assert widths[1] / widths[0] == pytest.approx(np.sqrt(40.0))
