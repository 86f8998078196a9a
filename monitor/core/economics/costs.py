"""What a slower token costs: tokens not delivered, GPU time and money.

Every figure compares the time that the same tokens took with what they took before: `tpot_ratio` is the time
per output token after ÷ before, so of each second spent decoding a share of 1 − 1/ratio is extra. It is a
statement on work, not on the load balancer: replicas that idle half of the day lose half as much, which is
why it is summed over intervals in which tokens flowed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HOURS_PER_DAY = 24.0
SECONDS_PER_HOUR = 3600.0
MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Prices:
    """What one replica occupies and costs: GPUs, and the price of one of them for an hour (NaN: not told)."""

    gpus_per_replica: float = 1.0
    gpu_hour_cost: float = math.nan


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


UNKNOWN = Loss(math.nan, math.nan, math.nan, math.nan)


def at_present(tpot_ratio: float, tokens_per_second: float, busy_share: float, prices: Prices) -> Loss:
    """Return what a change costs now.

    tokens_per_second: what the replica delivers at present; busy_share: share of the time in which it decodes
    (0..1).
    """
    if not (math.isfinite(tpot_ratio) and tpot_ratio > 0.0 and tokens_per_second > 0.0):
        return UNKNOWN
    extra = 1.0 - 1.0 / tpot_ratio
    gpu_seconds = prices.gpus_per_replica * busy_share * extra
    hours = gpu_seconds * HOURS_PER_DAY
    return Loss(
        tokens_per_second=tokens_per_second * (tpot_ratio - 1.0),
        gpu_seconds_per_million_tokens=gpu_seconds / tokens_per_second * MILLION,
        gpu_hours_per_day=hours,
        money_per_day=hours * prices.gpu_hour_cost,
    )


def over(tpot_ratio: float, busy_seconds: float, prices: Prices) -> tuple[float, float]:
    """Return the GPU-hours and the money that a change has cost in `busy_seconds` of decoding so far."""
    hours = prices.gpus_per_replica * busy_seconds * (1.0 - 1.0 / tpot_ratio) / SECONDS_PER_HOUR
    return hours, hours * prices.gpu_hour_cost


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
        money_per_day=sum(loss.money_per_day for loss, _ in known),
    )
