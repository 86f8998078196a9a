"""Two sides' counts over time -> is the second better, worse, or is no difference shown, and by how much.

Each block of time gives one difference d of the sides' levels, in logits of the positions that both draft.
With weights w = 1 ÷ variance as assumed beforehand, d* = Σ w d ÷ Σ w has the variance

    1/V = u (1 + r)/(1 - r) ÷ Σ w + offset,

u being how much more the blocks scatter than was assumed and r how alike neighbours are, both learnt from the
blocks (merged two by two when they become many, so that r sees hours in the end), and `offset` what no amount
of time averages out: replicas differ for good, and what is not measured at the same time has another traffic.
The difference is tested by a mixture over its size δ ~ N(0, 1/ρ),

    E = √(ρ ÷ (V + ρ)) exp(d*² V² ÷ 2 (V + ρ)),   a word is said when E > 1/0.05,

which is a martingale while nothing differs: it may be looked at after every block, for ever (Robbins,
Statistical methods related to the law of the iterated logarithm, 1970). The interval is made of the same.

Cannot see who is right: traffic that is routed to one side only is a difference of that side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from monitor.core.detectors import base
from monitor.core.detectors.measures import reference, scores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.core.detectors.base import Floats

VerdictOutcome = Literal["better", "worse", "no_difference"]

ALPHA = 0.04  # of a word that is wrong, ever: a little under the 5 % that is promised
PRIOR_SD = 0.2  # logits: how large differences between releases usually are
PRIOR_BLOCKS = 2.0  # how many blocks the assumed variance is worth
PRIOR_SPREAD = 40.0  # of a score, as in `noise`
BLOCK_FLOOR = 0.002  # variance of one replica's block that no amount of drafts averages out
MOST_BLOCKS = 64
FEWEST_MERGED = 6
PRIOR_ALIKE, PRIOR_ALIKE_OF_FEW, PRIOR_ALIKE_BLOCKS, MOST_ALIKE = 0.7, 0.8, 8.0, 0.9
FEW_REQUESTS = 0.1  # assumed variance of a block that few requests make: these may be long ones
REPLICA_SD = 0.035  # logits: how far apart replicas of one release are for good
PRIOR_REPLICAS = 3.0
OFFSET_FREEDOM = 30.0  # how sure that is, in degrees of freedom
LEAST_INFORMATION = 4.0
FARTHEST = 20.0  # logits: an interval without an end is as wide as rates can differ
LEAST_BLOCKS = 10


@dataclass(frozen=True, slots=True)
class ReleaseVerdict:
    """What the second side does to acceptance, and how sure that is (0 to 1).

    `difference` is in MAL (tokens per draft) over the `positions` that both sides draft, with its interval,
    valid whenever it is looked at; NaN where only levels were compared.
    """

    outcome: VerdictOutcome
    confidence: float
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    positions: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of levels in logits with its always-valid interval; `confidence` is that it is not 0."""

    logits: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Replica:
    """How far one replica is from its side: Σ weight, Σ weight × logits."""

    weight: float = 0.0
    pull: float = 0.0


@dataclass(frozen=True, slots=True)
class Blocks:
    """What was seen of two sides so far; begins empty and grows by `taken`.

    blocks: (Σ weight, Σ weight × logits) of each, oldest first, `span` blocks of time merged in one; the last
    may be unfinished (`unfinished` blocks of time are in it).
    """

    blocks: tuple[tuple[float, float], ...] = ()
    span: int = 1
    unfinished: int = 0
    seen: int = 0


def taken(evidence: Blocks, logits: float, variance: float) -> Blocks:
    """Return the evidence with one more block, in which the sides differed by `logits`."""
    weight = 1.0 / variance
    blocks = list(evidence.blocks)
    if 0 < evidence.unfinished < evidence.span:
        blocks[-1] = (blocks[-1][0] + weight, blocks[-1][1] + weight * logits)
        unfinished = evidence.unfinished + 1
    else:
        blocks.append((weight, weight * logits))
        unfinished = 1
    span = evidence.span
    if len(blocks) > MOST_BLOCKS and unfinished == span:
        pairs = zip(blocks[::2], [*blocks[1::2], (0.0, 0.0)], strict=False)
        unfinished += span * (1 - len(blocks) % 2)
        blocks = [(one[0] + two[0], one[1] + two[1]) for one, two in pairs]
        span *= 2
    return replace(evidence, blocks=tuple(blocks), span=span, unfinished=unfinished, seen=evidence.seen + 1)


