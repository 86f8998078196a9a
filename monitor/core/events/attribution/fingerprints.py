"""What kind of traffic a window held, from what engines export (never prompts), and how far two are apart.

The figures are mean prompt and generation length of finished requests and the share of prompt tokens found in
the prefix cache. Each distance stands beside what chance alone would
show for so many requests, so a quiet minute moves nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.core.counts import windows
from monitor.core.pages.engines.base import Counter

if TYPE_CHECKING:
    from monitor.core.counts.windows import Sums

LENGTH_SPREAD = 1.0
"""Standard deviation of a length ÷ its mean, between requests of one kind: 0.8 to 1.3 in public traces."""

SPREADS_OF_CHANCE = 2.5
"""A mean that moved by fewer standard errors has not moved."""

LEAST_MOVE = 0.2
"""Logarithm of the smallest ratio that is told: a fifth."""

FAR_MOVE = 1.1
"""Logarithm of the ratio from which lengths are another world: three times as long."""

CACHE_MOVE = 0.1
"""Change of the prefix cache's hit ratio that is told; from minute to minute it swings by a twentieth."""


@dataclass(frozen=True, slots=True)
class Move:
    """How a figure moved: both values, the logarithm of their ratio and its standard error."""

    name: str
    unit: str
    first: float
    second: float
    log_ratio: float
    error: float

    @property
    def value(self) -> str:
        """Return "unknown", "same", or which way it moved: rose or fell, far where it is another world."""
        if not math.isfinite(self.log_ratio) or not math.isfinite(self.error):
            return "unknown"
        if abs(self.log_ratio) < max(LEAST_MOVE, SPREADS_OF_CHANCE * self.error):
            return "same"
        direction = "rose" if self.log_ratio > 0 else "fell"
        return f"far_{direction}" if abs(self.log_ratio) >= FAR_MOVE else direction

    def __str__(self) -> str:
        return f"{self.name} went from {_rounded(self.first)} to {_rounded(self.second)} {self.unit}".rstrip()


def _rounded(value: float) -> str:
    """Return a length with three digits: 6,690, not 6.69e+03."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 1000.0 else f"{value:.3g}"  # noqa: PLR2004


def between(before: Sums, after: Sums) -> tuple[Move, ...]:
    """Return how the lengths of requests moved between two windows (one row each)."""
    finished = _counter(before, Counter.FINISHED_REQUESTS), _counter(after, Counter.FINISHED_REQUESTS)
    enough = min(finished) >= 1.0
    error = math.sqrt(sum(2.0 * LENGTH_SPREAD**2 / number for number in finished)) if enough else math.inf
    lengths = (
        ("mean prompt length", "tokens", Counter.PROMPT_TOKENS),
        ("mean generation length", "tokens", Counter.OUTPUT_TOKENS),
    )
    return tuple(
        _move(name, unit, _mean(before, tokens), _mean(after, tokens), error)
        for name, unit, tokens in lengths
    )


def _move(name: str, unit: str, first: float, second: float, error: float) -> Move:
    ratio = math.log(second / first) if first > 0.0 and second > 0.0 else math.nan
    return Move(name, unit, first, second, ratio, error)


def _mean(sums: Sums, tokens: Counter) -> float:
    """Return the mean length of a finished request."""
    return _per(sums, tokens, Counter.FINISHED_REQUESTS)


def cache_hits(sums: Sums) -> float:
    """Return the share of prompt tokens that the prefix cache held, NaN where unknown."""
    return _per(sums, Counter.CACHE_HITS, Counter.CACHE_QUERIES)


def _counter(sums: Sums, counter: Counter) -> float:
    return float(sums.vectors[0, windows.COUNTERS][counter]) if sums.known[0, counter] else 0.0


def _per(sums: Sums, numerator: Counter, denominator: Counter) -> float:
    known = sums.known[0, numerator] and sums.known[0, denominator]
    below = _counter(sums, denominator)
    return _counter(sums, numerator) / below if known and below > 0 else math.nan
