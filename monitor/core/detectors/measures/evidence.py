"""Counts of an interval as Bernoulli trials per position, and the buckets they are gathered in.

Position j was tried as often as position j-1 was accepted (position 0: once a draft). Conditional
acceptances are what a change of k leaves comparable, so everything downstream is told in them.

No engine says which positions its drafts had. Where lengths vary (adaptive depth, p-min, suffix drafting), a
position that fewer drafts had looks like one that was accepted less, so only positions that nearly all drafts
must have had are judged (`_drafted`): with the mean length m and the longest length L, at least the share
(m - j) / (L - j) of the drafts had position j. L is the last position at which more than a stray token was
accepted: a mean of 2 is that of drafts of 2, or of 1 to 4, and position 2 tells which. A few drafts that end
early (structured output) do not matter as long as they are as many as ever.

What the counts are worth depends on how the engine counts. Drafts that are counted at each step are a sample
of all requests at hand. Drafts credited when a request ends come in lumps, and thousands of one request are
its text said again and again: an interval is worth no more than the requests that ended in it (`worth`). In
buckets, lumps up to the stream's usual size count in full: how these scatter is learnt from the stream itself
(`gather`). A gauge's mean is worth the few drafts that `implied` gave it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.counts import estimates
from monitor.core.detectors import base
from monitor.core.pages.engines.base import Counter, Evidence

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors.base import Bools, Floats, State

BUCKET_SECONDS = 8.0
"""Seconds that a bucket spans at least: shorter ones would hold the same requests, and say nothing new."""

BUCKET_DRAFTS = 64.0
"""Drafts that a bucket has at least: about one request's."""

STALE_SECONDS = 3600.0
"""Seconds after which an unfinished bucket is thrown away: what it holds is of another traffic."""

FULLY_DRAFTED, FULLY_DRAFTED_AS_EVER = 0.97, 0.9
"""Share of the drafts that must have had a position for it to be judged: 3 % of failures that were none move
a conditional acceptance of 0.8 by 0.14 logits, less than any fall told; a tenth where it always was so."""

ALIKE = 0.03
"""Draft tokens by which a mean length may differ from the usual one: 3 % of the drafts, one token shorter."""

A_STEP = 0.02
"""Draft tokens by which a mean length may miss a whole number and be one: a request's last draft is cut."""

STRAY, ENOUGH_TRIED = 0.01, 50.0
"""Share of its trials that is accepted at a position by stray tokens alone, and the trials that show it."""

LUMP_MEMORY = 16.0
"""Lumps (e-folding) over which the usual size of a lump is learnt."""

LARGEST_LUMP = 4.0
"""Times the usual size that one lump counts for in learning it: one giant is no habit."""

ENDLESS = 1e6
"""The length of drafts of which nobody tells how long they are: longer than any."""

_ODDS = -9.0, 9.0, 721
"""Logits between which rates are tabled, and how many: to a fortieth of a logit."""

DTYPE = np.dtype(
    [
        ("sums", "f8", base.NUM_SUMS),  # of the bucket under way, columns as in `base`
        ("began_at", "f8"),  # of the bucket, unix seconds
        ("usual_lump", "f8"),  # usual size of a lump, drafts; 0: unknown
    ]
)
_INDEX = np.arange(base.POSITIONS)


@dataclass(frozen=True, slots=True)
class Trials:
    """What was tried and accepted in the B intervals from `began_at` to `at`.

    sums [B, 19]: columns as in `base`; drafts, accepted [B], in drafts of what the counts are worth;
    proposed [B]: the drafts that were counted, NaN where they were not; lump [B]: credited at the end of
    requests; drafted [B]: how many positions nearly all drafts had; depth [B]: how many they had on the mean;
    single [B]: only the mean is known, and position 0 stands for every one of the `drafted` (`ENDLESS` where
    nobody tells k).
    """

    at: Floats
    began_at: Floats
    drafts: Floats
    accepted: Floats
    proposed: Floats
    lump: Bools
    sums: Floats
    drafted: Floats
    depth: Floats
    single: Bools


