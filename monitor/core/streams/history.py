"""What the store keeps of each stream for its history chart: the counts of each minute or so.

The pipeline keeps running totals; a bucket is the difference of two looks at them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.counts import windows
from monitor.core.pages.engines.base import NUM_COUNTERS, Counter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        self._at = np.nan

    @property
    def at(self) -> float:
        """Unix time of the last call of `take`, NaN before the first."""
        return self._at

    def take(self, state: State, names: Sequence[str], now: float) -> list[HistoryBucket]:
        """Return the buckets since the last call, with the states that were noted; nothing at the first."""
        totals, before = state.sums["total"].copy(), state.recorded
        last = np.zeros_like(totals)
        last[: len(before), : before.shape[1]] = before
        known_before, codes = len(before), state.noted["code"]
        grown, seconds = totals - last, now - self._at
        state.recorded, self._at = totals, now
        if not seconds > 0:
            return []
        return [
            _bucket(state, row, grown[row], now - seconds, seconds, names[codes[row]])
            for row in range(known_before)
        ]


def _bucket(
    state: State, row: int, vector: npt.NDArray[np.float64], now: float, seconds: float, name: str
) -> HistoryBucket:
    sums = state.sums[row]
    values = np.where(sums["known"], vector[windows.COUNTERS], np.nan).tolist()
    positions = int(sums["positions"])
    return HistoryBucket(
        stream=state.identities[row].id,
        at=now,
        seconds=seconds,
        accepted=tuple(vector[windows.POSITIONS][:positions].tolist()),
        **{name: values[counter] for counter, name in COLUMNS.items()},
        baseline_mal=float(state.status["baseline_mal"][row]),
        state=name,
    )


def model_key(model_name: str) -> str:
    """Return under which name the history of all streams of a model is kept."""
    return f"model:{model_name}"


def of_models(state: State, buckets: Sequence[HistoryBucket], names: Sequence[str]) -> list[HistoryBucket]:
    """Return one bucket for each model with several streams: what they did together, the worst state first.

    `buckets` are those of one time; names: the states from worst to best. The baseline is that of the
    streams' mix in this bucket, so that a shift of load between replicas moves it as it moves the MAL.
    """
    models = {identity.id: identity.key.model_name for identity in state.identities}
    groups: dict[str, list[HistoryBucket]] = {}
    for bucket in buckets:
        groups.setdefault(models[bucket.stream], []).append(bucket)
    rank = {name: place for place, name in enumerate(names)}
    return [_together(name, group, rank) for name, group in groups.items() if len(group) > 1]


def _together(model_name: str, group: Sequence[HistoryBucket], rank: Mapping[str, int]) -> HistoryBucket:
    known = [(b.baseline_mal, b.drafts) for b in group if b.drafts > 0 and not math.isnan(b.baseline_mal)]
    drafts = math.fsum(count for _, count in known)
    pairs = zip_longest(*(bucket.accepted for bucket in group), fillvalue=0.0)
    return replace(
        group[0],
        stream=model_key(model_name),
        **{name: _sum([getattr(bucket, name) for bucket in group]) for name in COLUMNS.values()},
        accepted=tuple(math.fsum(values) for values in pairs),
        baseline_mal=math.fsum(mal * count for mal, count in known) / drafts if drafts else math.nan,
        state=min((bucket.state for bucket in group), key=lambda name: rank.get(name, len(rank))),
    )


def _sum(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) if known else math.nan


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
