"""How long a step takes at which batch size and with how many draft tokens, from the stream's own intervals.

Each interval gives one mean step time y at a mean batch size b with d draft tokens a step and request. Two
least squares are kept as sums that fade with `MEMORY_SECONDS`:

    undrafted   y = a + s·b                    intervals without any draft: measured plain steps
    drafted     y = a + s·b + c·d + v·b·d      all intervals: c is what drafting costs, v what verifying does

The second tells the plain step time (d = 0) only where d varied: an adaptive depth, a k that was changed,
coverage below 1. Where it did not, the interval of the answer is as wide as that, and nothing is claimed.
Intervals of a few seconds share their requests, so that their noise is correlated; the variance is taken
`CORRELATED` times as large. Cannot see: prefill that rides in decode steps more often at larger batches (it
is in s), and other work on the same GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.counts import estimates
from monitor.core.economics import accounting
from monitor.core.pages.engines.base import Counter

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts
    from monitor.core.counts.estimates import Estimates
    from monitor.core.economics.accounting import Sized

    Floats = npt.NDArray[np.float64]
    State = npt.NDArray[np.void]

UNDRAFTED, DRAFTED = 2, 4
"""Coefficients of the two fits."""

DTYPE = np.dtype(
    [
        ("undrafted", "f8", (UNDRAFTED + 1, UNDRAFTED + 1)),  # sums of (1, b, y)ᵀ(1, b, y), faded
        ("drafted", "f8", (DRAFTED + 1, DRAFTED + 1)),  # sums of (1, b, d, b·d, y)ᵀ(…), faded
    ],
)

MEMORY_SECONDS = 2 * 86_400.0
"""A step time of two days ago counts 1/e: long enough for a daily rhythm of batch sizes to be in it."""
CORRELATED = 4.0
"""Intervals that tell as much as one independent one; requests of a minute over scrapes of 15 s."""
LEAST_INTERVALS = 8.0
"""Fewer (faded) intervals are no history."""
LARGEST_ERROR = 0.35
"""A relative standard error beyond it is no estimate: the interval would span a factor of two each way."""
LEAST_SHARE = 0.2
"""Share of the mean step time that a plain step takes at least: drafts make no step five times
as long, and a fit that says so has run off (a page whose step times do not scatter)."""
RIDGE = 1e-9
"""Of the diagonal: keeps singular sums solvable; what they leave open shows as a huge variance."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Step times in seconds and their standard errors, [N]; NaN where the history does not tell them."""

    seconds: Floats
    error: Floats


def add(state: State, counts: Counts, running: Floats) -> None:
    """Add the intervals of `counts` to the rows of `state` in place.

    running: [B] requests in a batch as the page's gauge says, for engines that do not count their steps.
    """
    values = counts.values
    outputs, steps = values[:, Counter.DECODE_OUTPUTS], values[:, Counter.ENGINE_STEPS]
    with np.errstate(invalid="ignore", divide="ignore"):
        by_output = values[:, Counter.DECODE_SECONDS] / outputs
        seconds = np.where(np.isnan(by_output), values[:, Counter.ENGINE_STEP_SECONDS] / steps, by_output)
        first = values[:, Counter.FIRST_TOKENS]
        batch = (outputs + np.where(np.isnan(first), 0.0, first)) / steps
        batch = np.where(np.isfinite(batch), batch, running)
        drafted = values[:, Counter.DRAFT_TOKENS] / outputs
    drafts = values[:, Counter.DRAFTS]
    none = np.isnan(drafts) | (drafts == 0.0)
    drafted = np.where(none, 0.0, drafted)
    good = np.isfinite(seconds) & np.isfinite(batch) & (seconds > 0.0) & (batch > 0.0)
    fading = np.exp(-np.fmax(counts.seconds, 0.0) / MEMORY_SECONDS)
    if (none & good).any():
        _accumulate(state["undrafted"], (np.ones(len(batch)), batch, seconds), none & good, fading)
    both = good & np.isfinite(drafted)
    if both.any():
        columns = (np.ones(len(batch)), batch, drafted, batch * drafted, seconds)
        _accumulate(state["drafted"], columns, both, fading)


def _accumulate(
    sums: Floats, columns: tuple[Floats, ...], used: npt.NDArray[np.bool_], fading: Floats
) -> None:
    row = np.where(used[:, None], np.stack(columns, 1), 0.0)
    sums *= np.where(used, fading, 1.0)[:, None, None]
    sums += row[:, :, None] * row[:, None, :]


def undrafted(state: State, batch: Floats) -> StepTime:
    """Return the plain step time at `batch` [N] as measured in intervals without drafts."""
    return _predict(state["undrafted"], np.stack((np.ones(len(batch)), batch), 1))


def plain(state: State, batch: Floats) -> StepTime:
    """Return the plain step time at `batch` [N] by the fit over drafted intervals: an estimate."""
    zero = np.zeros(len(batch))
    return _predict(state["drafted"], np.stack((np.ones(len(batch)), batch, zero, zero), 1))


def at(state: State, batch: Floats, drafted: Floats) -> StepTime:
    """Return the step time at `batch` with `drafted` draft tokens a step and request, [N] each."""
    return _predict(state["drafted"], np.stack((np.ones(len(batch)), batch, drafted, batch * drafted), 1))


def batch_effect(state: State, before: Floats, after: Floats, drafted: Floats) -> Floats:
    """Return ln(step time at batch `after` ÷ at `before`) with `drafted` tokens [N]; NaN where unknown."""
    first, second = at(state, before, drafted), at(state, after, drafted)
    with np.errstate(invalid="ignore", divide="ignore"):
        effect: Floats = np.log(second.seconds / first.seconds)
    return effect


def accounted(state: State, before: Sized, after: Estimates) -> accounting.Shares:
    """Return the log shares of a change of TPOT [N], what the batch did to it by each row's history."""
    drafted = estimates.draft_length(after) * np.nan_to_num(after.coverage, nan=1.0)
    effect = batch_effect(state, before.batch_size, after.batch_size, drafted)
    return accounting.between(before, after, effect)


def _predict(sums: Floats, wanted: Floats) -> StepTime:
    """Return the value at `wanted` [N, p] of the least squares in `sums` [N, p + 1, p + 1]."""
    size = wanted.shape[1]
    normal, moment = sums[:, :size, :size], sums[:, :size, size]
    number = sums[:, 0, 0]
    scale = np.sqrt(np.maximum(np.einsum("nii->ni", normal), 1e-30))
    scaled = normal / scale[:, :, None] / scale[:, None, :] + RIDGE * np.eye(size)
    inverse = np.linalg.inv(np.where((number > 0)[:, None, None], scaled, np.eye(size)))
    coefficients = np.einsum("nij,nj->ni", inverse, moment / scale) / scale
    residual = sums[:, size, size] - np.einsum("ni,ni->n", coefficients, moment)
    freedom = np.maximum(number - size, 1.0)
    at_point = wanted / scale
    leverage = np.einsum("ni,nij,nj->n", at_point, inverse, at_point)
    seconds = np.einsum("ni,ni->n", wanted, coefficients)
    floor = (1e-3 * seconds) ** 2  # a history without scatter is rounded, not exact
    variance = np.maximum(residual / freedom, floor) * CORRELATED * leverage
    error = np.sqrt(np.maximum(variance, 0.0))
    usual = moment[:, 0] / np.maximum(number, 1.0)
    told = (number >= LEAST_INTERVALS) & (seconds > LEAST_SHARE * usual) & (error <= LARGEST_ERROR * seconds)
    return StepTime(np.where(told, seconds, np.nan), np.where(told, error, np.nan))