def difference(
    evidence: Blocks, offset: float = 0.0, alpha: float = ALPHA, prior_sd: float = PRIOR_SD
) -> Difference | None:
    """Return how far apart the sides are; None before `LEAST_BLOCKS`.

    `offset` is a variance, logits²; `alpha` the chance that the interval ever misses the truth; `prior_sd`
    how large differences usually are.
    """
    if evidence.seen < LEAST_BLOCKS:
        return None
    weights, pulls = np.array(evidence.blocks).T
    total = float(weights.sum())
    mean = float(pulls.sum()) / total
    unit, freedom = _scatter(weights, pulls, mean)
    noise = unit / total
    variance = noise + offset
    freedom = variance * variance / (noise * noise / freedom + offset * offset / OFFSET_FREEDOM)
    ratio = prior_sd * prior_sd / variance  # the prior's variance in units of the estimate's
    nats = _nats(mean * mean / variance, ratio, freedom)
    half = math.sqrt(variance * _square_at(math.log(1.0 / alpha), ratio, freedom))
    return Difference(mean, mean - half, mean + half, 1.0 - math.exp(-max(nats, 0.0)))


def _nats(square: float, ratio: float, freedom: float) -> float:
    """Return the logarithm of the mixture's E at t² = `square`."""
    far, near = math.log1p(square / freedom), math.log1p(square / (freedom * (1.0 + ratio)))
    return 0.5 * ((freedom + 1.0) * (far - near) - math.log1p(ratio))


def _square_at(nats: float, ratio: float, freedom: float) -> float:
    """Return the t² at which the mixture's E has the logarithm `nats`; infinite where it never gets there."""
    share = math.exp((2.0 * nats + math.log1p(ratio)) / (freedom + 1.0))
    rest = 1.0 - share / (1.0 + ratio)
    return freedom * (share - 1.0) / rest if rest > 0.0 else math.inf


def _scatter(weights: Floats, pulls: Floats, mean: float) -> tuple[float, float]:
    """Return how much more than assumed the blocks vary in the long run, and how many of them tell that.

    Long requests make neighbours alike over many blocks: of blocks merged by two, four, … the scale is taken
    that shows most. What is usual of merged blocks is that they vary as single ones do and are less alike.
    """
    few = min(max(len(weights) / float(weights.sum()) / FEW_REQUESTS - 0.5, 0.0), 1.0)
    usual = PRIOR_ALIKE + (PRIOR_ALIKE_OF_FEW - PRIOR_ALIKE) * few
    unit, *found = _at_scale((weights, pulls), mean, 1.0, usual)
    most = (found[0], found[1])
    while len(weights) >= 2 * FEWEST_MERGED:
        even = len(weights) % 2
        weights, pulls = (each[even:].reshape(-1, 2).sum(1) for each in (weights, pulls))
        usual *= usual
        _, *found = _at_scale((weights, pulls), mean, unit, usual)
        most = max(most, (found[0], found[1]))
    return most


def _at_scale(
    blocks: tuple[Floats, Floats], mean: float, assumed: float, usual: float
) -> tuple[float, float, float]:
    """Return the unit that blocks scatter by, that of their sum, and how many blocks tell that.

    `assumed` is the unit and `usual` the likeness of neighbours that a few blocks' worth of doubt begin with.
    """
    weights, pulls = blocks
    residuals = (pulls - weights * mean) / np.sqrt(weights)
    squares, count = float(residuals @ residuals), len(weights)
    unit = (PRIOR_BLOCKS * assumed + squares) / (PRIOR_BLOCKS + count - 1.0)
    doubt = PRIOR_ALIKE_BLOCKS * unit
    alike = (float(residuals[1:] @ residuals[:-1]) + usual * doubt) / (squares + doubt)
    # what few blocks show of their likeness is too little (Kendall, 1954)
    alike = min(max(alike + (1.0 + 4.0 * alike) / (count + PRIOR_ALIKE_BLOCKS), 0.0), MOST_ALIKE)
    longer = (1.0 + alike) / (1.0 - alike)
    return unit, unit * longer, PRIOR_BLOCKS + max(count / longer - 1.0, 0.0)


