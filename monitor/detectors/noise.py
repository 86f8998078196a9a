"""How much a score varies while nothing is wrong: variance = spread / information + floor.

The information of a bucket is the precision that binomial counting would give it. Requests bring their own
difficulty, so true scores vary more: `spread` is 1 for pure counting and grows with the tokens a request
brings, and it is learnt from the stream. `floor` is what no amount of traffic averages out; it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from monitor.detectors.base import Bools, Floats, State

PRIOR_SPREAD = 40.0
PRIOR_BUCKETS = 5.0
MEMORY_BUCKETS = 3000.0
WINSOR = 10.0
MIN_SPREAD = 1.0
_EPS = 1e-9


def dtype(channels: int) -> np.dtype[np.void]:
    """Return the columns for `channels` scores."""
    return np.dtype([("spread", "f8", channels), ("seen", "f8", channels)])


def allocate(state: State) -> None:
    """Set fresh rows to the prior."""
    state["spread"] = PRIOR_SPREAD


def variance(state: State, information: Floats, floor: float) -> Floats:
    """Return the variance [B, C] of scores with the given information."""
    result: Floats = state["spread"] / np.maximum(information, _EPS) + floor
    return result


def learn(state: State, score: Floats, information: Floats, floor: float, use: Bools) -> None:
    """Learn from the scores [B, C] where `use`; outliers count as `WINSOR` variances."""
    spread = state["spread"]
    sample = np.maximum(np.minimum((score * score - floor) * information, WINSOR * spread), 0.0)
    seen = np.minimum(state["seen"] + use, MEMORY_BUCKETS)
    state["seen"] = seen
    gain = use / (PRIOR_BUCKETS + seen)
    state["spread"] = np.maximum(spread + gain * (sample - spread), MIN_SPREAD)