def from_counts(counts: Counts, usual: Floats) -> Trials:
    """Return the trials of each interval; where drafts or what became of them are unknown, there are none.

    usual [B]: the mean length of the stream's drafts so far, NaN where unknown.
    """
    proposed = counts.values[:, Counter.DRAFTS]
    accepted = counts.values[:, Counter.ACCEPTED_TOKENS]
    counted = np.where((proposed > 0.0) & ~np.isnan(accepted), proposed, 0.0)
    lump = counts.evidence == Evidence.REQUEST_END
    drafts = worth(counts, counted, lump)
    weight = drafts / np.maximum(counted, 1e-9)
    accepted = np.where(counted > 0.0, accepted, 0.0) * weight
    single = counts.positions == 0
    depth = _depth(counts, counted)
    drafted = positions_drafted(counts.accepted, counted, depth, counts.positions, usual)
    tried = drafts + accepted
    if single.any():
        drafted = np.where(single, _length(counts, counted), drafted)
        tried = np.where(single, drafts * _alike(accepted / np.maximum(drafts, 1e-9), drafted), tried)
    sums = np.zeros((len(drafts), base.NUM_SUMS))
    _put_positions(sums, counts.accepted * weight[:, None])
    sums[:, 0] = drafts
    known = drafted[:, None] > _INDEX
    sums[:, base.TRIALS] *= known
    sums[:, base.SUCCESSES] *= known
    if single.any():
        sums[:, 0] = np.where(single, tried, sums[:, 0])
        sums[:, base.POSITIONS] += accepted * single
    # what is a little too much on a torn page is no rate above 1
    sums[:, base.SUCCESSES] = np.minimum(sums[:, base.SUCCESSES], sums[:, base.TRIALS])
    sums[:, base.DRAFTS] = drafts
    sums[:, base.ACCEPTED] = accepted
    sums[:, base.TOKENS] = drafts * depth
    began = counts.at - np.fmax(counts.seconds, 0.0)
    return Trials(counts.at, began, drafts, accepted, proposed, lump, sums, drafted, depth, single)


def worth(counts: Counts, drafts: Floats, lump: Bools) -> Floats:
    """Return as how many drafts [B] the `drafts` of each interval count.

    Credited at the end of requests, they count for no more than the requests that ended. Where the page does
    not say how many these were, it was at least one, at most one per `DRAFTS_PER_REQUEST`, and the geometric
    mean of both is taken: a lump ten times as large is not ten times the evidence.
    """
    if not lump.any():
        return drafts
    finished = counts.values[:, Counter.FINISHED_REQUESTS]
    likely = np.sqrt(drafts / estimates.DRAFTS_PER_REQUEST)
    requests = np.maximum(np.where(np.isnan(finished), likely, finished), 1.0)
    result: Floats = np.where(lump, np.minimum(drafts, estimates.DRAFTS_PER_REQUEST * requests), drafts)
    return result


def _put_positions(sums: Floats, accepted: Floats) -> None:
    """Write accepted tokens per position [B, P] as successes there and as trials of the next position."""
    last = base.POSITIONS - 1
    width = min(accepted.shape[1], last)
    sums[:, 1 : max(width, 1)] = accepted[:, : max(width - 1, 0)]
    sums[:, base.POSITIONS : base.POSITIONS + width] = accepted[:, :width]
    if accepted.shape[1] > last:
        sums[:, last] = accepted[:, last - 1 : -1].sum(1)
        sums[:, base.POSITIONS + last] = accepted[:, last:].sum(1)


def _depth(counts: Counts, drafts: Floats) -> Floats:
    """Return the mean length of the drafts of the interval; the page's positions where it is not counted."""
    longest = np.maximum(counts.positions, 1).astype(np.float64)
    tokens = counts.values[:, Counter.DRAFT_TOKENS]
    mean = np.where((tokens > 0.0) & (drafts > 0.0), tokens / np.maximum(drafts, 1.0), longest)
    return base.clip(mean, 1.0, longest)


def positions_drafted(
    accepted: Floats, drafts: Floats, depth: Floats, positions: npt.NDArray[np.int64], usual: Floats
) -> Floats:
    """Return how many positions [B] nearly all drafts had, as far as the counts prove it.

    Of B sums: accepted tokens by position [B, P], drafts, the mean length of these, how many positions the
    page has, and the mean length that is usual (NaN where unknown).
    """
    most = np.maximum(positions, 1).astype(np.float64)
    if (depth >= most - A_STEP).all():
        return most
    longest = _longest(accepted, drafts, depth, most)
    share = np.where(np.abs(depth - usual) <= ALIKE, FULLY_DRAFTED_AS_EVER, FULLY_DRAFTED)
    # (m - j) / (L - j) ≥ share, solved for the number of positions
    reached = np.floor((depth + A_STEP - share * longest) / (1.0 - share)) + 1.0
    return base.clip(np.where(depth >= longest - A_STEP, longest, reached), 1.0, longest)


