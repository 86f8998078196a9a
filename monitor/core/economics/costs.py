"""What a slower token costs: tokens not delivered, GPU time and money.

Every figure compares the time that the same tokens took with what they took before. `slowdown` is that
ratio, after ÷ before, so of each second spent decoding a share of 1 − 1/slowdown is extra. It is a statement
on work, not on the load balancer: replicas that idle half of the day lose half as much. Where a page does not
tell how much of the time it decodes, it is taken to decode throughout: GPU time and money are upper bounds.

The slowdown is that of the time per output token, as long as both sides were measured at about the same batch
size. A larger batch makes a token slower and cheaper at once, so where the batch size moved by more than
`SAME_BATCH`, only the tokens per step are compared: steps that deliver less, whatever they take.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from monitor.core.counts.estimates import Estimates

    Floats = npt.NDArray[np.float64]

HOURS_PER_DAY = 24.0
SECONDS_PER_HOUR = 3600.0
MILLION = 1e6
SAME_BATCH = 1.25
"""Batch sizes that differ by no more than this factor are compared by step time too: steps at 8 and at 10
requests take the same within a few percent on every accelerator, at 8 and at 16 they need not."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What one replica occupies and costs: GPUs, and the price of one of them for an hour (NaN: not told)."""

    gpus_per_replica: float = 1.0
    gpu_hour_cost: float = math.nan


@dataclass(frozen=True, slots=True)
class Usual:
    """What N streams did before a change, [N] each, NaN where unknown; times in seconds."""

    mal: Floats
    coverage: Floats
    tokens_per_step: Floats
    step_seconds: Floats
    batch_size: Floats


@dataclass(frozen=True, slots=True)
class Loss:
    """What a change costs at present; NaN where unknown, negative where it is a gain.

    tokens_per_second: not delivered that the same GPU time delivered before; gpu_seconds_per_million_tokens:
    extra; gpu_hours_per_day and money_per_day: at the present load.
    """

    tokens_per_second: float
    gpu_seconds_per_million_tokens: float
    gpu_hours_per_day: float
    money_per_day: float


@dataclass(frozen=True, slots=True)
class Spent:
    """What a change has cost so far, as `Loss` says: tokens not delivered, GPU-hours, money."""

    tokens: float
    gpu_hours: float
    money: float


UNKNOWN = Loss(math.nan, math.nan, math.nan, math.nan)
NOT_KNOWN_SO_FAR = Spent(math.nan, math.nan, math.nan)


def slowdown(before: Usual, after: Estimates) -> Floats:
    """Return how many times as long the same tokens take after as before [N]; NaN where it is not known.

    Where the tokens per step of one side are not known, the mean acceptance lengths stand for them.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        tokens = before.tokens_per_step / after.tokens_per_step
        tokens = np.where(np.isfinite(tokens), tokens, before.mal / after.mal)
        steps = after.step_seconds / before.step_seconds
        apart = np.abs(np.log(after.batch_size / before.batch_size))
        steps = np.where(np.isfinite(steps) & ~(apart > math.log(SAME_BATCH)), steps, 1.0)
        ratio = tokens * steps
    return np.where(np.isfinite(ratio) & (ratio > 0.0), ratio, np.nan)


def at_present(slower: float, tokens_per_second: float, busy_share: float, prices: Prices) -> Loss:
    """Return what a change costs now.

    slower: as `slowdown` says; tokens_per_second: what the replica delivers at present; busy_share: share of
    the time in which it decodes (0..1), NaN where the page does not tell.
    """
    if not (math.isfinite(slower) and slower > 0.0 and tokens_per_second > 0.0):
        return UNKNOWN
    busy = busy_share if math.isfinite(busy_share) else 1.0
    gpu_seconds = prices.gpus_per_replica * busy * (1.0 - 1.0 / slower)
    hours = gpu_seconds * HOURS_PER_DAY
    return Loss(
        tokens_per_second=tokens_per_second * (slower - 1.0),
        gpu_seconds_per_million_tokens=gpu_seconds / tokens_per_second * MILLION,
        gpu_hours_per_day=hours,
        money_per_day=hours * prices.gpu_hour_cost,
    )


def over(slower: float, tokens: float, busy_seconds: float, prices: Prices) -> Spent:
    """Return what a change has cost over `tokens` delivered in `busy_seconds` of decoding."""
    if not (math.isfinite(slower) and slower > 0.0):
        return NOT_KNOWN_SO_FAR
    hours = prices.gpus_per_replica * busy_seconds * (1.0 - 1.0 / slower) / SECONDS_PER_HOUR
    return Spent(tokens * (slower - 1.0), hours, hours * prices.gpu_hour_cost)


def total(losses: Sequence[Loss], delivered: Sequence[float]) -> Loss:
    """Return what several replicas lose together; `delivered` are their tokens per second.

    Replicas of which it is unknown are left out; NaN where it is of all.
    """
    known = [
        (loss, tokens)
        for loss, tokens in zip(losses, delivered, strict=True)
        if math.isfinite(loss.gpu_hours_per_day)
    ]
    if not known:
        return UNKNOWN
    hours = sum(loss.gpu_hours_per_day for loss, _ in known)
    gpu_seconds = hours / HOURS_PER_DAY
    return Loss(
        tokens_per_second=sum(loss.tokens_per_second for loss, _ in known),
        gpu_seconds_per_million_tokens=gpu_seconds / sum(tokens for _, tokens in known) * MILLION,
        gpu_hours_per_day=hours,
        money_per_day=_sum([loss.money_per_day for loss, _ in known]),
    )


def total_spent(spent: Sequence[Spent]) -> Spent:
    """Return what a change has cost several replicas so far; unknown ones are left out."""
    return Spent(
        _sum([each.tokens for each in spent]),
        _sum([each.gpu_hours for each in spent]),
        _sum([each.money for each in spent]),
    )


def _sum(values: Sequence[float]) -> float:
    """Return the sum of what is known, NaN where nothing is: replicas without a price have no money."""
    known = [value for value in values if math.isfinite(value)]
    return sum(known) if known else math.nan
