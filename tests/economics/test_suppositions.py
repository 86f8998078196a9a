"""Suppositions: the lesson's numbers, where speculation stops paying, quantised weights, a draft's memory."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from monitor.core.economics import suppositions
from monitor.core.economics.advice import StepModel
from monitor.core.economics.suppositions import CacheMemory, Supposition

FREE = StepModel(0.01449, 0.0, 0.0)
LESSON = Supposition((0.8,), 4, 1.0, FREE)
REAL = Supposition((0.8, 0.7, 0.6, 0.5), 4, 8.0, StepModel(0.012, 0.00005, 0.0007, 0.00005))


def test_the_lesson_before_the_draft_costs_anything() -> None:
    """With α 0.8 and k 4 a step of 14.49 ms gives 3.3616 tokens: 4.31 ms a token; free drafts always pay."""
    found = suppositions.outcome(LESSON)
    assert found.mal == pytest.approx(3.3616)
    assert found.tpot_seconds == pytest.approx(0.00431, abs=5e-6)
    assert found.speedup == pytest.approx(3.3616)
    assert found.pays_below == math.inf


@pytest.mark.parametrize(
    "supposed", [REAL, replace(REAL, num_speculative_tokens=2), replace(REAL, conditional=(0.55,))]
)
def test_it_stops_paying_where_both_are_equally_fast(supposed: Supposition) -> None:
    """At the batch size that is named, drafting and plain steps give the same; on each side one is faster."""
    at = suppositions.outcome(supposed).pays_below
    assert 1.0 < at < 1e4
    speedup = [
        suppositions.outcome(replace(supposed, batch_size=at * part)).speedup for part in (0.9, 1.0, 1.1)
    ]
    assert speedup[0] > 1.0 > speedup[2]
    assert speedup[1] == pytest.approx(1.0)


def test_a_draft_that_is_never_accepted_never_pays() -> None:
    """Steps with drafts that are all rejected are slower at every batch size."""
    found = suppositions.outcome(replace(REAL, conditional=(0.0,)))
    assert (found.pays_below, found.mal, found.best) == (0.0, 1.0, 0)
    assert all(speedup < 1.0 for _, speedup in found.by_batch)


def test_quantised_weights_multiply_only_where_drafting_is_free() -> None:
    """Half the step and a free draft: twice the speed-up; where drafting costs, less than twice."""
    free = suppositions.outcome(replace(LESSON, weights_ratio=0.5))
    assert free.speedup_of_both == pytest.approx(2.0 * 3.3616)
    real, half = suppositions.outcome(REAL), suppositions.outcome(replace(REAL, weights_ratio=0.5))
    assert half.speedup < real.speedup
    assert real.speedup < half.speedup_of_both < 2.0 * real.speedup


def test_memory_of_the_draft_is_missing_from_the_cache() -> None:
    """40 GiB at 2 GiB a request hold 20; a draft of 5 GiB leaves 17; one as large as the cache leaves none."""
    found = suppositions.outcome(replace(REAL, memory=CacheMemory(40.0, 2.0, 5.0))).full
    assert found is not None
    assert (found.requests, found.plain_requests) == (17, 20)
    assert found.tokens_per_second == pytest.approx(
        17 * suppositions.outcome(replace(REAL, batch_size=17.0)).tokens_per_second / 17
    )
    assert found.plain_tokens_per_second == pytest.approx(20 / REAL.steps.plain(20))
    nothing = suppositions.outcome(replace(REAL, memory=CacheMemory(1.0, 2.0, 5.0))).full
    assert nothing is not None
    assert (nothing.requests, nothing.tokens_per_second, nothing.plain_tokens_per_second) == (0, 0.0, 0.0)