def _longest(accepted: Floats, drafts: Floats, depth: Floats, positions: Floats) -> Floats:
    """Return how many positions the longest drafts had: as many as `depth` [B] needs, or as were accepted."""
    tried = np.concatenate([drafts[:, None], accepted[:, :-1]], 1)
    exact = np.abs(depth - np.rint(depth)) <= A_STEP
    stray = (accepted <= STRAY * tried) & ((tried >= ENOUGH_TRIED) | exact[:, None])
    past = np.logical_or.accumulate(stray, 1)
    place = np.arange(1, accepted.shape[1] + 1)
    longest = np.maximum((place * ~past).max(1), np.ceil(depth - A_STEP))
    result: Floats = np.minimum(longest, positions)
    return result


def _length(counts: Counts, drafts: Floats) -> Floats:
    """Return k [B] as the page tells it, or as its draft tokens do; `ENDLESS` where neither does."""
    tokens = counts.values[:, Counter.DRAFT_TOKENS]
    told = (tokens > 0.0) & (drafts > 0.0)
    mean = np.where(told, np.ceil(np.where(told, tokens, 0.0) / np.maximum(drafts, 1.0) - A_STEP), ENDLESS)
    stated = counts.num_speculative_tokens.astype(np.float64)
    length = np.where(stated > 0.0, np.minimum(stated, mean), mean)
    return np.maximum(length, 1.0)


def _alike(accepted: Floats, drafted: Floats) -> Floats:
    """Return how many positions a draft tried [B], were all `drafted` accepted alike and `accepted` in all.

    A draft tries one position more than it has accepted, but for those of which all was accepted: in a
    short draft that are many, and as many trials as tokens would hide half of a fall.
    """
    tried = 1.0 + accepted
    for length in np.unique(drafted).tolist():
        if length < ENDLESS:
            of = drafted == length
            kept, trials = _of_length(int(length))
            tried[of] = np.interp(accepted[of], kept, trials)
    return tried


@cache
def _of_length(length: int) -> tuple[Floats, Floats]:
    """Return the accepted tokens and the trials of a draft of so many positions, by rates that rise."""
    rate = 1.0 / (1.0 + np.exp(-np.linspace(*_ODDS)))
    trials = np.power(rate[:, None], np.arange(length)).sum(1)
    return rate * trials, trials


def gather(bucket: State, trials: Trials) -> Bools:
    """Add the intervals to their buckets and return which of these are full.

    A full bucket has at least 64 drafts and spans at least 8 s; an interval without drafts adds nothing,
    and an unfinished bucket of an hour ago is thrown away.
    """
    sums, began = bucket["sums"], bucket["began_at"]
    has = trials.drafts > 0.0
    start = has & ((sums[:, base.DRAFTS] <= 0.0) | (trials.at - began > STALE_SECONDS))
    began = np.where(start, trials.began_at, began)
    sums *= ~start[:, None]
    sums += trials.sums if not trials.lump.any() else trials.sums * _against_usual(bucket, trials)[:, None]
    bucket["began_at"] = began
    full: Bools = has & (sums[:, base.DRAFTS] >= BUCKET_DRAFTS) & (trials.at - began >= BUCKET_SECONDS)
    return full


def _against_usual(bucket: State, trials: Trials) -> Floats:
    """Return by how much more [B] the drafts count where lumps of their size are usual, and learn what is.

    How such lumps scatter is learnt from the stream: up to the usual size they count in full, and a larger
    one as a usual one or for its worth, whichever is more.
    """
    lump = trials.lump & (trials.drafts > 0.0)
    usual = np.where(bucket["usual_lump"] > 0.0, bucket["usual_lump"], trials.drafts)
    size = np.where(lump, trials.proposed, 0.0)
    change = (np.minimum(size, LARGEST_LUMP * usual) - usual) / LUMP_MEMORY
    bucket["usual_lump"] = np.where(lump, usual + change, bucket["usual_lump"])
    counted = np.maximum(np.minimum(size, usual), trials.drafts)
    return np.where(lump, counted / np.maximum(trials.drafts, 1e-9), 1.0)


def empty(bucket: State, full: Bools) -> None:
    """Start the `full` buckets anew."""
    bucket["sums"] *= ~full[:, None]
