"""Estimates and counts made by hand, as arrays of one row or a few."""

from __future__ import annotations

import numpy as np

from monitor.core.counts import deltas
from monitor.core.counts.estimates import Estimates
from monitor.core.pages.engines.base import NUM_COUNTERS, Counter, Evidence

FIELDS = Estimates.__dataclass_fields__


def estimates(**values: float | list[float]) -> Estimates:
    """Estimates with these values; everything else unknown."""
    rows = max((len(np.atleast_1d(value)) for value in values.values()), default=1)
    made = {name: np.full(rows, np.nan) for name in FIELDS}
    made |= {name: np.atleast_1d(np.asarray(value, float)) for name, value in values.items()}
    return Estimates(**made)


def interval(step_seconds: float, batch_size: float, drafted: float, steps: float = 100.0) -> deltas.Counts:
    """One interval of one stream: so many steps of a batch, each with so many draft tokens a request."""
    values = np.full((1, NUM_COUNTERS), np.nan)
    outputs = steps * batch_size
    values[0, Counter.ENGINE_STEPS] = steps
    values[0, Counter.DECODE_OUTPUTS] = outputs
    values[0, Counter.DECODE_SECONDS] = outputs * step_seconds
    values[0, Counter.FIRST_TOKENS] = 0.0
    values[0, Counter.DRAFTS] = outputs if drafted else 0.0
    values[0, Counter.DRAFT_TOKENS] = outputs * drafted
    flags = np.zeros(1, bool)
    return deltas.Counts(
        rows=np.zeros(1, np.intp),
        at=np.array([0.0]),
        seconds=np.array([15.0]),
        values=values,
        accepted=np.zeros((1, 8)),
        positions=np.zeros(1, np.int64),
        num_speculative_tokens=np.zeros(1, np.int64),
        evidence=np.full(1, Evidence.STEPS, np.int64),
        restarted=flags.copy(),
        gap=flags.copy(),
        new_regime=flags.copy(),
    )
