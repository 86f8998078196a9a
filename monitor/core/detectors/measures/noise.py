"""How much a score varies while nothing is wrong: variance = spread / information + floor.

The information of a bucket is the precision that binomial counting would give it. Requests bring their own
difficulty, so true scores vary more: `spread` is 1 for pure counting and grows with the tokens a request
brings, and it is learnt from the stream. `floor` is what no amount of traffic averages out; it is given.

`center` is where contrasts are while nothing is wrong. It is not 0 where few requests make a bucket: over
many requests the late positions are reached by the easy ones more often, within one request they are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats, State

PRIOR_SPREAD = 40.0
"""Variance over that of counting before anything was learnt: requests of 0.5 logits' spread, 60 drafts
each."""

PRIOR_BUCKETS = 5.0
"""Buckets that the prior is worth: few, for the first minutes of a stream tell more than it."""

MEMORY_BUCKETS = 3000.0
"""Buckets that are remembered: half a day at 15 s."""

WINSOR = 10.0
"""Times the spread that one bucket's square counts for in learning it: beyond three errors it is no noise."""

LEAST_SPREAD = 1.0
"""Variance over that of counting that is never undercut: counting is the least."""

CENTER_BUCKETS = 50.0
"""Buckets over which where contrasts stand is learnt, at first; later as slowly as the spread."""

CENTERED = np.array([0.0] + [1.0] * (base.POSITIONS - 1))
"""Which scores have a center: the seven contrasts. The level's is the baseline's own affair."""

LEVEL_FLOOR = 0.004
"""Variance (logits²) of the level that no amount of traffic averages out: 0.06 logits, what the mix of
content does from minute to minute where drafts are many."""

FLOORS = np.array([LEVEL_FLOOR] + [3e-4] * (base.POSITIONS - 1))
"""The same of the level and of each contrast, where the mix cancels: 0.017 logits."""

_EPS = 1e-9
"""Keeps quotients finite; decides nothing."""

DTYPE = np.dtype(
    [
        ("spread", "f4", base.POSITIONS),  # variance of scores over binomial variance: level, contrasts
        ("seen", "f4", base.POSITIONS),  # buckets that it was learnt from
        ("center", "f4", base.POSITIONS),  # usual score of each, logits
    ]
)


def allocate(state: State) -> None:
    """Set fresh rows to the prior."""
    state["spread"] = PRIOR_SPREAD


def variance(state: State, information: Floats) -> Floats:
    """Return the variance [B, 8] of scores with the given information."""
    result: Floats = state["spread"] / np.maximum(information, _EPS) + FLOORS
    return result


def learn(state: State, score: Floats, information: Floats, use: Bools) -> None:
    """Learn from the scores [B, 8] where `use`, contrasts about their center; outliers are cut."""
    spread = state["spread"]
    square = score * score
    sample = base.clip((square - FLOORS) * information, 0.0, WINSOR * spread)
    seen = np.minimum(state["seen"] + use, MEMORY_BUCKETS)
    state["seen"] = seen
    state["spread"] = np.maximum(spread + use * (sample - spread) / (PRIOR_BUCKETS + seen), LEAST_SPREAD)
    state["center"] += CENTERED * use * score / (CENTER_BUCKETS + seen)
