"""Two histories of a model, minute by minute -> is the second better, worse, or not shown to differ.

The sides need not have run at the same time. Where they did, minutes of one time are paired, so that what
traffic does to both falls out. Where they did not, the minutes nearest to each other are paired in their
order, and what traffic may do in the time between is added to the doubt, as for a release whose old pods are
gone.

Acceptance is compared over the positions that both sides draft, speed in tokens per second and request, of
the same time only: it moves with the load. Sides with another draft length are judged by their speed where
it is known, all others by acceptance. No difference is said when a loss of the `margin` is excluded; before
that it is not enough.

Cannot see whether both had the same kind of requests: other prompts are a difference, too; nor whether one
side's machines are faster by more than `SPEED_SD`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from monitor.core.counts import windows
from monitor.core.counts.deltas import Counts
from monitor.core.detectors import base
from monitor.core.detectors.measures import evidence, reference
from monitor.core.economics import verdicts
from monitor.core.economics.verdicts import Blocks, Replica
from monitor.core.pages.engines.base import Counter, Evidence
from monitor.core.streams import history, releases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.core.detectors.base import Floats
    from monitor.core.economics.verdicts import Difference, ReleaseVerdict
    from monitor.core.streams import State
    from monitor.core.streams.history import HistoryBucket

GateWord = Literal["better", "worse", "no_difference", "not_enough"]
Measure = Literal["acceptance", "tokens_per_second"]

USUAL_MARGIN = 0.1
"""Share of the baseline's MAL, or speed, whose loss must be excluded before no difference is said."""

SPEED_SD = 0.02
"""How far apart, as a logarithm, the speeds of two machines of one kind are for good."""

SPEED_BLOCK_SD = 0.1
"""How much a minute's speed is assumed to scatter, as a logarithm, before the minutes themselves tell."""

ANOTHER_LENGTH = 0.5
"""Draft tokens by which mean draft lengths differ where the sides have another k."""


@dataclass(slots=True)
class Recorded:
    """What one side counted: sums [19] by minute since 1970; `single` where only means are known.

    `decoding` [2] has the tokens that were delivered and the seconds that this took, summed over requests, by
    minute; `replicas` the sums [19] of each stream.
    """

    minutes: dict[int, Floats] = field(default_factory=dict)
    decoding: dict[int, Floats] = field(default_factory=dict)
    replicas: dict[str, Floats] = field(default_factory=dict)
    single: bool = False


@dataclass(frozen=True, slots=True)
class SpeedVerdict:
    """The candidate's tokens per second and request ÷ the baseline's, with its always-valid interval."""

    word: GateWord
    ratio: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Compared:
    """The word on two sides, how many minutes of each it rests on, and whether these were the same minutes.

    `by` is what the word is of. `verdict` and `speed` are None where there is too little, `speed` also where
    the sides did not run at the same time or do not tell it. `positions` are those that both sides draft.
    """

    word: GateWord
    by: Measure
    verdict: ReleaseVerdict | None
    speed: SpeedVerdict | None
    minutes: int
    positions: int
    same_time: bool


def add(side: Recorded, state: State, counts: Counts, model_name: str) -> None:
    """Add what the streams of `model_name` counted in an interval to the side; an empty name is any model."""
    names = [state.identities[row].key.model_name for row in counts.rows.tolist()]
    wanted = np.array([model_name in ("", name) for name in names], bool)
    ids = [state.identities[row].id for row in counts.rows.tolist()]
    usual = reference.depth(state.watch["baseline"]["sums"][counts.rows])
    _add(side, counts, usual, ids, wanted)


