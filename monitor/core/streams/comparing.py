"""Two recorded histories of a model, minute by minute -> is the second better, worse, or not shown to differ.

The sides need not have run at the same time. Where they did, minutes of one time are paired, so that what
traffic does to both falls out. Where they did not, minutes are paired in their order, and what traffic may do
in the time between is added to the doubt, as for a release whose old pods are gone.

Cannot see whether both had the same kind of requests: other prompts are a difference, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.detectors.measures import evidence, reference
from monitor.core.economics import verdicts
from monitor.core.streams import releases

if TYPE_CHECKING:
    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors.base import Floats
    from monitor.core.economics.verdicts import ReleaseVerdict
    from monitor.core.streams import State


@dataclass(slots=True)
class Recorded:
    """What one side counted: sums [19] by minute since 1970; `single` where only means are known."""

    minutes: dict[int, Floats] = field(default_factory=dict)
    single: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """The word on two sides, how many minutes of each it rests on, and whether these were the same minutes.

    `verdict` is None where there is too little. `positions` are those that both sides draft.
    """

    verdict: ReleaseVerdict | None
    minutes: int
    positions: int
    same_time: bool


def add(side: Recorded, state: State, counts: Counts, model_name: str) -> None:
    """Add what the streams of `model_name` counted in an interval to the side; an empty name is any model."""
    usual = reference.depth(state.watch["baseline"]["sums"][counts.rows])
    trials = evidence.from_counts(counts, usual)
    minutes = np.floor(counts.at / releases.BLOCK_SECONDS).astype(np.int64)
    for index in np.flatnonzero(trials.drafts > 0.0).tolist():
        identity = state.identities[int(counts.rows[index])]
        if model_name and identity.key.model_name != model_name:
            continue
        held = side.minutes.setdefault(int(minutes[index]), np.zeros(base.NUM_SUMS))
        held += trials.sums[index]
        side.single |= bool(trials.single[index])


def compared(baseline: Recorded, candidate: Recorded) -> Compared:
    """Return the word on `candidate` against `baseline`."""
    same = sorted(baseline.minutes.keys() & candidate.minutes.keys())
    same_time = 2 * len(same) > min(len(baseline.minutes), len(candidate.minutes))
    if same_time:
        before, after = (
            np.array([side.minutes[minute] for minute in same]) for side in (baseline, candidate)
        )
    else:
        before, after = _in_order(baseline, candidate)
    single = baseline.single or candidate.single
    positions = _usual_depth(before, after) if single else _shared(before, after)
    if not positions:
        return Compared(None, len(before), 0, same_time)
    apart = 0.0 if same_time else _traffic_variance(baseline, candidate)
    found = verdicts.of_blocks(before, after, positions, single=single, apart=apart)
    return Compared(found, len(before), positions, same_time)


def _in_order(baseline: Recorded, candidate: Recorded) -> tuple[Floats, Floats]:
    """Return the minutes of both [T, 19], paired in order; the longer side's last ones are left out."""
    count = min(len(baseline.minutes), len(candidate.minutes))
    before, after = (
        np.array([side.minutes[minute] for minute in sorted(side.minutes)[:count]]).reshape(-1, base.NUM_SUMS)
        for side in (baseline, candidate)
    )
    return before, after


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
