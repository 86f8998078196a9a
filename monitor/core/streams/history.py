"""What the store keeps of each stream for its history chart: the counts of each minute or so.

The pipeline keeps running totals; a bucket is the difference of two looks at them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.counts import windows
from monitor.core.pages.engines.base import NUM_COUNTERS, Counter

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from monitor.core.streams import State


COLUMNS = {
    Counter.DRAFTS: "drafts",
    Counter.DRAFT_TOKENS: "draft_tokens",
    Counter.ACCEPTED_TOKENS: "accepted_tokens",
    Counter.DECODE_OUTPUTS: "decode_outputs",
    Counter.DECODE_SECONDS: "decode_seconds",
    Counter.GENERATION_TOKENS: "generation_tokens",
    Counter.FIRST_TOKENS: "first_tokens",
}


@dataclass(frozen=True, slots=True)
class HistoryBucket:
    """What happened to one stream from `at` (unix seconds) for `seconds`. NaN where unknown."""

    stream: str
    at: float
    seconds: float
    drafts: float
    draft_tokens: float
    accepted_tokens: float
    accepted: tuple[float, ...]
    decode_outputs: float
    decode_seconds: float
    generation_tokens: float
    first_tokens: float
    baseline_mal: float
    state: str


class Recorder:
    """Turns the running totals into buckets: one per stream and call of `take`."""

    def __init__(self) -> None:
        self._totals: npt.NDArray[np.float64] = np.zeros((0, 0))
        self._at = np.nan

    def keep(self, rows: npt.NDArray[np.intp]) -> None:
        """Go on with these rows of the state, which forgets the others."""
        self._totals = self._totals[rows[rows < len(self._totals)]]

    def take(
        self, state: State, codes: npt.NDArray[np.int64], names: Sequence[str], now: float
    ) -> list[HistoryBucket]:
        """Return the buckets since the last call; nothing at the first."""
        totals = state.sums["total"].copy()
        last = np.zeros_like(totals)
        last[: len(self._totals), : self._totals.shape[1]] = self._totals
        known_before = len(self._totals)
        grown, seconds = totals - last, now - self._at
        self._totals, self._at = totals, now
        if not seconds > 0:
            return []
        return [
            _bucket(state, row, grown[row], now - seconds, seconds, names[codes[row]])
            for row in range(known_before)
        ]


def _bucket(
    state: State, row: int, vector: npt.NDArray[np.float64], at: float, seconds: float, name: str
) -> HistoryBucket:
    sums = state.sums[row]
    values = np.where(sums["known"], vector[windows.COUNTERS], np.nan).tolist()
    positions = int(sums["positions"])
    return HistoryBucket(
        stream=state.identities[row].id,
        at=at,
        seconds=seconds,
        accepted=tuple(vector[windows.POSITIONS][:positions].tolist()),
        **{name: values[counter] for counter, name in COLUMNS.items()},
        baseline_mal=float(state.status["baseline_mal"][row]),
        state=name,
    )


def as_sums(buckets: Sequence[HistoryBucket]) -> windows.Sums:
    """Return buckets as sums, one row each, for `estimates.from_sums`."""
    num_positions = max((len(bucket.accepted) for bucket in buckets), default=0)
    vectors = np.zeros((len(buckets), windows.POSITIONS.start + max(num_positions, 1)))
    known = np.zeros((len(buckets), NUM_COUNTERS), bool)
    for row, bucket in enumerate(buckets):
        vectors[row, windows.SECONDS] = bucket.seconds
        vectors[row, windows.INTERVALS] = 1.0
        for counter, name in COLUMNS.items():
            value = getattr(bucket, name)
            known[row, counter] = not math.isnan(value)
            vectors[row, windows.COUNTERS.start + counter] = value if known[row, counter] else 0.0
        vectors[row, windows.POSITIONS.start :][: len(bucket.accepted)] = bucket.accepted
    positions = np.array([len(bucket.accepted) for bucket in buckets], np.int64)
    return windows.Sums(vectors, known, positions, positions, np.zeros(len(buckets), bool))