def add_history(side: Recorded, state: State, row: int, buckets: Sequence[HistoryBucket]) -> None:
    """Add what history has of a stream to the side; its row says how its engine counts."""
    if not buckets:
        return
    sums, count = history.as_sums(buckets), len(buckets)
    values = np.where(sums.known, sums.vectors[:, windows.COUNTERS], np.nan)
    counts_as = Evidence.REQUEST_END if state.sums["at_request_end"][row] else Evidence.STEPS
    never = np.zeros(count, bool)
    counts = Counts(
        rows=np.full(count, row, np.intp),
        at=np.array([bucket.at for bucket in buckets]),
        seconds=np.array([bucket.seconds for bucket in buckets]),
        values=values,
        accepted=sums.vectors[:, windows.POSITIONS],
        positions=sums.positions,
        num_speculative_tokens=np.full(count, state.identities[row].num_speculative_tokens),
        evidence=np.full(count, counts_as),
        restarted=never,
        gap=never,
        new_regime=never,
    )
    usual = reference.depth(state.watch["baseline"]["sums"][counts.rows])
    _add(side, counts, usual, [state.identities[row].id] * count, ~never)


def _add(side: Recorded, counts: Counts, usual: Floats, ids: Sequence[str], wanted: base.Bools) -> None:
    trials = evidence.from_counts(counts, usual)
    minutes = np.floor(counts.at / releases.BLOCK_SECONDS).astype(np.int64)
    decoding = _decoding(counts.values)
    for index in np.flatnonzero(wanted & (trials.drafts > 0.0)).tolist():
        minute, sums = int(minutes[index]), trials.sums[index]
        side.minutes.setdefault(minute, np.zeros(base.NUM_SUMS))[:] += sums
        side.replicas.setdefault(ids[index], np.zeros(base.NUM_SUMS))[:] += sums
        side.single |= bool(trials.single[index])
        if np.isfinite(decoding[index]).all():
            side.decoding.setdefault(minute, np.zeros(2))[:] += decoding[index]


def _decoding(values: Floats) -> Floats:
    """Return tokens that were delivered after the first, and the seconds this took, of intervals [B, 2]."""
    delivered = values[:, Counter.GENERATION_TOKENS] - values[:, Counter.FIRST_TOKENS]
    modelled = values[:, Counter.DECODE_OUTPUTS] + values[:, Counter.ACCEPTED_TOKENS]
    tokens = np.where(np.isnan(delivered), modelled, delivered)
    return np.stack((tokens, values[:, Counter.DECODE_SECONDS]), 1)


def compared(baseline: Recorded, candidate: Recorded, margin: float = USUAL_MARGIN) -> Compared:
    """Return the word on `candidate` against `baseline`."""
    same = sorted(baseline.minutes.keys() & candidate.minutes.keys())
    same_time = 2 * len(same) > min(len(baseline.minutes), len(candidate.minutes))
    before, after = _stacked(baseline, same), _stacked(candidate, same)
    if not same_time:
        before, after = _nearest(baseline, candidate)
    single = baseline.single or candidate.single
    positions = _usual_depth(before, after) if single else _shared(before, after)
    if not positions:
        return Compared("not_enough", "acceptance", None, None, len(before), 0, same_time)
    rate = verdicts.rates(before.sum(0))
    apart = _apart((baseline, candidate), rate, positions)
    apart += 0.0 if same_time else _traffic_variance(baseline, candidate)
    found = verdicts.of_blocks(before, after, positions, single=single, apart=apart)
    speed = _speed(baseline, candidate, margin) if same_time else None
    lengths = [sums[:, base.TOKENS].sum() / sums[:, base.DRAFTS].sum() for sums in (before, after)]
    by_speed = speed is not None and abs(lengths[1] - lengths[0]) > ANOTHER_LENGTH
    usual = verdicts.promised(rate, 0.0, positions, single=single)
    word = speed.word if speed is not None and by_speed else _word(found, margin * usual)
    measure: Measure = "tokens_per_second" if by_speed else "acceptance"
    return Compared(word, measure, found, speed, len(before), positions, same_time)


def _word(found: ReleaseVerdict | None, least: float) -> GateWord:
    """Return the word on acceptance; a loss of `least` (tokens per draft) must be excluded for none."""
    if found is None:
        return "not_enough"
    if found.outcome == "no_difference" and found.low < -least:
        return "not_enough"
    return found.outcome


