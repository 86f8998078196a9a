"""Trials against the baseline, in logits: one level for all positions and the contrasts between them.

With n trials, x successes and baseline rate p, x - n p is a residual and n p (1 - p) its information; their
ratio is, to first order, the shift in logit. What makes a request hard moves all positions together, so
the contrast "positions from s on, less those before s" cancels it and shows what a level cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats

LEAST_RATE = 0.01
"""Rates are kept this far from 0 and 1 in logits: at most 4.6 of them."""

LEAST_INFORMATION = 3.0
"""Information that both sides of a contrast must have: some fifteen trials each."""

_EPS = 1e-9
"""Keeps quotients finite; decides nothing."""

_P = base.POSITIONS


@dataclass(frozen=True, slots=True)
class Scores:
    """shift, information [B, 8]: the level's first, then of the contrasts s = 1 … 7; 0 without evidence."""

    shift: Floats
    information: Floats


def against(sums: Floats, rate: Floats, known: Bools) -> Scores:
    """Return the scores of sums [B, 19] against the rates [B, 8] of the `known` positions."""
    trials = sums[:, base.TRIALS] * known
    expected = trials * rate
    terms = np.empty((len(sums), 3, _P))
    terms[:, 0] = sums[:, base.SUCCESSES] * known - expected
    terms[:, 1] = expected * (1.0 - rate)
    terms[:, 2] = terms[:, 1] * rate
    running = np.cumsum(terms, 2)
    # one column for all positions, then what lies before each later position, then what lies from it on
    parts = np.empty((len(sums), 3, 2 * _P - 1))
    parts[:, :, 0] = running[:, :, -1]
    parts[:, :, 1:_P] = running[:, :, :-1]
    parts[:, :, _P:] = running[:, :, -1:] - running[:, :, :-1]
    weight = np.maximum(parts[:, 1], _EPS)
    moved = _logit_shift(parts[:, 0] / weight, parts[:, 2] / weight)
    early, late, total = parts[:, 1, 1:_P], parts[:, 1, _P:], parts[:, 1, :1]
    usable = np.minimum(early, late) > LEAST_INFORMATION
    shift, information = np.empty((len(sums), _P)), np.empty((len(sums), _P))
    shift[:, 0] = moved[:, 0]
    shift[:, 1:] = (moved[:, _P:] - moved[:, 1:_P]) * usable
    information[:, 0] = total[:, 0]
    information[:, 1:] = early * late / np.maximum(total, _EPS) * usable
    return Scores(shift, information)


def _logit_shift(slope: Floats, rate: Floats) -> Floats:
    """Return the shift in logit whose first-order term is `slope`: requests scatter evenly in logits only."""
    rate = base.clip(rate, LEAST_RATE, 1.0 - LEAST_RATE)
    rest = 1.0 - rate
    moved = base.clip(rate + rate * rest * slope, LEAST_RATE, 1.0 - LEAST_RATE)
    result: Floats = np.log(moved * rest / ((1.0 - moved) * rate))
    return result
