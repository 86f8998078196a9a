"""Trials against the baseline, in logits: one level for all positions and the contrasts between them.

With n trials, x successes and baseline rate p, x - n p is a residual and n p (1 - p) its information; their
ratio is, to first order, the shift in logit. What makes a request hard moves all positions together, so
the contrast "positions from s on, less those before s" cancels it and shows what a level cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base

if TYPE_CHECKING:
    from monitor.detectors.base import Bools, Floats

LEAST_RATE = 0.01
LEAST_INFORMATION = 3.0
_EPS = 1e-9


@dataclass(frozen=True, slots=True)
class Scores:
    """level, level_information [B]; contrast, contrast_information [B, 7], 0 where there is no evidence.

    prefix, suffix [B, 7]: the two shifts whose difference contrast s-1 is (positions before s, from s on).
    """

    level: Floats
    level_information: Floats
    contrast: Floats
    contrast_information: Floats
    prefix: Floats
    suffix: Floats


def against(trials: Floats, successes: Floats, rate: Floats, known: Bools) -> Scores:
    """Return the scores of trials [B, 8] against the rates [B, 8] of the `known` positions."""
    information = np.where(known, trials * rate * (1.0 - rate), 0.0)
    residual = np.where(known, successes - trials * rate, 0.0)
    sums = np.cumsum(np.stack([residual, information, information * rate], 1), 2)
    total = sums[:, :, -1:]
    # one column for all positions, then what lies before each later position, then what lies from it on
    parts = np.concatenate([total, sums[:, :, :-1], total - sums[:, :, :-1]], 2)
    weight = np.maximum(parts[:, 1], _EPS)
    shift = _logit_shift(parts[:, 0] / weight, parts[:, 2] / weight)
    early, late = parts[:, 1, 1 : base.POSITIONS], parts[:, 1, base.POSITIONS :]
    prefix, suffix = shift[:, 1 : base.POSITIONS], shift[:, base.POSITIONS :]
    usable = (early > LEAST_INFORMATION) & (late > LEAST_INFORMATION)
    return Scores(
        level=shift[:, 0],
        level_information=total[:, 1, 0],
        contrast=np.where(usable, suffix - prefix, 0.0),
        contrast_information=np.where(usable, early * late / np.maximum(total[:, 1], _EPS), 0.0),
        prefix=prefix,
        suffix=suffix,
    )


def _logit_shift(slope: Floats, rate: Floats) -> Floats:
    """Return the shift in logit whose first-order term is `slope`: requests scatter evenly in logits, not in rates."""
    rate = np.clip(rate, LEAST_RATE, 1.0 - LEAST_RATE)
    odds = rate / (1.0 - rate)
    moved = np.clip(rate + rate * (1.0 - rate) * slope, LEAST_RATE, 1.0 - LEAST_RATE)
    result: Floats = np.log(moved / ((1.0 - moved) * odds))
    return result
