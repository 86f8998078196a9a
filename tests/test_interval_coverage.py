"""The intervals of the mean acceptance length hold the truth as often as they say, on simulated traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from monitor.core.counts import estimates, windows
from monitor.core.pages.engines.base import Counter
from tests import made

NUM_POSITIONS = 8


@dataclass(frozen=True)
class Traffic:
    """Simulated traffic: so many requests at a time, each with an acceptance of its own."""

    spread: float
    concurrency: int
    drafts_per_interval: int
    drafts_per_request: int


TRAFFIC = {
    "one request at a time": Traffic(0.1, 1, 100, 150),
    "a few": Traffic(0.1, 4, 100, 150),
    "many": Traffic(0.1, 16, 100, 300),
    "very many": Traffic(0.1, 64, 100, 300),
    "requests that last ten minutes": Traffic(0.1, 4, 20, 800),
    "alike": Traffic(0.05, 4, 100, 150),
    "very different": Traffic(0.2, 16, 100, 300),
}
MEAN_ACCEPTANCE = 0.7
NUM_DRAFT_TOKENS = 4
NUM_STREAMS = 300


@pytest.mark.parametrize("traffic", TRAFFIC.values(), ids=TRAFFIC.keys())
def test_intervals_cover(traffic: Traffic) -> None:
    """Over 5 and 20 minutes the 95 % intervals hold the truth in 90 % of streams and more, at most 2.5 times too wide."""
    rng = np.random.default_rng(20261129)
    concentration = MEAN_ACCEPTANCE * (1 - MEAN_ACCEPTANCE) / traffic.spread**2 - 1

    def requests(shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return rng.beta(MEAN_ACCEPTANCE * concentration, (1 - MEAN_ACCEPTANCE) * concentration, shape)

    population = requests((200_000,))
    truth = 1 + sum(float(np.mean(population ** (j + 1))) for j in range(NUM_DRAFT_TOKENS))
    state = np.zeros(NUM_STREAMS, windows.dtype(1, NUM_POSITIONS))
    acceptance = requests((NUM_STREAMS, traffic.concurrency))
    for n in range(1, 81):
        kept = np.full(acceptance.shape, traffic.drafts_per_interval)
        accepted = np.zeros((NUM_STREAMS, NUM_DRAFT_TOKENS))
        for j in range(NUM_DRAFT_TOKENS):
            kept = rng.binomial(kept, acceptance)
            accepted[:, j] = kept.sum(1)
        ended = rng.random(acceptance.shape) < traffic.drafts_per_interval / traffic.drafts_per_request
        acceptance = np.where(ended, requests(acceptance.shape), acceptance)
        drafts = np.full(NUM_STREAMS, float(traffic.drafts_per_interval * traffic.concurrency))
        more = {
            Counter.FIRST_TOKENS: ended.sum(1),
            Counter.DECODE_SECONDS: np.full(NUM_STREAMS, 15.0 * traffic.concurrency),
        }
        windows.add(state, made.counts(accepted, drafts, at=15.0 * n, more=more), (1e6,))
        if n in (20, 80):
            seen = estimates.from_sums(windows.total(state))
            covered = float(np.mean((seen.mal_low <= truth) & (truth <= seen.mal_high)))
            assert covered >= 0.9, n
            needed = 1.96 * float(seen.mal.std())
            assert float(np.mean(seen.mal_high - seen.mal_low)) / 2 < 2.5 * needed, n