def levels(sums: Floats, rate: Floats, shared: int) -> tuple[Floats, Floats]:
    """Return level and assumed variance [N], in logits, of sums [N, 18] over the first `shared` positions.

    rate [8]: the conditional acceptances that levels are told from. The variance is infinite where there is
    too little to tell a level.
    """
    known = np.broadcast_to(np.arange(base.POSITIONS) < shared, (len(sums), base.POSITIONS))
    found = scores.against(sums, np.broadcast_to(rate, known.shape), known)
    information = found.information[:, 0]
    enough = information >= LEAST_INFORMATION
    variance = np.where(enough, PRIOR_SPREAD / np.maximum(information, 1e-9) + BLOCK_FLOOR, np.inf)
    return found.shift[:, 0], variance


def rates(sums: Floats) -> Floats:
    """Return conditional acceptances [8] of sums [18], kept away from 0 and 1."""
    found: Floats = base.clip(
        (sums[base.SUCCESSES] + 0.5) / (sums[base.TRIALS] + 1.0), reference.LOWEST, reference.HIGHEST
    )
    return found


def between_replicas(replicas: Sequence[Replica]) -> float:
    """Return the variance, logits², of replicas that have one release: what they show and what is usual."""
    far = [each.pull / each.weight for each in replicas if each.weight > 0.0]
    own = [1.0 / each.weight for each in replicas if each.weight > 0.0]
    squares = sum(max(one * one - error, 0.0) for one, error in zip(far, own, strict=True))
    return (PRIOR_REPLICAS * REPLICA_SD**2 + squares) / (PRIOR_REPLICAS + max(len(far) - 1, 0))


def judged(difference: Difference, rate: Floats, shared: int, *, single: bool) -> ReleaseVerdict:
    """Return the word on a difference from a side that has the conditional acceptances `rate` [8].

    `single`: only means are known, position 0 stands for all.
    """
    before = promised(rate, 0.0, shared, single=single)
    at, low, high = (
        promised(rate, logits, shared, single=single) - before
        for logits in (difference.logits, difference.low, difference.high)
    )
    outcome: VerdictOutcome = "no_difference"
    if difference.low > 0.0 or difference.high < 0.0:
        outcome = "better" if difference.logits > 0.0 else "worse"
    return ReleaseVerdict(outcome, difference.confidence, at, low, high, 0 if single else shared)


def promised(rate: Floats, logits: float, shared: int, *, single: bool) -> float:
    """Return the MAL of conditional acceptances [8] that all moved by `logits`."""
    odds = rate / (1.0 - rate) * math.exp(min(max(logits, -FARTHEST), FARTHEST))
    moved = base.clip(odds / (1.0 + odds), reference.LOWEST, reference.HIGHEST)
    accepted = reference.expected_accepted(moved[None], np.array([float(shared)]), np.array([single]))
    return 1.0 + float(accepted[0])


def level(sums: Floats, difference: Difference) -> base.Level:
    """Return what sums [18] show, with an interval that is one side's part of that of a difference."""
    drafts = float(sums[base.DRAFTS])
    if drafts <= 0.0:
        return base.UNKNOWN_LEVEL
    tried = sums[base.TRIALS] > 0.0
    rate = rates(sums)
    shared = max(int(tried.sum()), 1)
    slope = (promised(rate, 0.01, shared, single=False) - promised(rate, -0.01, shared, single=False)) / 0.02
    mal, half = (
        1.0 + float(sums[base.ACCEPTED]) / drafts,
        slope * (difference.high - difference.low) / 2.0 / math.sqrt(2.0),
    )
    return base.Level(mal, max(mal - half, 1.0), mal + half, tuple(rate[tried].tolist()), drafts)


def of_blocks(
    before: Floats, after: Floats, shared: int, *, single: bool = False, apart: float
) -> ReleaseVerdict | None:
    """Return the verdict on two sides that ran at the same time, None where there is too little.

    before, after [T, 18]: what each side counted in the same T blocks of time (columns as in
    `detectors.base`). This is the whole comparison at once. The sides are `apart` by what replicas differ by
    for good and, where they did not run at the same time, by what traffic did meanwhile: a variance in
    logits² that no number of blocks averages out.
    """
    rate = rates(before.sum(0))
    old, old_variance = levels(before, rate, shared)
    new, new_variance = levels(after, rate, shared)
    evidence = Blocks()
    for d, variance in zip((new - old).tolist(), (old_variance + new_variance).tolist(), strict=True):
        evidence = taken(evidence, d, variance) if math.isfinite(variance) else evidence
    found = difference(evidence, apart)
    return None if found is None else judged(found, rate, shared, single=single)
