"""Trials against the baseline, in logits: one level for all positions and the contrasts between them.

With n trials, x successes and baseline rate p, x - n p is a residual and n p (1 - p) its information; their
ratio is, to first order, the shift in logit. What makes a request hard moves all positions together, so
the contrast "positions from s on, less those before s" cancels it and shows what a level cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from monitor.detectors.base import Bools, Floats

LARGEST = 3.0
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
    expected = trials * rate
    residual = np.where(known, successes - expected, 0.0)
    information = np.where(known, expected * (1.0 - rate), 0.0)
    before, info_before = np.cumsum(residual, 1), np.cumsum(information, 1)
    total, info = before[:, -1:], info_before[:, -1:]
    early, late = info_before[:, :-1], info - info_before[:, :-1]
    prefix = before[:, :-1] / np.maximum(early, _EPS)
    suffix = (total - before[:, :-1]) / np.maximum(late, _EPS)
    usable = (early > LEAST_INFORMATION) & (late > LEAST_INFORMATION)
    level = np.clip(total[:, 0] / np.maximum(info[:, 0], _EPS), -LARGEST, LARGEST)
    return Scores(
        level=level,
        level_information=info[:, 0],
        contrast=np.where(usable, np.clip(suffix - prefix, -LARGEST, LARGEST), 0.0),
        contrast_information=np.where(usable, early * late / np.maximum(info, _EPS), 0.0),
        prefix=prefix,
        suffix=suffix,
    )