def _speed(baseline: Recorded, candidate: Recorded, margin: float) -> SpeedVerdict | None:
    """Return the word on tokens per second and request, None where the minutes say too little of it."""
    evidence_so_far = Blocks()
    for minute in sorted(baseline.decoding.keys() & candidate.decoding.keys()):
        sides = baseline.decoding[minute], candidate.decoding[minute]
        if all(side.min() > 0.0 for side in sides):
            slower, faster = (math.log(side[0] / side[1]) for side in sides)
            evidence_so_far = verdicts.taken(evidence_so_far, faster - slower, SPEED_BLOCK_SD**2)
    machines = SPEED_SD**2 * _inverse_sizes(baseline, candidate)
    found = verdicts.difference(evidence_so_far, machines)
    return None if found is None else _said_of_speed(found, margin)


def _said_of_speed(found: Difference, margin: float) -> SpeedVerdict:
    ratio, low, high = (math.exp(each) for each in (found.logits, found.low, found.high))
    word: GateWord = "no_difference" if low >= 1.0 - margin else "not_enough"
    if low > 1.0 or high < 1.0:
        word = "better" if ratio > 1.0 else "worse"
    return SpeedVerdict(word, ratio, low, high, found.confidence)


def _apart(sides: Sequence[Recorded], rate: Floats, shared: int) -> float:
    """Return the variance, logits², of what the replicas of the sides differ by for good."""
    replicas = [each for side in sides for each in _replicas(side, rate, shared)]
    return verdicts.between_replicas(replicas) * _inverse_sizes(*sides)


def _inverse_sizes(baseline: Recorded, candidate: Recorded) -> float:
    return sum(1.0 / max(len(side.replicas), 1) for side in (baseline, candidate))


def _replicas(side: Recorded, rate: Floats, shared: int) -> list[Replica]:
    """Return how far each replica is from its side; none where there is one only."""
    if len(side.replicas) < 2:  # noqa: PLR2004 - one replica is its side
        return []
    level, variance = verdicts.levels(np.array(list(side.replicas.values())), rate, shared)
    weight = 1.0 / variance
    if not weight.any():
        return []
    far = level - (level * weight).sum() / weight.sum()
    return [Replica(*each) for each in zip(weight.tolist(), (weight * far).tolist(), strict=True)]


def _stacked(side: Recorded, minutes: Sequence[int]) -> Floats:
    return np.array([side.minutes[minute] for minute in minutes]).reshape(-1, base.NUM_SUMS)


def _nearest(baseline: Recorded, candidate: Recorded) -> tuple[Floats, Floats]:
    """Return as many minutes of both [T, 19] in order, nearest to each other where one side ran first."""
    count = min(len(baseline.minutes), len(candidate.minutes))
    first, second = sorted(baseline.minutes), sorted(candidate.minutes)
    if count and first[-1] < second[0]:
        first = first[len(first) - count :]
    elif count and second[-1] < first[0]:
        second = second[len(second) - count :]
    return _stacked(baseline, first[:count]), _stacked(candidate, second[:count])


def _shared(before: Floats, after: Floats) -> int:
    """Return how many positions from the first on both sides drafted."""
    tried = [sums[:, base.TRIALS].sum(0) > 0.0 for sums in (before, after)]
    return int(np.logical_and.accumulate(tried[0] & tried[1]).sum())


def _usual_depth(before: Floats, after: Floats) -> int:
    """Return how many tokens the shorter drafts of the two sides have; 0 where nothing was drafted."""
    lengths = [sums[:, base.TOKENS].sum() / max(sums[:, base.DRAFTS].sum(), 1e-9) for sums in (before, after)]
    return round(max(min(lengths), 1.0)) if len(before) and min(lengths) > 0.0 else 0


def _traffic_variance(baseline: Recorded, candidate: Recorded) -> float:
    """Return the variance, logits², that traffic may add between sides that ran one after the other."""
    if not baseline.minutes or not candidate.minutes:
        return 0.0
    first, second = sorted((min(side.minutes), max(side.minutes)) for side in (baseline, candidate))
    return releases.WANDER_SD**2 + releases.gap_variance((second[0] - first[1]) * releases.BLOCK_SECONDS)
