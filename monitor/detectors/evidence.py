"""Counts of an interval as Bernoulli trials per position, and the buckets they are gathered in.

Position j was tried as often as position j-1 was accepted (position 0: once a draft). Conditional
acceptances are what a change of k leaves comparable, so everything downstream is told in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base
from monitor.engines.base import Counter

if TYPE_CHECKING:
    from monitor.deltas import Counts
    from monitor.detectors.base import Bools, Floats, Ints, State

BUCKET_SECONDS = 8.0
BUCKET_DRAFTS = 64.0
STALE_SECONDS = 3600.0
WHOLE_LENGTH = 0.1
FULLY_DRAFTED = 0.9

DTYPE = np.dtype(
    [
        ("trials", "f8", base.POSITIONS),
        ("successes", "f8", base.POSITIONS),
        ("drafts", "f8"),
        ("accepted", "f8"),
        ("began_at", "f8"),
    ],
)
_INDEX = np.arange(base.POSITIONS)


@dataclass(frozen=True, slots=True)
class Trials:
    """What was tried and accepted in the B intervals that end at `at`.

    trials, successes [B, 8]; drafts, accepted [B]; drafted [B]: how many positions the drafts really had;
    single [B]: only the mean is known, and position 0 stands for every position (geometric lengths).
    """

    at: Floats
    seconds: Floats
    drafts: Floats
    accepted: Floats
    trials: Floats
    successes: Floats
    drafted: Ints
    single: Bools


def from_counts(counts: Counts) -> Trials:
    """Return the trials of each interval; unknown counts are no trials."""
    drafts = np.where(counts.values[:, Counter.DRAFTS] > 0.0, counts.values[:, Counter.DRAFTS], 0.0)
    accepted = counts.values[:, Counter.ACCEPTED_TOKENS]
    accepted = np.where((accepted > 0.0) & (drafts > 0.0), accepted, 0.0)
    single = counts.positions == 0
    drafted = _drafted(counts, drafts)
    by_position = counts.accepted
    width = by_position.shape[1]
    successes = np.zeros((len(drafts), base.POSITIONS))
    trials = np.zeros((len(drafts), base.POSITIONS))
    last = base.POSITIONS - 1
    successes[:, : min(width, last)] = by_position[:, :last]
    trials[:, 0] = drafts
    trials[:, 1 : min(width, last)] = by_position[:, : min(width, last) - 1]
    if width > last:
        successes[:, last] = by_position[:, last:].sum(1)
        trials[:, last] = by_position[:, last - 1 : -1].sum(1)
    known = (_INDEX < drafted[:, None]) & (drafts > 0.0)[:, None]
    trials *= known
    successes *= known
    if single.any():
        trials[single, 0] = drafts[single] + accepted[single]
        successes[single, 0] = accepted[single]
    return Trials(counts.at, counts.seconds, drafts, accepted, trials, successes, drafted, single)


def _drafted(counts: Counts, drafts: Floats) -> Ints:
    """Return how many positions every draft of the interval had, as far as the counts prove it.

    Mean lengths near a whole number are taken for constant lengths (an engine that adapts k). Between
    two whole numbers lengths are mixed, and only positions that nearly all drafts reach are counted.
    """
    tokens = counts.values[:, Counter.DRAFT_TOKENS]
    longest = np.maximum(counts.positions, 1)
    mean = np.where((tokens > 0.0) & (drafts > 0.0), tokens / np.maximum(drafts, 1.0), longest)
    whole = np.rint(mean)
    reached = np.floor((mean - FULLY_DRAFTED * longest) / (1.0 - FULLY_DRAFTED)) + 1.0
    drafted = np.where(np.abs(mean - whole) <= WHOLE_LENGTH, whole, reached)
    return np.clip(drafted, 1, longest).astype(np.int64)


def gather(bucket: State, trials: Trials) -> Bools:
    """Add the intervals to their buckets and return which of these are full.

    A full bucket has at least 64 drafts and spans at least 8 s; an interval without drafts adds nothing,
    and an unfinished bucket of an hour ago is thrown away.
    """
    began = np.where(np.isnan(trials.seconds), trials.at, trials.at - trials.seconds)
    fresh = (bucket["drafts"] <= 0.0) | (trials.at - bucket["began_at"] > STALE_SECONDS)
    has = trials.drafts > 0.0
    start = fresh & has
    keep = np.where(start, 0.0, 1.0)
    bucket["began_at"] = np.where(start, began, bucket["began_at"])
    bucket["trials"] = bucket["trials"] * keep[:, None] + trials.trials
    bucket["successes"] = bucket["successes"] * keep[:, None] + trials.successes
    bucket["drafts"] = bucket["drafts"] * keep + trials.drafts
    bucket["accepted"] = bucket["accepted"] * keep + trials.accepted
    full = (bucket["drafts"] >= BUCKET_DRAFTS) & (trials.at - bucket["began_at"] >= BUCKET_SECONDS)
    closed: Bools = has & full
    return closed


def empty(bucket: State, closed: Bools) -> None:
    """Start the buckets of the `closed` rows anew."""
    bucket["drafts"] = np.where(closed, 0.0, bucket["drafts"])
