"""The interval of the mean acceptance length is that of the drafts one by one, and of as many requests as they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from monitor.core.counts import estimates, windows
from monitor.core.pages.engines.base import Counter, Evidence
from tests import made

NUM_POSITIONS = 8


def test_the_quantile_is_students() -> None:
    """From four degrees of freedom on, where windows have at least as many, it is scipy's within 0.1 %."""
    from scipy import special

    freedom = np.concatenate([np.linspace(4.0, 30.0, 200), np.geomspace(30.0, 1e6, 50)])
    assert estimates.student_quantile(freedom) == pytest.approx(special.stdtrit(freedom, 0.975), rel=1e-3)
    assert estimates.student_quantile(np.array([1e9])) == pytest.approx(special.ndtri(0.975), rel=1e-6)


# Drafts with so many accepted tokens each, interval by interval, of three positions.
DRAFTED = (
    [0] * 12 + [1] * 5 + [2] * 7 + [3] * 16,
    [0] * 3 + [1] * 9 + [2] * 2 + [3] * 6,
    [0] * 22 + [1] * 3 + [2] * 8 + [3] * 1,
)


@dataclass(frozen=True)
class Window:
    """A window of hand-made intervals of 15 s, and of how many requests its drafts are taken for."""

    intervals: tuple[list[int], ...]
    requests: float
    intervals_per_request: float = 1.0
    more: dict[Counter, float] | None = None
    by_position: bool = True
    evidence: Evidence = Evidence.STEPS

    def seen(self) -> estimates.Estimates:
        """The estimates over the window."""
        state = np.zeros(1, windows.dtype(1, NUM_POSITIONS))
        for drafted in self.intervals:
            accepted = [[float(sum(each > j for each in drafted)) for j in range(3)]]
            counted = made.counts(accepted, [float(len(drafted))], more=dict(self.more or {}))
            evidence = np.full(1, int(self.evidence))
            positions = counted.positions if self.by_position else np.zeros(1, np.int64)
            windows.add(state, replace(counted, evidence=evidence, positions=positions), (60.0,))
        return estimates.from_sums(windows.total(state))

    def half(self) -> float:
        """Half of the interval's width, from the drafts one by one."""
        from scipy import stats

        every = [each for drafted in self.intervals for each in drafted]
        drafts, number = len(every), len(self.intervals)
        shifted, ratio = (sum(every) + 2) / (drafts + 4), sum(every) / drafts
        scatter = float(np.var(every)) if self.by_position else shifted * (1 + shifted)
        counting = max(scatter, shifted * (1 - min(shifted, 0.5))) / (drafts + 4)
        prior = counting + (0.3 * shifted) ** 2 / self.requests
        squares = sum((sum(drafted) - ratio * len(drafted)) ** 2 for drafted in self.intervals)
        between = squares / drafts**2 * number / max(number - 1, 1) * self.intervals_per_request
        variance = max((4 * prior + (number - 1) * between) / (3 + number), counting)
        return float(stats.t.ppf(0.975, 3 + number) * variance**0.5)


WINDOWS = {
    "one interval, requests by the drafts": Window(DRAFTED[:1], 1.0),
    "one interval of two requests' drafts": Window((DRAFTED[0] * 4,), 2.5),
    "three intervals": Window(DRAFTED, 94 / 64),
    "requests that the page counts": Window(DRAFTED, 9.0, more={Counter.FIRST_TOKENS: 3.0}),
    "requests that span four intervals": Window(
        DRAFTED, 3.0, 8.0, more={Counter.FIRST_TOKENS: 1.0, Counter.DECODE_SECONDS: 60.0}
    ),
    "requests that span half an interval": Window(
        DRAFTED, 3.0, 1.5, more={Counter.FIRST_TOKENS: 1.0, Counter.DECODE_SECONDS: 7.5}
    ),
    "requests that never end": Window(
        DRAFTED, 3.0, 120.0, more={Counter.FIRST_TOKENS: 1.0, Counter.DECODE_SECONDS: 1e5}
    ),
    "without positions": Window(DRAFTED, 94 / 64, by_position=False),
    "hardly anything accepted": Window(([0] * 300 + [1],), 301 / 64),
    "nearly everything accepted": Window(([3] * 300 + [2],), 301 / 64),
    "lumps of requests that ended": Window(
        DRAFTED, 6.0, more={Counter.FINISHED_REQUESTS: 2.0}, evidence=Evidence.REQUEST_END
    ),
    "lumps, requests not counted": Window(
        DRAFTED, 3.0, more={Counter.DECODE_SECONDS: 60.0}, evidence=Evidence.REQUEST_END
    ),
}


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_the_interval_is_that_of_the_drafts_one_by_one(window: Window) -> None:
    """Counting noise, the spread between requests and between intervals make the interval, as its docstring says."""
    seen, half = window.seen(), window.half()
    every = [each for drafted in window.intervals for each in drafted]
    shifted, ratio = (sum(every) + 2) / (len(every) + 4), sum(every) / len(every)
    assert seen.mal_low[0] == pytest.approx(1 + min(max(shifted - half, 0.0), ratio), rel=4e-4)
    assert seen.mal_high[0] == pytest.approx(1 + max(min(shifted + half, 3.0), ratio), rel=4e-4)
