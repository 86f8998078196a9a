"""How steeply the tail of a statistic falls, learnt from the peaks of its calm excursions.

While nothing is wrong, peaks above `EXCURSION` nats should fall off as e^-x. Where a stream's own mean excess
is larger, so must its limits be. The state has fields `peak`, `excursions` (their number, with a prior) and
`excess` (the sum over them), all of one shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats, State

EXCURSION = 2.0
"""Nats above which a peak is an excursion: chance reaches them once in seven times, so there are enough to
learn from."""

MEMORY = 300.0
"""Excursions that are remembered (e-folding): a day or two."""

LARGEST_EXCESS = 12.0
"""Nats above `EXCURSION` that one peak counts for: one accident does not set the limit."""


def allocate(state: State, prior: float) -> None:
    """Set fresh rows to a tail that falls as it should, worth `prior` excursions."""
    state["excursions"] = state["excess"] = prior


def limits(nats: float | Floats, state: State, steepest: float) -> Floats:
    """Return the limits, in nats, that a tail of e^-x would have at `nats`; `steepest` bounds its mean."""
    tail = base.clip(state["excess"] / state["excursions"], 1.0, steepest)
    result: Floats = EXCURSION + (nats - EXCURSION) * tail
    return result


def learn(state: State, height: Floats, low: Bools, enabled: Bools) -> None:
    """Take in the statistic's `height`; an excursion ends where it is `low`, and counts where `enabled`."""
    peak = state["peak"]
    over = low & (peak > EXCURSION) & enabled
    if over.any():
        fade = np.where(over & (state["excursions"] > MEMORY), 1.0 - 1.0 / MEMORY, 1.0)
        state["excursions"] = (state["excursions"] + over) * fade
        state["excess"] = (state["excess"] + over * np.minimum(peak - EXCURSION, LARGEST_EXCESS)) * fade
    state["peak"] = np.maximum(peak, height) * ~low
