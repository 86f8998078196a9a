"""Hand-made trials and baselines, a row each, for tests of one detector alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.detectors.measures import evidence, reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.core.detectors.base import Floats, State

START = 1_700_000_000.0
SECONDS = 15.0
RATES = (0.8, 0.7, 0.6)


def accepted(drafts: float, rates: Sequence[float] = RATES) -> list[float]:
    """Return the accepted tokens of each position that conditional acceptances promise."""
    result: list[float] = (drafts * np.cumprod(rates)).tolist()
    return result


def trials(number: int, drafts: float, kept: Sequence[float], *, seconds: float = SECONDS) -> evidence.Trials:
    """Return the trials of the interval `number` of one stream."""
    sums = np.zeros((1, base.NUM_SUMS))
    if drafts:
        sums[0, : len(kept)] = [drafts, *kept[:-1]]
        sums[0, base.POSITIONS : base.POSITIONS + len(kept)] = kept
    sums[0, base.DRAFTS], sums[0, base.ACCEPTED], sums[0, base.TOKENS] = drafts, sum(kept), drafts * len(kept)
    at = np.array([START + SECONDS * number])
    one = np.array([float(drafts)])
    return evidence.Trials(
        at=at,
        began_at=at - seconds,
        drafts=one,
        accepted=np.array([float(sum(kept))]),
        proposed=one,
        lump=np.zeros(1, bool),
        sums=sums,
        drafted=np.array([float(len(kept))]),
        depth=np.array([float(len(kept))]),
        single=np.zeros(1, bool),
    )


def baseline(drafts: float = 1e6, rates: Sequence[float] = RATES, *, age: float = 1e5) -> State:
    """Return what a stream is compared with: a baseline of so many drafts that began `age` seconds ago."""
    state = np.zeros(1, reference.DTYPE)
    reference.allocate(state)
    state["sums"] = trials(0, drafts, accepted(drafts, rates)).sums
    state["buckets"], state["began_at"], state["drafted"] = 1000.0, START - age, len(rates)
    state["depth"] = len(rates)
    reference.derive(state)
    return state


def row(*values: float) -> Floats:
    """Return the values of as many streams."""
    return np.array(values, np.float64)
