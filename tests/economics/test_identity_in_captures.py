"""The shares of a change of TPOT add up exactly between any two windows of any recorded run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import pipeline
from monitor.core.counts import estimates, windows
from monitor.core.economics import accounting, fits
from tests import captures

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("run", captures.RUNS)
def test_shares_sum_to_the_change_in_every_window(run: str) -> None:
    """After each page, the last interval and each window against everything before: rest has no remainder."""
    folder: Path = captures.THINNED if not captures.WHOLE.is_dir() else captures.WHOLE
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    told = 0
    for scrape in captures.scrapes(folder, run):
        pipeline.step(plan, state, [scrape])
        if not len(state.identities):
            continue
        rows = len(state.identities)
        total = estimates.from_sums(windows.total(state.sums))
        at = np.full(rows, scrape.at)
        for window, length in enumerate(plan.windows):
            now = estimates.from_sums(windows.over(state.sums, window, length, at))
            effect = fits.batch_effect(state.step_times, total.batch_size, now.batch_size, np.ones(rows))
            shares = accounting.between(total, now, effect)
            known = np.isfinite(shares.total)
            told += int(known.sum())
            parts = sum(getattr(shares, name) for name in accounting.NAMES)
            assert np.allclose(parts[known], shares.total[known], atol=1e-9)
            ratio = now.implied_tpot_seconds[known] / total.implied_tpot_seconds[known]
            assert np.allclose(np.exp(shares.total[known]), ratio, rtol=1e-9)
    assert told > 0
