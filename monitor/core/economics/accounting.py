"""Where a change of the time per output token came from, exact to rounding.

A request gets `tokens per step` tokens every `step time`, so TPOT = step time ÷ tokens per step, and the
logarithm of a change of TPOT is a sum of shares:

    ln(TPOT₂ ÷ TPOT₁) = acceptance + coverage + delivery + batch + rest

Tokens per step are modelled as 1 + coverage × (MAL − 1). Acceptance and coverage share the change of that
model as its two arguments move, averaged over both orders (Shapley values), so neither comes first; delivery
is what was counted beside the model (tokens cut off at a request's end). The step time splits into what the
batch size explains by the stream's own history (`fits`) and the rest: kernels, prefill, the draft's own time.
Shares of quantities that are unknown are in `rest`, and a share that cannot be told is 0, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

NAMES = ("acceptance", "coverage", "delivery", "batch", "rest")
"""The shares in the order in which they are told."""

TOLD_LOG_SHARE = 0.005
"""Smallest share that a sentence names, in logarithms: half a percent."""


class Measured(Protocol):
    """What one side of a change was like, [N] each, NaN where unknown: `Estimates` are, and `Usual`."""

    @property
    def mal(self) -> Floats:
        """Mean acceptance length."""

    @property
    def coverage(self) -> Floats:
        """Share of decode steps that carried a draft."""

    @property
    def tokens_per_step(self) -> Floats:
        """Tokens delivered a decode step and request."""

    @property
    def step_seconds(self) -> Floats:
        """Seconds of one engine step."""


class Sized(Measured, Protocol):
    """One side of a change with the requests that were served at once."""

    @property
    def batch_size(self) -> Floats:
        """Requests in a batch."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Logarithms, [N] each, whose sum is `total` = ln(TPOT after ÷ TPOT before); NaN where unknown."""

    total: Floats
    acceptance: Floats
    coverage: Floats
    delivery: Floats
    batch: Floats
    rest: Floats


def between(before: Measured, after: Measured, batch_effect: Floats | None = None) -> Shares:
    """Return the shares of each row's change of implied TPOT.

    batch_effect: [N] ln of the step time at the later batch size ÷ at the earlier one, by the stream's own
    history (`fits.batch_effect`); NaN or None where there is none.
    """
    step = _log_ratio(after.step_seconds, before.step_seconds)
    counted = _log_ratio(after.tokens_per_step, before.tokens_per_step)
    total = step - counted
    bonus = before.mal - 1.0, after.mal - 1.0
    cover = _full_where_unknown(before), _full_where_unknown(after)
    acceptance = -0.5 * sum(_log_tokens(c, bonus[1]) - _log_tokens(c, bonus[0]) for c in cover)
    coverage = -0.5 * sum(_log_tokens(cover[1], b) - _log_tokens(cover[0], b) for b in bonus)
    acceptance, coverage = np.nan_to_num(acceptance), np.nan_to_num(coverage)
    delivery = -counted - acceptance - coverage
    batch = np.zeros(len(total)) if batch_effect is None else np.nan_to_num(batch_effect)
    unknown = np.isnan(total)
    acceptance, coverage, delivery, batch = (
        np.where(unknown, np.nan, share) for share in (acceptance, coverage, delivery, batch)
    )
    rest = total - acceptance - coverage - delivery - batch
    return Shares(total, acceptance, coverage, delivery, batch, rest)


def _log_ratio(later: Floats, earlier: Floats) -> Floats:
    """Return ln(later ÷ earlier), NaN where one of them is unknown or not above zero."""
    positive = (later > 0.0) & (earlier > 0.0)
    return np.log(np.where(positive, later, np.nan)) - np.log(np.where(positive, earlier, np.nan))


def _full_where_unknown(made: Measured) -> Floats:
    """Return the coverage, 1 where the page does not tell which steps had a draft."""
    return np.where(np.isnan(made.coverage), 1.0, made.coverage)


def _log_tokens(coverage: Floats, bonus: Floats) -> Floats:
    return np.log1p(coverage * np.where(coverage == 0.0, 0.0, bonus))


def at_row(shares: Shares, row: int) -> dict[str, float]:
    """Return one row's `total` and shares by name; NaN where unknown."""
    return {name: float(getattr(shares, name)[row]) for name in ("total", *NAMES)}


def sentence(shares: dict[str, float]) -> str:
    """Return the accounting in words, each share as the percentage it alone makes; empty where unknown."""
    total = shares["total"]
    if not np.isfinite(total):
        return ""
    verb = "rose" if total > 0 else "fell"
    told = [(name, shares[name]) for name in NAMES if abs(shares[name]) >= TOLD_LOG_SHARE]
    told.sort(key=lambda each: -abs(each[1]))
    parts = ", ".join(f"{name} {_percent(share)}" for name, share in told)
    size = f"TPOT {verb} {abs(np.expm1(total)):.0%}".replace("%", " %")
    return f"{size}: {parts}" if parts else "TPOT did not move"


def _percent(log_share: float) -> str:
    return f"{np.expm1(log_share):+.0%}".replace("%", " %").replace("-", "−")
