"""The advice: the best k on a known cost model, kept where nothing else is worth changing to."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.economics import advice
from monitor.core.economics.advice import StepModel

H100 = StepModel(base_seconds=0.012, per_request_seconds=0.0001, draft_seconds=0.0012, verify_seconds=0.00006)


def test_the_mean_acceptance_length_of_another_depth() -> None:
    """α 0.8 at k 4 gives 3.3616 tokens a step; the deepest measured conditional stands for deeper positions."""
    assert advice.mal_of([0.8] * 4, 4) == pytest.approx(3.3616)
    assert advice.mal_of([0.8], 4) == pytest.approx(3.3616)
    assert advice.mal_of([0.5, 0.4], 1) == pytest.approx(1.5)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_k_is_within_two_percent_of_the_true_best(seed: int) -> None:
    """On engines with a known cost and acceptance, whatever is advised is at most 2 % slower than the best k."""
    rng = np.random.default_rng(seed)
    for _ in range(40):
        model = StepModel(
            *(
                rng.uniform(low, high)
                for low, high in ((5e-3, 4e-2), (1e-5, 4e-4), (2e-4, 4e-3), (1e-6, 2e-4))
            )
        )
        conditional = np.sort(rng.uniform(0.2, 0.95, 12))[::-1].tolist()
        batch_size, current = float(rng.integers(1, 200)), int(rng.integers(0, 8))
        found = advice.of(conditional, conditional, model, batch_size, current)
        speed = [option.tokens_per_second for option in found.options]
        assert speed[found.best] >= max(speed) / (1.0 + advice.WORTH_CHANGING) - 1e-12


def test_a_k_that_is_nearly_best_is_kept() -> None:
    """Where the best k is less than 2 % faster than the one that is set, the answer is to keep it."""
    found = advice.of([0.75] * 6, [0.75] * 6, H100, 8.0, 4)
    speed = {option.num_speculative_tokens: option.tokens_per_second for option in found.options}
    assert max(speed.values()) / speed[4] < 1.0 + advice.WORTH_CHANGING
    assert found.best == 4


def test_large_batches_stop_paying() -> None:
    """Verifying costs every request of a batch: from some size on plain steps are faster, and the schedule says 0."""
    model = StepModel(0.012, 0.0001, 0.0012, verify_seconds=0.0002)
    found = advice.of([0.55, 0.5, 0.5], [0.55, 0.27, 0.13], model, 4.0, 3)
    assert found.stops_paying_at is not None
    assert dict(found.schedule)[found.stops_paying_at] == 0
    assert found.options[found.best].speedup > 1.0


def test_a_schedule_is_told_in_runs() -> None:
    """Engines take ranges of batch sizes: each run ends before the next begins."""
    assert advice.steps_of([(1, 4), (2, 4), (4, 2), (8, 0), (16, 0)]) == ((1, 3, 4), (4, 7, 2), (8, 16, 0))


def test_a_dead_tail_is_named() -> None:
    """At k 4 the last position is reached by one draft in a hundred: the tail is dead from there on."""
    found = advice.of([0.6, 0.3, 0.2, 0.3], [0.6, 0.18, 0.036, 0.0108], H100, 8.0, 4)
    assert found.dead_tail_from == 3


def test_nothing_measured_is_an_error() -> None:
    """Without any position's acceptance there is nothing to say, and it is said."""
    with pytest.raises(ValueError, match="no position's acceptance is measured"):
        advice.of([float("nan")], [], H100, 8.0, 4)
