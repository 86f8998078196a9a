"""Engines whose counters follow from the time alone, so that two monitors that look at them see the same."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from tests import made

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

TICK_SECONDS = 0.05
DRAFTS_A_TICK, POSITIONS = 800, 3
GOOD, COLLAPSED, DEAD = 0.8, 0.3, 0.0  # conditional acceptance
LONGEST_SECONDS = 1800.0
STORIES = ("steady", "steady", "falls", "steady", "recovers")


class Fleet:
    """`count` engines named e0, e1, …; of five one has acceptance `bad` in the end, one recovers from it.

    Nothing is counted before `begin`; they fall at `fall`, some are well again from `rise` on.
    """

    def __init__(self, count: int, bad: float, seed: int) -> None:
        self.names = [f"e{number}" for number in range(count)]
        self.story = {name: STORIES[number % len(STORIES)] for number, name in enumerate(self.names)}
        self._started = time.time() - 1000.0
        self._begun = self._falls = self._rises = math.inf
        rng = np.random.default_rng(seed)
        self._good = {name: _totals(rng, GOOD) for name in self.names}
        self._bad = {name: _totals(rng, bad) for name in self.names}

    def begin(self) -> None:
        """Let counting begin now."""
        self._begun = time.time()

    def fall(self) -> None:
        """Let acceptance fall now where it does."""
        self._falls = time.time()

    def rise(self) -> None:
        """Let it come back now where it does."""
        self._rises = time.time()

    def page(self, name: str, seconds_ago: float = 0.0) -> bytes:
        """Return an engine's page, that of now or an earlier one."""
        now = time.time() - seconds_ago
        falls = math.inf if self.story[name] == "steady" else self._falls
        rises = math.inf if self.story[name] == "falls" else self._rises
        good = self._ticks(min(now, falls)) + self._ticks(now) - self._ticks(min(now, rises))
        bad = self._ticks(min(now, rises)) - self._ticks(min(now, falls))
        drafts, *accepted = (self._good[name][good] + self._bad[name][max(bad, 0)]).tolist()
        more = {"generation_tokens_total": drafts + sum(accepted)}
        return made.page(
            accepted, drafts=drafts, more=more, model_name=f"model-{name}", started_at=self._started
        )

    def _ticks(self, at: float) -> int:
        return int(max(at - self._begun, 0.0) / TICK_SECONDS)


def _totals(rng: np.random.Generator, acceptance: float) -> Floats:
    """Return the counters after 0, 1, … ticks [ticks, 1 + POSITIONS]: drafts, then accepted by position."""
    kept = rng.poisson(DRAFTS_A_TICK, int(LONGEST_SECONDS / TICK_SECONDS))
    columns = [kept]
    for _ in range(POSITIONS):
        kept = rng.binomial(kept, acceptance)
        columns.append(kept)
    return np.vstack([np.zeros(len(columns)), np.cumsum(np.stack(columns, axis=1), axis=0)])
